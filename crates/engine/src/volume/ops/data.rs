//! Content of regular files.
use crate::error::{Error, Result};
use crate::files::{BlockKind, Reserve, SIZE, WRITE_MAX};
use crate::room::Grant;
use crate::stat;
use crate::types::{Extent, FallocMode};
use crate::volume::Volume;
use segno_format::inode::RawInode;
use segno_format::{BLOCK_SIZE, Ino};
use std::ops::Range;

impl Volume {
    /// Reads from a regular file; short only at its end. Bytes of `into` past the returned count may change.
    pub fn read(&self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.admission.admit_read();
        self.files.read(ino, offset, into)
    }

    /// Writes to a regular file. Short if space runs out.
    pub fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        let mut done = 0;
        loop {
            let part = data.get(done..).unwrap_or_default();
            let part = part.get(..WRITE_MAX).unwrap_or(part);
            let _in_flight = self.base.mem.in_flight.hold(part.len().div_ceil(BLOCK_SIZE) + 1);
            match self.write_with_room(ino, offset.saturating_add(done as u64), part) {
                Ok(n) => {
                    done += n;
                    if n < part.len() || done >= data.len() {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        stat::add(&self.base.stats.user_bytes, done as u64);
        Ok(done)
    }

    fn write_with_room(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        let inode = self.admission.admit_write(ino)?;
        self.files.write(&inode, offset, data)
    }

    /// Reserves, zeroes, frees or moves a byte range of a regular file.
    pub fn fallocate(&self, ino: Ino, mode: FallocMode, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Err(Error::Invalid("fallocate of no bytes"));
        }
        let bytes = offset..offset.checked_add(len).ok_or(Error::FileTooBig)?;
        let reserve = |keep_size, zero| self.reserve(ino, &bytes, Reserve { keep_size, zero });
        match mode {
            FallocMode::Allocate => reserve(false, false),
            FallocMode::AllocateKeepSize => reserve(true, false),
            FallocMode::ZeroRange => reserve(false, true),
            FallocMode::ZeroRangeKeepSize => reserve(true, true),
            FallocMode::PunchHole => {
                self.admission.admit_change()?;
                self.files.punch(ino, bytes)
            }
            FallocMode::CollapseRange | FallocMode::InsertRange => self.shift(ino, mode, bytes),
        }
    }

    fn reserve(&self, ino: Ino, bytes: &Range<u64>, how: Reserve) -> Result<()> {
        let mut at = bytes.start / SIZE;
        while at < bytes.end.div_ceil(SIZE) {
            self.admission.admit_change()?;
            at = self.files.reserve(ino, at, bytes, how)?;
        }
        Ok(())
    }

    fn shift(&self, ino: Ino, mode: FallocMode, bytes: Range<u64>) -> Result<()> {
        if !bytes.start.is_multiple_of(SIZE) || !bytes.end.is_multiple_of(SIZE) {
            return Err(Error::Invalid("offset and length must be multiples of 4096"));
        }
        self.admission.admit_change()?;
        let inode = self.files.inode(ino)?;
        let removes = mode == FallocMode::CollapseRange;
        let locked = self.writeback.lock_for_copies(&inode, bytes.start / SIZE, |inode| {
            self.files.request_for_shift(inode, &bytes, removes)
        })?;
        let flush =
            |inode: &_, range, granted: &mut Grant<'_>| self.writeback.flush_locked(inode, range, granted);
        self.files.shift(&inode, locked, &bytes, removes, &flush)
    }

    /// The first byte at or after `offset` that has data.
    pub fn seek_data(&self, ino: Ino, offset: u64) -> Result<u64> {
        self.admission.admit_read();
        self.files.seek(ino, offset, BlockKind::Data)
    }

    /// The first byte at or after `offset` that lies in a hole; the end of the file counts as one.
    pub fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64> {
        self.admission.admit_read();
        self.files.seek(ino, offset, BlockKind::Hole)
    }

    /// The file's extents, in file order. Dirty data is flushed first.
    pub fn extents(&self, ino: Ino) -> Result<Vec<Extent>> {
        self.admission.admit_read();
        let inode = self.files.inode(ino)?;
        if inode.get(RawInode::is_reg) && !self.base.opts.read_only {
            self.writeback.flush_inode(&inode, 0..u64::MAX)?;
        }
        self.files.extents(&inode)
    }

    /// Makes an inode durable: data, size, attributes and, for a new file, its name. fdatasync does the same: the
    /// times it may omit are in the same block as everything else.
    ///
    /// Reports a failed write of the inode's data once, including failures of background writeback.
    pub fn fsync(&self, ino: Ino) -> Result<()> {
        if self.base.opts.read_only {
            return Ok(());
        }
        let _ahead = self.writeback.fsyncs.take();
        self.admission.admit_change()?;
        self.commit.fsync(ino)
    }
}
