//! Copying between files.
use crate::error::{Error, Result};
use crate::files::{SIZE, check_readable};
use crate::volume::Volume;
use segno_format::Ino;
use segno_format::inode::{InodeFlags, RawInode, max_file_size};

/// Bytes per copy.
const STEP: usize = 1 << 20;

impl Volume {
    /// Copies bytes between files or within one. Returns their number, which is smaller than `len` at the end of the
    /// source or when space runs out. Holes past the end of the destination stay holes.
    pub fn copy_range(&self, src: Ino, src_off: u64, dst: Ino, dst_off: u64, len: u64) -> Result<u64> {
        let size = {
            let inode = self.files.inode(src)?;
            check_readable(&inode)?;
            inode.size()
        };
        let len = len.min(size.saturating_sub(src_off));
        let overlap = src_off < dst_off.saturating_add(len) && dst_off < src_off.saturating_add(len);
        if src == dst && overlap {
            return Err(Error::Invalid("the ranges overlap"));
        }
        let mut buffer = vec![0; STEP.min(usize::try_from(len).unwrap_or(STEP))];
        let mut done = 0;
        while done < len {
            let (from, to) = (src_off.saturating_add(done), dst_off.saturating_add(done));
            let step = match self.skip_hole(src, from, dst, to, len - done) {
                Ok(0) => self.copy_step(src, from, dst, to, &mut buffer, len - done),
                skipped => skipped,
            };
            match step {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// Copies one piece, which ends at a block boundary of the destination or at the end of the source's data.
    fn copy_step(&self, src: Ino, from: u64, dst: Ino, to: u64, buffer: &mut [u8], left: u64) -> Result<u64> {
        let mut want = (STEP as u64 - to % SIZE).min(left).min(buffer.len() as u64);
        if let Ok(hole) = self.seek_hole(src, from)
            && hole > from
        {
            want = want.min(hole - from);
        }
        let buffer = buffer.get_mut(..want as usize).unwrap_or_default();
        let got = self.read(src, from, buffer)?;
        Ok(self.write(dst, to, buffer.get(..got).unwrap_or_default())? as u64)
    }

    /// If the source has a hole at `from` and the destination ends before `to`, extends the destination over the hole
    /// and returns its length, else 0.
    fn skip_hole(&self, src: Ino, from: u64, dst: Ino, to: u64, left: u64) -> Result<u64> {
        let hole = match self.seek_data(src, from) {
            Ok(data) => data.saturating_sub(from).min(left),
            Err(Error::NoSuchOffset) => left,
            Err(e) => return Err(e),
        };
        if hole < SIZE {
            return Ok(0);
        }
        self.admission.admit_change()?;
        let inode = self.files.inode(dst)?;
        let _exclusive = inode.lock.write();
        check_readable(&inode)?;
        let append_only = inode.get(RawInode::flags).contains(InodeFlags::APPEND);
        if to < inode.size() || append_only {
            return Ok(0);
        }
        let room = max_file_size(inode.layout(self.base.features)?.per_node).saturating_sub(to);
        if room == 0 {
            // A write there reports that the file is at its maximum size.
            return Ok(0);
        }
        let hole = hole.min(room);
        let _excluded = inode.exclude_flush();
        self.files.set_size(&self.base.tx.begin(), &inode, to.saturating_add(hole))?;
        Ok(hole)
    }
}
