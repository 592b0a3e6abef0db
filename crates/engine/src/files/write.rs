//! Writing file data into the cache.
use super::access::{check_changeable, check_not_released};
use super::block::put_bytes;
use super::compress::Opened;
use super::{Files, Inode, SIZE};
use crate::block::{SharedBlock, shared};
use crate::error::{Error, Result};
use crate::times::touch;
use crate::transaction::Op;
use segno_format::inode::{InodeFlags, RawInode, max_file_size};
use segno_format::{BLOCK_SIZE, Block};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U64;

/// Bytes written under one hold of the inode's lock; admission runs in between.
pub const WRITE_MAX: usize = 4 << 20;

impl Files {
    /// Writes to a regular file, up to [`WRITE_MAX`] at a time. Short if space ends midway.
    pub fn write(&self, inode: &Arc<Inode>, offset: u64, data: &[u8]) -> Result<usize> {
        let _exclusive = inode.lock.write();
        let data = self.check_write(inode, offset, data)?;
        if data.is_empty() {
            return Ok(0);
        }
        if inode.is_inline() {
            if let Some(end) = self.inline_end(inode, offset, data.len())? {
                let op = self.base.tx.begin();
                self.write_inline(&op, inode, offset as usize, data)?;
                self.wrote(&op, inode, Some(end));
                return Ok(data.len());
            }
            self.convert_inline(&self.base.tx.begin(), inode)?;
        }
        self.write_blocks(inode, offset, data)
    }

    /// Checks the write and limits its data to the maximum file size.
    fn check_write<'a>(&self, inode: &Arc<Inode>, offset: u64, data: &'a [u8]) -> Result<&'a [u8]> {
        if inode.is_gone() {
            return Err(Error::NotFound);
        }
        check_changeable(inode)?;
        check_not_released(inode)?;
        if inode.get(RawInode::flags).contains(InodeFlags::APPEND) && !self.appends(inode, offset, data)? {
            return Err(Error::NotPermitted("the file is append-only"));
        }
        if data.is_empty() {
            return Ok(data);
        }
        let room = max_file_size(inode.layout(self.base.features)?.per_node).saturating_sub(offset);
        if room == 0 {
            return Err(Error::FileTooBig);
        }
        Ok(data.get(..usize::try_from(room).unwrap_or(usize::MAX)).unwrap_or(data))
    }

    /// Whether a write only adds to the file. A cache above sends whole blocks in any order: they may repeat
    /// existing content, and fill blocks that read as zeros because a later block arrived first.
    fn appends(&self, inode: &Arc<Inode>, offset: u64, data: &[u8]) -> Result<bool> {
        let size = inode.size();
        if !self.base.is_cached() || offset >= size {
            return Ok(self.base.is_cached() || offset == size);
        }
        let mut old = vec![0; data.len().min(size.saturating_sub(offset) as usize)];
        self.read_locked(inode, offset, &mut old)?;
        Ok(old.iter().zip(data).all(|(old, new)| old == new || *old == 0))
    }

    /// The end of the write, if the data fits into the inode.
    fn inline_end(&self, inode: &Inode, offset: u64, len: usize) -> Result<Option<u64>> {
        let capacity = inode.layout(self.base.features)?.inline_capacity() as u64;
        Ok(offset.checked_add(len as u64).filter(|&end| end <= capacity))
    }

    fn write_blocks(&self, inode: &Arc<Inode>, offset: u64, data: &[u8]) -> Result<usize> {
        let old_size = inode.size();
        let blocks = block_range(offset, data.len());
        let bytes = offset..offset.saturating_add(data.len() as u64);
        let opened = self.load_partial(inode, &bytes)?;
        let edges = self.load_edges(inode, &bytes, old_size, &opened)?;
        let _excluded = if offset > old_size { inode.exclude_flush() } else { None };
        let op = self.base.tx.begin();
        if offset > old_size && old_size / SIZE < blocks.start {
            self.zero_tail(&op, inode, old_size)?;
        }
        let mut job = Job { offset, data, old_size, edges, opened };
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

    /// Blocks that the write covers in part and whose content is kept. Read before the gate is entered.
    fn load_edges(
        &self,
        inode: &Arc<Inode>,
        bytes: &Range<u64>,
        size: u64,
        opened: &[Opened],
    ) -> Result<Vec<(u64, SharedBlock)>> {
        let mut edges = Vec::new();
        for (pos, block) in [bytes.start, bytes.end].map(|pos| (pos, pos / SIZE)) {
            let known =
                edges.iter().any(|&(b, _)| b == block) || opened.iter().any(|o| o.block(block).is_some());
            if pos % SIZE != 0 && !known && block.saturating_mul(SIZE) < size {
                edges.extend(self.read_block(inode, block)?.map(|content| (block, content)));
            }
        }
        Ok(edges)
    }

    /// Writes the part of the job in the first node of the range. Returns the block to continue at, and the error
    /// that stopped it before the end of that node.
    fn write_span(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        blocks: Range<u64>,
        job: &mut Job<'_>,
    ) -> (u64, Option<Error>) {
        let reserved = self.nodes.span_for_write(op, &inode.frame, blocks.start).and_then(|span| {
            let part = blocks.start..blocks.end.min(span.blocks.end);
            let got = self.nodes.reserve_slots(op, &inode.frame, &span, part.clone())?;
            Ok((got, part.end))
        });
        let (got, end) = match reserved {
            Ok(r) => r,
            Err(e) => return (blocks.start, Some(e)),
        };
        let mut pages = match self.lock_opened(inode, &job.bytes_in(blocks.start..got), &mut job.opened) {
            Ok(pages) => pages,
            Err(e) => return (blocks.start, Some(e)),
        };
        for block in blocks.start..got {
            let new = job.bytes_of(block);
            match new.bytes.first_chunk::<BLOCK_SIZE>() {
                Some(whole) => pages.put(block, whole, &self.base.mem),
                None => {
                    if pages.page(block).is_some() {
                        // A second reference would make the change copy the page's block.
                        job.edges.retain(|&(b, _)| b != block);
                    }
                    pages.modify(block, &self.base.mem, || job.fill(block), |b| job.apply(block, b));
                }
            }
        }
        let reached = job.offset.saturating_add(job.data.len() as u64).min(got.saturating_mul(SIZE));
        self.grow(inode, reached);
        drop(pages);
        (got, (got < end).then_some(Error::NoSpace))
    }

    /// Updates times, and the size of inline data, after a change of content.
    pub fn wrote(&self, op: &Op<'_>, inode: &Inode, inline_end: Option<u64>) {
        let now = self.base.content_time();
        self.nodes.cache.modify_inode(op, &inode.frame, |raw| {
            if let Some(end) = inline_end {
                raw.i_size = U64::new(raw.i_size.get().max(end));
            }
            set_changed(raw, now);
        });
    }
}

/// Sets mtime and ctime, unless a cache above keeps them.
pub fn set_changed(raw: &mut RawInode, now: Option<crate::types::Time>) {
    if let Some(now) = now {
        touch(raw, now);
    }
}

/// File blocks that bytes overlap.
pub fn block_range(offset: u64, len: usize) -> Range<u64> {
    offset / SIZE..offset.saturating_add(len as u64).div_ceil(SIZE)
}

/// A write in progress.
struct Job<'a> {
    offset: u64,
    data: &'a [u8],
    old_size: u64,
    edges: Vec<(u64, SharedBlock)>,
    /// Packed clusters that the write covers in part.
    opened: Vec<Opened>,
}

/// The bytes written to one block.
struct BlockBytes<'a> {
    /// Offset in the block.
    at: usize,
    bytes: &'a [u8],
}

impl Job<'_> {
    fn bytes_of(&self, block: u64) -> BlockBytes<'_> {
        let start = block.saturating_mul(SIZE);
        let (from, at) =
            (start.saturating_sub(self.offset) as usize, self.offset.saturating_sub(start) as usize);
        let rest = self.data.get(from..).unwrap_or_default();
        BlockBytes { at, bytes: rest.get(..BLOCK_SIZE.saturating_sub(at)).unwrap_or(rest) }
    }
    /// The bytes written to some blocks.
    fn bytes_in(&self, blocks: Range<u64>) -> Range<u64> {
        let end = self.offset.saturating_add(self.data.len() as u64);
        self.offset.max(blocks.start.saturating_mul(SIZE))..end.min(blocks.end.saturating_mul(SIZE))
    }
    /// The content of a block before the write.
    fn fill(&self, block: u64) -> SharedBlock {
        let edge = self.edges.iter().find(|&&(b, _)| b == block).map(|(_, content)| content);
        // A cluster that was packed when the write began may be plain now.
        let known = edge.or_else(|| self.opened.iter().find_map(|o| o.block(block)));
        known.cloned().unwrap_or_else(|| shared(Block::zeroed()))
    }
    fn apply(&self, block: u64, content: &mut Block) {
        // Bytes past the old end become part of the file.
        let size = self.old_size.saturating_sub(block.saturating_mul(SIZE)).min(SIZE) as usize;
        content.0.get_mut(size..).unwrap_or_default().fill(0);
        let new = self.bytes_of(block);
        put_bytes(&mut content.0, new.at, new.bytes);
    }
}
