//! fallocate(2): reserving, zeroing and freeing ranges. Moving ranges is in `shift`.
use super::access::{check_changeable, check_not_append_only, check_not_released};
use super::index::Span;
use super::write::set_changed;
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::types::FallocMode;
use crate::volume::Volume;
use segno_format::inode::{Advise, RawInode, max_file_size};
use segno_format::{BLOCK_SIZE, BlockAddr, Ino};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// File blocks changed in one section of the gate.
const STEP: u64 = 1 << 16;
const SIZE: u64 = BLOCK_SIZE as u64;

impl Volume {
    /// Reserves, zeroes, frees or moves a range of bytes of a regular file.
    pub fn fallocate(&self, ino: Ino, mode: FallocMode, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Err(Error::Invalid("fallocate of no bytes"));
        }
        let bytes = offset..offset.checked_add(len).ok_or(Error::FileTooBig)?;
        match mode {
            FallocMode::Allocate => self.reserve_bytes(ino, bytes, Reserve { keep_size: false, zero: false }),
            FallocMode::AllocateKeepSize => {
                self.reserve_bytes(ino, bytes, Reserve { keep_size: true, zero: false })
            }
            FallocMode::ZeroRange => self.reserve_bytes(ino, bytes, Reserve { keep_size: false, zero: true }),
            FallocMode::ZeroRangeKeepSize => {
                self.reserve_bytes(ino, bytes, Reserve { keep_size: true, zero: true })
            }
            FallocMode::PunchHole => self.punch(ino, bytes),
            FallocMode::CollapseRange => self.collapse(ino, bytes),
            FallocMode::InsertRange => self.insert(ino, bytes),
        }
    }

    /// Whether the range may be changed. The caller holds the inode's lock.
    pub(super) fn check_fallocate(&self, inode: &Inode, bytes: &Range<u64>) -> Result<()> {
        if inode.is_gone() {
            return Err(Error::NotFound);
        }
        check_changeable(inode)?;
        check_not_released(inode)?;
        if bytes.end > max_file_size(inode.layout(self.features)?.per_node) {
            return Err(Error::FileTooBig);
        }
        Ok(())
    }

    /// Reserves the holes of a range, and makes the rest of it read as zeros if asked to. If space ends midway, what
    /// was reserved stays, and the size is where it ended.
    fn reserve_bytes(&self, ino: Ino, bytes: Range<u64>, how: Reserve) -> Result<()> {
        let blocks = bytes.start / SIZE..bytes.end.div_ceil(SIZE);
        let mut at = blocks.start;
        while at < blocks.end {
            self.make_room()?;
            let inode = self.inode(ino)?;
            let _exclusive = inode.lock.write();
            self.check_fallocate(&inode, &bytes)?;
            if how.zero {
                check_not_append_only(&inode)?;
            }
            let step = at..at.saturating_add(STEP).min(blocks.end);
            self.check_not_compressed(&inode, step.clone())?;
            self.convert_inline(&self.gate.enter(), &inode)?;
            let op = self.gate.enter();
            let (reached, stopped) = self.reserve_step(&op, &inode, step, &bytes, how);
            if reached > at {
                if how.zero {
                    let whole = whole_blocks(&bytes);
                    self.notes.unmapped(&op, ino, whole.start.max(at)..whole.end.min(reached));
                }
                self.notes.reserved(&op, ino, at..reached);
                self.note_reserved(&op, &inode, bytes.end.min(reached.saturating_mul(SIZE)), how)?;
            }
            if let Some(e) = stopped {
                return Err(e);
            }
            at = reached;
        }
        Ok(())
    }

    /// Returns how far it came, and what stopped it.
    fn reserve_step(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        step: Range<u64>,
        bytes: &Range<u64>,
        how: Reserve,
    ) -> (u64, Option<Error>) {
        let mut at = step.start;
        while at < step.end {
            let part = |span: &Span| at..step.end.min(span.blocks.end);
            let done = self.span_for_write(op, inode, at).and_then(|span| {
                let part = part(&span);
                let got = self.reserve_slots(op, inode, &span, part.clone())?;
                if how.zero {
                    self.zero_span(op, inode, &span, part.start..got, bytes)?;
                }
                Ok((got, part.end))
            });
            match done {
                Err(e) => return (at, Some(e)),
                Ok((got, end)) if got < end => return (got, Some(Error::NoSpace)),
                Ok((_, end)) => at = end,
            }
        }
        (at, None)
    }

    /// Reserves the holes of a range.
    pub(crate) fn reserve_range(&self, op: &Op<'_>, inode: &Arc<Inode>, blocks: Range<u64>) -> Result<()> {
        let how = Reserve { keep_size: true, zero: false };
        match self.reserve_step(op, inode, blocks, &(0..0), how).1 {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    /// Size, flags and times after blocks up to the byte `end` were reserved.
    fn note_reserved(&self, op: &Op<'_>, inode: &Arc<Inode>, end: u64, how: Reserve) -> Result<()> {
        let old = inode.size();
        if !how.keep_size && end > old {
            self.zero_tail(op, inode, old)?;
        }
        self.resize(op, inode, if how.keep_size { old } else { old.max(end) });
        let now = self.now();
        self.nodes.modify(op, &inode.frame, |block| {
            let raw: &mut RawInode = block.view_mut();
            if end > old && how.keep_size {
                raw.i_advise |= Advise::KEEP_SIZE.bits();
                raw.i_advise &= !Advise::TRUNC.bits();
            }
            set_changed(raw, now);
        });
        Ok(())
    }

    /// Makes the part of `bytes` that lies in some blocks of one node zeros; whole blocks become reserved ones.
    fn zero_span(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        span: &Span,
        blocks: Range<u64>,
        bytes: &Range<u64>,
    ) -> Result<()> {
        let whole = whole_blocks(bytes);
        for edge in edges(bytes).into_iter().filter(|e| blocks.contains(&(e.start / SIZE))) {
            self.zero_bytes(op, inode, edge)?;
        }
        let whole = whole.start.max(blocks.start)..whole.end.min(blocks.end);
        if whole.is_empty() {
            return Ok(());
        }
        inode.pages.lock().drop_range(whole.clone(), &self.mem);
        let slots = span.slots(&whole);
        let addrs = self.slot_addrs(&span.frame, slots.clone())?;
        let freed: Vec<BlockAddr> = addrs.into_iter().filter(|a| a.is_real()).collect();
        if freed.is_empty() {
            return Ok(());
        }
        self.edit_slots(op, &span.frame, |all| {
            all.get_mut(slots).unwrap_or_default().fill(U32::new(BlockAddr::NEW.0));
        })?;
        self.forget_extent(op, inode);
        self.segs.invalidate_all(&freed)
    }

    /// Makes bytes within one block zeros, if it has content.
    fn zero_bytes(&self, op: &Op<'_>, inode: &Arc<Inode>, bytes: Range<u64>) -> Result<()> {
        let block = bytes.start / SIZE;
        if self.read_block(inode, block)?.is_none() {
            return Ok(());
        }
        let start = (bytes.start % SIZE) as usize;
        let end = start + bytes.end.saturating_sub(bytes.start) as usize;
        self.modify_block(op, inode, block, |b| b.0.get_mut(start..end).unwrap_or_default().fill(0))
    }

    /// Makes a hole; the size stays.
    fn punch(&self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        self.make_room()?;
        let inode = self.inode(ino)?;
        let _exclusive = inode.lock.write();
        self.check_fallocate(&inode, &(bytes.start..bytes.start))?;
        check_not_append_only(&inode)?;
        if bytes.start >= inode.size() {
            return Ok(());
        }
        self.check_not_compressed(&inode, bytes.start / SIZE..bytes.end.div_ceil(SIZE))?;
        self.convert_inline(&self.gate.enter(), &inode)?;
        {
            let op = self.gate.enter();
            for edge in edges(&bytes) {
                self.zero_bytes(&op, &inode, edge)?;
            }
            self.wrote(&op, &inode, None);
        }
        let whole = whole_blocks(&bytes);
        let end = whole.end.min(inode.layout(self.features)?.max_blocks());
        for at in (whole.start..end).step_by(STEP as usize) {
            let op = self.gate.enter();
            let step = at..at.saturating_add(STEP).min(end);
            self.free_range(&op, &inode, step.clone())?;
            self.notes.unmapped(&op, ino, step);
            // What was dropped is no longer in the way of the size.
            self.resize(&op, &inode, inode.size());
        }
        Ok(())
    }
}

/// What reserving does besides.
#[derive(Clone, Copy, Debug)]
struct Reserve {
    keep_size: bool,
    zero: bool,
}

/// Blocks that lie wholly in a range of bytes.
fn whole_blocks(bytes: &Range<u64>) -> Range<u64> {
    bytes.start.div_ceil(SIZE)..bytes.end / SIZE
}

/// The parts of a range of bytes at its ends that cover less than a block; each within one block.
fn edges(bytes: &Range<u64>) -> Vec<Range<u64>> {
    let whole = whole_blocks(bytes);
    let (start, end) = (whole.start.saturating_mul(SIZE), whole.end.saturating_mul(SIZE));
    if start > end {
        return vec![bytes.clone()];
    }
    [bytes.start..start, end..bytes.end].into_iter().filter(|r| !r.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_and_whole_blocks_make_up_the_range() {
        type Case<'a> = (Range<u64>, &'a [(u64, u64)]);
        let cases: [Case<'_>; 7] = [
            (0..4096, &[]),
            (100..200, &[(100, 200)]),
            (100..4096, &[(100, 4096)]),
            (0..5000, &[(4096, 5000)]),
            (100..5000, &[(100, 4096), (4096, 5000)]),
            (100..8192, &[(100, 4096)]),
            (4000..12300, &[(4000, 4096), (12288, 12300)]),
        ];
        for (bytes, expected) in cases {
            let found: Vec<_> = edges(&bytes).iter().map(|e| (e.start, e.end)).collect();
            assert_eq!(found, expected, "{bytes:?}");
        }
    }
}
