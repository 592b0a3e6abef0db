//! fallocate(2): reserving, zeroing and freeing ranges. `shift` moves ranges.
use super::access::{check_changeable, check_not_append_only, check_not_released};
use super::write::set_changed;
use super::{Files, Inode, SIZE};
use crate::error::{Error, Result};
use crate::nodes::Span;
use crate::transaction::Op;
use segno_format::inode::{Advise, max_file_size};
use segno_format::{BlockAddr, Ino};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// File blocks changed per entry of the gate. Steps end at multiples of it, so none divides a cluster.
const STEP: u64 = 1 << 16;

impl Files {
    /// Whether fallocate may change the range. The caller holds the inode's lock.
    pub(super) fn check_fallocate(&self, inode: &Inode, bytes: &Range<u64>) -> Result<()> {
        if inode.is_gone() {
            return Err(Error::NotFound);
        }
        check_changeable(inode)?;
        check_not_released(inode)?;
        if bytes.end > max_file_size(inode.layout(self.base.features)?.per_node) {
            return Err(Error::FileTooBig);
        }
        Ok(())
    }

    /// Reserves holes in a part of a byte range, from file block `at` on, and on request zeroes the rest of it. If
    /// space runs out midway, the reserved part stays and the size ends there. Returns the block to continue at.
    pub fn reserve(&self, ino: Ino, at: u64, bytes: &Range<u64>, how: Reserve) -> Result<u64> {
        let inode = self.inode(ino)?;
        let _exclusive = inode.lock.write();
        self.check_fallocate(&inode, bytes)?;
        if how.zero {
            check_not_append_only(&inode)?;
        }
        let step = at..step_end(at).min(bytes.end.div_ceil(SIZE));
        self.convert_inline(&self.base.tx.begin(), &inode)?;
        let _excluded = inode.exclude_flush();
        let zeroed = if how.zero { self.zero_packed_edges(&inode, bytes)? } else { bytes.clone() };
        let op = self.base.tx.begin();
        let (reached, stopped) = self.reserve_step(&op, &inode, step, &zeroed, how);
        if reached > at {
            if how.zero {
                let whole = whole_blocks(&zeroed);
                op.record(ino, |log| log.unmapped(whole.start.max(at)..whole.end.min(reached)));
            }
            op.record(ino, |log| log.reserved(at..reached));
            self.note_reserved(&op, &inode, bytes.end.min(reached.saturating_mul(SIZE)), how)?;
        }
        stopped.map_or(Ok(reached), Err)
    }

    /// Returns the block reached, and the error that stopped it.
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
            let done = self.nodes.span_for_write(op, &inode.frame, at).and_then(|span| {
                let part = part(&span);
                let got = self.nodes.reserve_slots(op, &inode.frame, &span, part.clone())?;
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
    pub fn reserve_range(&self, op: &Op<'_>, inode: &Arc<Inode>, blocks: Range<u64>) -> Result<()> {
        let how = Reserve { keep_size: true, zero: false };
        match self.reserve_step(op, inode, blocks, &(0..0), how).1 {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    /// Updates size, flags and times after blocks up to byte `end` were reserved.
    fn note_reserved(&self, op: &Op<'_>, inode: &Arc<Inode>, end: u64, how: Reserve) -> Result<()> {
        let old = inode.size();
        if !how.keep_size && end > old {
            self.zero_tail(op, inode, old)?;
        }
        self.resize(op, inode, if how.keep_size { old } else { old.max(end) });
        let now = self.base.content_time();
        self.nodes.cache.modify_inode(op, &inode.frame, |raw| {
            if end > old && how.keep_size {
                raw.i_advise |= Advise::KEEP_SIZE.bits();
                raw.i_advise &= !Advise::TRUNC.bits();
            }
            set_changed(raw, now);
        });
        Ok(())
    }

    /// Zeroes the part of `bytes` in some blocks of one node; whole blocks become reserved.
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
        inode.pages.lock().drop_range(whole.clone(), &self.base.mem);
        self.packed.dissolve_all(op, inode, whole.clone())?;
        let slots = span.slots(&whole);
        let addrs = self.nodes.slot_addrs(&span.frame, slots.clone())?;
        let freed: Vec<BlockAddr> = addrs.into_iter().filter(|a| a.is_real()).collect();
        if freed.is_empty() {
            return Ok(());
        }
        self.nodes.edit_slots(op, &span.frame, "slots outside a node are zeroed", |all| {
            all.get_mut(slots).map(|slots| slots.fill(U32::new(BlockAddr::NEW.0)))
        })?;
        self.nodes.forget_extent(op, &inode.frame);
        self.space.invalidate(&freed)
    }

    /// Zeroes bytes within one block, if it has content.
    fn zero_bytes(&self, op: &Op<'_>, inode: &Arc<Inode>, bytes: Range<u64>) -> Result<()> {
        let block = bytes.start / SIZE;
        if self.read_block(inode, block)?.is_none() {
            return Ok(());
        }
        let start = (bytes.start % SIZE) as usize;
        let end = start + bytes.end.saturating_sub(bytes.start) as usize;
        self.modify_block(op, inode, block, |b| b.0.get_mut(start..end).unwrap_or_default().fill(0))
    }

    /// Punches a hole; the size stays.
    pub fn punch(&self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        let inode = self.inode(ino)?;
        let _exclusive = inode.lock.write();
        self.check_fallocate(&inode, &(bytes.start..bytes.start))?;
        check_not_append_only(&inode)?;
        if bytes.start >= inode.size() {
            return Ok(());
        }
        self.convert_inline(&self.base.tx.begin(), &inode)?;
        let _excluded = inode.exclude_flush();
        let bytes = self.zero_packed_edges(&inode, &bytes)?;
        {
            let op = self.base.tx.begin();
            for edge in edges(&bytes) {
                self.zero_bytes(&op, &inode, edge)?;
            }
            self.wrote(&op, &inode, None);
        }
        let whole = whole_blocks(&bytes);
        let end = whole.end.min(inode.layout(self.base.features)?.max_blocks());
        let mut at = whole.start;
        while at < end {
            let op = self.base.tx.begin();
            let step = at..step_end(at).min(end);
            at = step.end;
            self.free_range(&op, &inode, step.clone())?;
            op.record(ino, |log| log.unmapped(step));
            // The dropped pages no longer hold back the published size.
            self.resize(&op, &inode, inode.size());
        }
        Ok(())
    }
}

/// Options of a reservation.
#[derive(Clone, Copy, Debug)]
pub struct Reserve {
    pub keep_size: bool,
    pub zero: bool,
}

/// The end of the step that begins at a block.
fn step_end(at: u64) -> u64 {
    (at / STEP).saturating_add(1).saturating_mul(STEP)
}

/// Blocks entirely within a range of bytes.
fn whole_blocks(bytes: &Range<u64>) -> Range<u64> {
    bytes.start.div_ceil(SIZE)..bytes.end / SIZE
}

/// The parts of a byte range at its ends that cover less than a block, each within one block.
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
