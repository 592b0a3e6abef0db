//! Requests on contents. A request reads or writes the image itself: there is no cache, as the kernel has one.
use super::inode::Inode;
use super::{Ceiling, Done};
use parking_lot::RwLockWriteGuard;
use rustix::fs::OFlags;
use rustix::io::Errno;
use segno_format::{BLOCK_SIZE, Block};
use segno_fuse::protocol::{
    CopyFileRangeIn, CopyFileRangeOut, FallocateIn, FsyncIn, LseekIn, LseekOut, Opcode, ReadIn, Reply,
    Request, WriteIn, WriteOut, ino_of,
};
use std::sync::atomic::Ordering;
use zerocopy::{FromBytes, IntoBytes};

const BLOCK: u64 = BLOCK_SIZE as u64;
/// Most that one request copies.
const COPY_MAX: u64 = 1 << 20;

/// The blocks of the file that a range touches, as first and end.
fn touched(offset: u64, len: u64) -> (usize, usize) {
    ((offset / BLOCK) as usize, offset.saturating_add(len).div_ceil(BLOCK) as usize)
}

impl Ceiling {
    pub(super) fn read(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let (a, node) = (r.arg::<ReadIn>()?, self.of(r)?);
        reply.fill(a.size as usize, |into| self.read_at(&node.inode.read(), a.offset, into))
    }

    /// Reads up to the end of the file; returns the number of bytes.
    fn read_at(&self, inode: &Inode, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let len = inode.size.saturating_sub(offset).min(into.len() as u64);
        if len == 0 {
            return Ok(0);
        }
        let (first, end) = touched(offset, len);
        let mut addrs: Vec<u32> = inode.blocks()?.iter().take(end).skip(first).copied().collect();
        addrs.resize(end - first, 0);
        let room = into.get_mut(..addrs.len() * BLOCK_SIZE).filter(|_| offset.is_multiple_of(BLOCK));
        if let Some(Ok(blocks)) = room.map(<[Block]>::mut_from_bytes) {
            self.image.read(&addrs, blocks)?;
            return Ok(len as usize);
        }
        let mut blocks = vec![Block::zeroed(); addrs.len()];
        self.image.read(&addrs, &mut blocks)?;
        let bytes = blocks.as_bytes().iter().skip((offset % BLOCK) as usize).take(len as usize);
        into.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Ok(len as usize)
    }

    pub(super) fn write(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let (a, node) = (r.arg::<WriteIn>()?, self.of(r)?);
        let data = r.data(a.size)?;
        self.write_at(node.inode.write(), a.offset, data)?;
        node.changed();
        if OFlags::from_bits_retain(a.flags).contains(OFlags::DSYNC) {
            self.fsync(r)?;
        }
        reply.put(&WriteOut { size: a.size, padding: 0 })
    }

    /// Writes with a block of the image for each of the file. Whole blocks are written without the lock.
    fn write_at(&self, mut inode: RwLockWriteGuard<'_, Inode>, offset: u64, data: &[u8]) -> Done {
        let len = data.len() as u64;
        let (first, end) = touched(offset, len);
        let is_whole = offset.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK);
        let mut partial = if is_whole { Vec::new() } else { vec![Block::zeroed(); end - first] };
        let blocks = inode.blocks_mut()?;
        if blocks.len() < end {
            blocks.resize(end, 0);
        }
        let range = blocks.get_mut(first..end).ok_or(Errno::FBIG)?;
        if !is_whole {
            self.image.read(range, &mut partial)?;
        }
        let missing = range.iter().filter(|addr| **addr == 0).count();
        if missing > 0 {
            let new = self.image.allocate(missing)?;
            range.iter_mut().filter(|addr| **addr == 0).zip(new).for_each(|(addr, new)| *addr = new);
        }
        let addrs = range.to_vec();
        inode.size = inode.size.max(offset.saturating_add(len));
        inode.touch();
        if !is_whole {
            let at = (offset % BLOCK) as usize;
            let place = partial.as_mut_bytes().get_mut(at..at + data.len()).ok_or(Errno::INVAL)?;
            place.copy_from_slice(data);
            return self.image.write(&addrs, &partial);
        }
        drop(inode);
        match <[Block]>::ref_from_bytes(data) {
            Ok(blocks) => self.image.write(&addrs, blocks),
            // Not aligned.
            Err(_) => {
                let blocks: Vec<Block> = data.chunks(BLOCK_SIZE).map(Block::first_of).collect();
                self.image.write(&addrs, &blocks)
            }
        }
    }

    /// Frees the blocks behind the new end, and zeroes the rest of the last block.
    pub(super) fn resize(&self, inode: &mut Inode, size: u64) -> Done {
        let (_, end) = touched(0, size);
        let blocks = inode.blocks_mut()?;
        if end < blocks.len() {
            self.image.give_back(blocks.split_off(end));
        }
        let last = blocks.last().copied().filter(|addr| end == blocks.len() && *addr != 0);
        if let Some(addr) = last.filter(|_| size < inode.size && !size.is_multiple_of(BLOCK)) {
            let mut block = [Block::zeroed()];
            self.image.read(&[addr], &mut block)?;
            block.as_mut_bytes().iter_mut().skip((size % BLOCK) as usize).for_each(|byte| *byte = 0);
            self.image.write(&[addr], &block)?;
        }
        inode.size = size;
        Ok(())
    }

    /// The file's contents are on the device already, in its cache.
    pub(super) fn fsync(&self, r: &Request<'_>) -> Done {
        r.arg::<FsyncIn>()?;
        self.of(r)?.sync(|| self.image.commit())
    }

    /// Only the size changes: blocks are allocated when they are written.
    pub(super) fn fallocate(&self, r: &Request<'_>) -> Done {
        let (a, node) = (r.arg::<FallocateIn>()?, self.of(r)?);
        let end = a.offset.saturating_add(a.length);
        match a.mode {
            0 => {
                let mut inode = node.inode.write();
                inode.size = inode.size.max(end);
            }
            1 => {}
            _ => return Err(Errno::OPNOTSUPP),
        }
        node.changed();
        Ok(())
    }

    /// Files have no holes for programs.
    pub(super) fn lseek(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        if self.has_cached_writes.load(Ordering::Relaxed) {
            return Err(Errno::NOSYS);
        }
        let (a, size) = (r.arg::<LseekIn>()?, self.of(r)?.inode.read().size);
        match a.whence {
            _ if a.offset >= size => Err(Errno::NXIO),
            3 => reply.put(&LseekOut { offset: a.offset }),
            4 => reply.put(&LseekOut { offset: size }),
            _ => Err(Errno::INVAL),
        }
    }

    pub(super) fn copy_range(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a = r.arg::<CopyFileRangeIn>()?;
        let (from, to) = (self.of(r)?, self.node(ino_of(a.nodeid_out))?);
        // The older form of the request returns a 32-bit count.
        let is_wide = r.opcode == Opcode::CopyFileRange64;
        let len = if is_wide { a.len } else { a.len.min(u64::from(u32::MAX) & !0xfff) };
        let mut copied = 0;
        while copied < len {
            let mut bytes = vec![0; (len - copied).min(COPY_MAX) as usize];
            let n = self.read_at(&from.inode.read(), a.off_in.saturating_add(copied), &mut bytes)?;
            if n == 0 {
                break;
            }
            bytes.truncate(n);
            self.write_at(to.inode.write(), a.off_out.saturating_add(copied), &bytes)?;
            copied += n as u64;
        }
        to.changed();
        if is_wide {
            reply.put(&CopyFileRangeOut { bytes_copied: copied })
        } else {
            reply.put(&WriteOut { size: copied as u32, padding: 0 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ceiling::inode::{Content, Node};
    use segno_device::MemDevice;
    use segno_format::Ino;
    use segno_testkit::Rng;
    use std::sync::Arc;

    /// The whole content, read at any offset.
    fn content(ceiling: &Ceiling, node: &Node, from: usize) -> Vec<u8> {
        let inode = node.inode.read();
        let mut bytes = vec![0xff; (inode.size as usize).saturating_sub(from) + 100];
        let n = ceiling.read_at(&inode, from as u64, &mut bytes).unwrap();
        bytes.truncate(n);
        bytes
    }

    #[test]
    fn contents_are_those_of_an_array_and_never_of_a_removed_file() {
        let ceiling = Ceiling::open(Arc::new(MemDevice::new(40_000))).unwrap();
        let stale = ceiling.image.allocate(ceiling.image.free_blocks() as usize).unwrap();
        let full = vec![Block([0xee; BLOCK_SIZE]); 64];
        ceiling.image.write(&stale[..64], &full).unwrap();
        ceiling.image.give_back(stale.into_iter().take(64));
        let new = || Node::new(Ino(9), Inode::new(0o100_644, (0, 0), Content::File(Vec::new())));
        for seed in 0..20 {
            let (node, mut model, mut rng) = (new(), Vec::new(), Rng::new(seed));
            for step in 1..=40_u8 {
                let at = rng.below(90_000) as usize & if rng.below(2) == 0 { !0xfff } else { !0 };
                if rng.below(5) == 0 {
                    ceiling.resize(&mut node.inode.write(), at as u64).unwrap();
                    model.resize(at, 0);
                } else {
                    let len = if rng.below(2) == 0 { 8192 } else { rng.below(9_000) as usize + 1 };
                    model.resize(model.len().max(at + len), 0);
                    model[at..at + len].fill(step);
                    ceiling.write_at(node.inode.write(), at as u64, &vec![step; len]).unwrap();
                }
                let from = rng.below(model.len() as u64 + 1) as usize;
                assert!(content(&ceiling, &node, from) == model[from..], "seed {seed}, step {step}");
            }
            ceiling.resize(&mut node.inode.write(), 0).unwrap();
            assert_eq!(ceiling.image.free_blocks(), 64, "seed {seed}");
        }
    }
}
