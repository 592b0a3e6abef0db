//! Writing file data into the cache.
use super::access::{check_changeable, check_not_released};
use super::index::Span;
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::stat;
use crate::volume::Volume;
use segno_format::inode::{InodeFlags, RawInode, max_file_size};
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Ino};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

/// Bytes written under one hold of the inode's lock; room is made in between.
const PART: usize = 4 << 20;
const SIZE: u64 = BLOCK_SIZE as u64;

impl Volume {
    /// Writes to a regular file. Short if space ends midway.
    pub fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        let mut done = 0;
        loop {
            let part = data.get(done..).unwrap_or_default();
            let part = part.get(..PART).unwrap_or(part);
            let _coming = self.mem.coming.hold(part.len().div_ceil(BLOCK_SIZE) + 1);
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
        stat::add(&self.stats.user_bytes, done as u64);
        Ok(done)
    }

    fn write_with_room(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        self.make_room()?;
        let inode = self.inode(ino)?;
        self.hint_large(&inode);
        self.bound_share(&inode)?;
        self.write_part(&inode, offset, data)
    }

    fn write_part(&self, inode: &Arc<Inode>, offset: u64, data: &[u8]) -> Result<usize> {
        let _exclusive = inode.lock.write();
        let data = self.check_write(inode, offset, data)?;
        if data.is_empty() {
            return Ok(0);
        }
        if inode.is_inline() {
            if let Some(end) = self.inline_end(inode, offset, data.len())? {
                let op = self.gate.enter();
                self.write_inline(&op, inode, offset as usize, data)?;
                self.wrote(&op, inode, Some(end));
                return Ok(data.len());
            }
            self.convert_inline(&self.gate.enter(), inode)?;
        }
        self.write_blocks(inode, offset, data)
    }

    /// What of the data may be written.
    fn check_write<'a>(&self, inode: &Inode, offset: u64, data: &'a [u8]) -> Result<&'a [u8]> {
        if inode.is_gone() {
            return Err(Error::NotFound);
        }
        check_changeable(inode)?;
        check_not_released(inode)?;
        if inode.get(RawInode::flags).contains(InodeFlags::APPEND) && offset != inode.size() {
            return Err(Error::NotPermitted("the file is append-only"));
        }
        if data.is_empty() {
            return Ok(data);
        }
        let room = max_file_size(inode.layout(self.features)?.per_node).saturating_sub(offset);
        if room == 0 {
            return Err(Error::FileTooBig);
        }
        let data = data.get(..usize::try_from(room).unwrap_or(usize::MAX)).unwrap_or(data);
        self.check_not_compressed(inode, block_range(offset, data.len()))?;
        Ok(data)
    }

    /// Where the write ends, if it fits into the inode.
    fn inline_end(&self, inode: &Inode, offset: u64, len: usize) -> Result<Option<u64>> {
        let capacity = inode.layout(self.features)?.inline_capacity() as u64;
        Ok(offset.checked_add(len as u64).filter(|&end| end <= capacity))
    }

    fn write_blocks(&self, inode: &Arc<Inode>, offset: u64, data: &[u8]) -> Result<usize> {
        let old_size = inode.size();
        let blocks = block_range(offset, data.len());
        let edges = self.load_edges(inode, offset, data.len(), old_size)?;
        let op = self.gate.enter();
        if offset > old_size && old_size / SIZE < blocks.start {
            self.zero_tail(&op, inode, old_size)?;
        }
        let mut job = Job { offset, data, old_size, edges };
        let mut at = blocks.start;
        let mut stopped = None;
        while at < blocks.end && stopped.is_none() {
            let (end, error) = self.write_span(&op, inode, at..blocks.end, &mut job);
            (at, stopped) = (end, error);
        }
        let done = (at.saturating_mul(SIZE).saturating_sub(offset) as usize).min(data.len());
        let done = if at == blocks.start { 0 } else { done };
        if done > 0 {
            self.wrote(&op, inode, None);
            self.mark_dirty(inode);
        }
        match stopped {
            Some(e) if done == 0 => Err(e),
            _ => Ok(done),
        }
    }

    /// The blocks that the write covers in part and that have content to keep. Read before the gate is entered.
    fn load_edges(
        &self,
        inode: &Arc<Inode>,
        offset: u64,
        len: usize,
        size: u64,
    ) -> Result<Vec<(u64, Arc<Block>)>> {
        let end = offset.saturating_add(len as u64);
        let mut edges = Vec::new();
        for (pos, block) in [(offset, offset / SIZE), (end, end / SIZE)] {
            let known = edges.iter().any(|&(b, _)| b == block);
            if pos % SIZE != 0 && !known && block.saturating_mul(SIZE) < size {
                edges.extend(self.read_block(inode, block)?.map(|content| (block, content)));
            }
        }
        Ok(edges)
    }

    /// Writes the part of the job that lies in the first node of the range. Returns the block at which to go on, and the
    /// error that stopped it short of that node's end.
    fn write_span(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        blocks: Range<u64>,
        job: &mut Job<'_>,
    ) -> (u64, Option<Error>) {
        let reserved = self.span_for_write(op, inode, blocks.start).and_then(|span| {
            let part = blocks.start..blocks.end.min(span.blocks.end);
            let got = self.reserve_slots(op, inode, &span, part.clone())?;
            Ok((got, part.end))
        });
        let (got, end) = match reserved {
            Ok(r) => r,
            Err(e) => return (blocks.start, Some(e)),
        };
        let mut pages = inode.pages.lock();
        for block in blocks.start..got {
            let part = job.part(block);
            match part.bytes.first_chunk::<BLOCK_SIZE>() {
                Some(whole) => pages.put(block, whole, &self.mem),
                None => {
                    if pages.page(block).is_some() {
                        // Shared with the page, it would make the change go on in a copy.
                        job.edges.retain(|&(b, _)| b != block);
                    }
                    pages.modify(block, &self.mem, || job.fill(block), |b| job.apply(block, b));
                }
            }
        }
        let reached = job.offset.saturating_add(job.data.len() as u64).min(got.saturating_mul(SIZE));
        self.grow(op, inode, reached);
        drop(pages);
        (got, (got < end).then_some(Error::NoSpace))
    }

    /// Reserves the empty slots of a range inside one node, as far as there is room. Returns where it had to stop.
    pub(super) fn reserve_slots(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        span: &Span,
        blocks: Range<u64>,
    ) -> Result<u64> {
        let slots = span.slots(&blocks);
        let empty = |w: &U32| BlockAddr(w.get()) == BlockAddr::NULL;
        let wanted = self.look_at_slots(&span.frame, |all| {
            all.get(slots.clone()).unwrap_or_default().iter().filter(|w| empty(w)).count() as u64
        })?;
        if wanted == 0 {
            return Ok(blocks.end);
        }
        let got = self.counts.reserve_up_to(wanted);
        let stop = self.edit_slots(op, &span.frame, |all| {
            let slots = all.get_mut(slots).unwrap_or_default();
            let mut holes = (blocks.start..).zip(slots).filter(|(_, w)| empty(w));
            holes.by_ref().take(got as usize).for_each(|(_, w)| *w = U32::new(BlockAddr::NEW.0));
            holes.next().map_or(blocks.end, |(block, _)| block)
        })?;
        self.forget_extent(op, inode);
        self.add_blocks(op, inode, got.cast_signed());
        Ok(stop)
    }

    /// Notes a finished change of the content: times, and where inline data end.
    pub(super) fn wrote(&self, op: &Op<'_>, inode: &Inode, inline_end: Option<u64>) {
        let now = self.now();
        self.nodes.modify(op, &inode.frame, |block| {
            let raw: &mut RawInode = block.view_mut();
            if let Some(end) = inline_end {
                raw.i_size = U64::new(raw.i_size.get().max(end));
            }
            set_changed(raw, now);
        });
    }
}

/// Stores a time as mtime and ctime.
pub(super) fn set_changed(raw: &mut RawInode, now: crate::types::Time) {
    raw.i_mtime = U64::new(now.secs.cast_unsigned());
    raw.i_ctime = raw.i_mtime;
    raw.i_mtime_nsec = U32::new(now.nsec);
    raw.i_ctime_nsec = raw.i_mtime_nsec;
}

/// File blocks that bytes touch.
pub(super) fn block_range(offset: u64, len: usize) -> Range<u64> {
    offset / SIZE..offset.saturating_add(len as u64).div_ceil(SIZE)
}

/// A write in progress.
struct Job<'a> {
    offset: u64,
    data: &'a [u8],
    old_size: u64,
    edges: Vec<(u64, Arc<Block>)>,
}

/// The bytes for one block.
struct Part<'a> {
    /// Offset in the block.
    at: usize,
    bytes: &'a [u8],
}

impl Job<'_> {
    fn part(&self, block: u64) -> Part<'_> {
        let start = block.saturating_mul(SIZE);
        let (from, at) =
            (start.saturating_sub(self.offset) as usize, self.offset.saturating_sub(start) as usize);
        let rest = self.data.get(from..).unwrap_or_default();
        Part { at, bytes: rest.get(..BLOCK_SIZE.saturating_sub(at)).unwrap_or(rest) }
    }
    /// The content before the write.
    fn fill(&self, block: u64) -> Arc<Block> {
        let known = self.edges.iter().find(|&&(b, _)| b == block).map(|(_, content)| content.clone());
        known.unwrap_or_else(|| Arc::new(Block::zeroed()))
    }
    fn apply(&self, block: u64, content: &mut Block) {
        // What lies past the old end becomes part of the file.
        let size = self.old_size.saturating_sub(block.saturating_mul(SIZE)).min(SIZE) as usize;
        content.0.get_mut(size..).unwrap_or_default().fill(0);
        let part = self.part(block);
        if let Some(into) = content.0.get_mut(part.at..).and_then(|b| b.get_mut(..part.bytes.len())) {
            into.copy_from_slice(part.bytes);
        }
    }
}
