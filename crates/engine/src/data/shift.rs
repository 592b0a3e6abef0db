//! Collapsing and inserting ranges: the rest of the file moves to other block numbers.
//!
//! A block's summary names its slot, and the summary of a block of the last checkpoint must not change. So the blocks
//! that move are first copied to new places, which nothing refers to yet, and then all slots change in one section of
//! the gate: a crash leaves the file as it was or as it should be, and an error on the way changes nothing. The price is
//! room for the copies until the next checkpoint.
use super::access::check_not_append_only;
use super::batch::file_log;
use super::index::{Place, Span};
use super::write::set_changed;
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::journal::Mapped;
use crate::volume::Volume;
use segno_format::inode::RawInode;
use segno_format::summary::RawSummary;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Ino};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// Blocks copied at a time.
const BATCH: u64 = 512;
const SIZE: u64 = BLOCK_SIZE as u64;

/// Which blocks move where.
#[derive(Clone, Debug)]
struct Shift {
    /// Blocks whose slots change.
    changed: Range<u64>,
    /// Blocks that move.
    sources: Range<u64>,
    /// How far.
    by: i64,
}

impl Shift {
    fn target_of(&self, source: u64) -> u64 {
        source.saturating_add_signed(self.by)
    }
    fn source_of(&self, target: u64) -> u64 {
        target.saturating_add_signed(-self.by)
    }
    /// The part of some blocks that others move to.
    fn moved_into(&self, targets: &Range<u64>) -> Range<u64> {
        let (start, end) = (self.target_of(self.sources.start), self.target_of(self.sources.end));
        targets.start.max(start)..targets.end.min(end)
    }
}

/// A run of copies: consecutive file blocks at consecutive addresses.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    addr: BlockAddr,
    len: u32,
}

/// The copies, by their new file blocks, ascending.
#[derive(Debug, Default)]
struct Copies(Vec<Run>);

impl Copies {
    fn push(&mut self, block: u64, addr: BlockAddr) {
        match self.0.last_mut() {
            Some(r) if block == r.first + u64::from(r.len) && addr == r.addr.offset(r.len) => r.len += 1,
            _ => self.0.push(Run { first: block, addr, len: 1 }),
        }
    }
    fn get(&self, block: u64) -> Option<BlockAddr> {
        let i = self.0.partition_point(|r| r.first <= block).checked_sub(1)?;
        let run = self.0.get(i)?;
        let off = u32::try_from(block - run.first).ok().filter(|&o| o < run.len)?;
        Some(run.addr.offset(off))
    }
}

impl Volume {
    /// Takes a range of whole blocks out of a file; what follows moves down.
    pub(super) fn collapse(&self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        self.shift(ino, &bytes, |size| {
            if bytes.end >= size {
                return Err(Error::Invalid("the range reaches the end of the file; truncate it"));
            }
            let (start, end, last) = (bytes.start / SIZE, bytes.end / SIZE, size.div_ceil(SIZE));
            let shift = Shift { changed: start..last, sources: end..last, by: -(end - start).cast_signed() };
            Ok((shift, size - (bytes.end - bytes.start)))
        })
    }

    /// Inserts a hole of whole blocks; what follows moves up.
    pub(super) fn insert(&self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        self.shift(ino, &bytes, |size| {
            if bytes.start >= size {
                return Err(Error::Invalid("the range starts at or past the end of the file"));
            }
            let (start, end, last) = (bytes.start / SIZE, bytes.end / SIZE, size.div_ceil(SIZE));
            let size = size.checked_add(bytes.end - bytes.start).ok_or(Error::FileTooBig)?;
            let by = (end - start).cast_signed();
            Ok((Shift { changed: start..size.div_ceil(SIZE), sources: start..last, by }, size))
        })
    }

    /// `plan` tells from the size what moves, and the new size.
    fn shift(
        &self,
        ino: Ino,
        bytes: &Range<u64>,
        plan: impl FnOnce(u64) -> Result<(Shift, u64)>,
    ) -> Result<()> {
        if !bytes.start.is_multiple_of(SIZE) || !bytes.end.is_multiple_of(SIZE) {
            return Err(Error::Invalid("offset and length must be multiples of 4096"));
        }
        self.make_room()?;
        let inode = self.inode(ino)?;
        // Most of it without the lock; what is written meanwhile, with it.
        self.flush_inode(&inode, bytes.start / SIZE..u64::MAX)?;
        let _exclusive = inode.lock.write();
        self.check_fallocate(&inode, bytes)?;
        check_not_append_only(&inode)?;
        if inode.get(RawInode::is_compressed) {
            return Err(Error::NotSupported("moving blocks of compressed files"));
        }
        let (shift, size) = plan(inode.size())?;
        self.check_fallocate(&inode, &(0..size))?;
        self.convert_inline(&self.gate.enter(), &inode)?;
        // Blocks that were reserved past the end would be in the way.
        {
            let (op, end) = (self.gate.enter(), inode.size().div_ceil(SIZE));
            self.truncate_blocks(&op, &inode, end, usize::MAX)?;
            self.notes.truncated(&op, ino, end);
        }
        self.flush_locked(&inode, bytes.start / SIZE..u64::MAX)?;
        let mut copies = Copies::default();
        if let Err(e) = self.copy_sources(&inode, &shift, &mut copies) {
            self.abandon_copies(&copies);
            return Err(e);
        }
        self.apply(&self.gate.enter(), &inode, &shift, &copies, size)
    }

    fn abandon_copies(&self, copies: &Copies) {
        for run in &copies.0 {
            let addrs: Vec<BlockAddr> = (0..run.len).map(|i| run.addr.offset(i)).collect();
            self.segs.abandon(&addrs);
        }
    }

    /// Copies every block that moves, and makes the nodes that their new slots need.
    fn copy_sources(&self, inode: &Arc<Inode>, shift: &Shift, copies: &mut Copies) -> Result<()> {
        let mut at = shift.sources.start;
        while at < shift.sources.end {
            at = match self.find_span(inode, at)? {
                Place::Missing { next } => next,
                Place::Span(span) => {
                    let end = span.blocks.end.min(shift.sources.end).min(at.saturating_add(BATCH));
                    let addrs = self.slot_addrs(&span.frame, span.slots(&(at..end)))?;
                    let used: Vec<(u64, BlockAddr)> =
                        (at..).zip(addrs).filter(|&(_, a)| a != BlockAddr::NULL).collect();
                    self.copy_batch(inode, shift, &used, copies)?;
                    end
                }
            };
        }
        Ok(())
    }

    fn copy_batch(
        &self,
        inode: &Arc<Inode>,
        shift: &Shift,
        used: &[(u64, BlockAddr)],
        copies: &mut Copies,
    ) -> Result<()> {
        if used.is_empty() {
            return Ok(());
        }
        // No room can be made with the lock held, and the reserve is not ours.
        if self.short_of_sections() {
            return Err(Error::NoSpace);
        }
        let mut owners = Vec::new();
        let mut moved = Vec::new();
        {
            let op = self.gate.enter();
            for &(source, addr) in used {
                let target = shift.target_of(source);
                let (frame, slot) = self.dnode_for_write(&op, inode, target)?;
                if addr.is_real() {
                    owners.push(RawSummary::data(frame.nid, self.nat.get(frame.nid)?.version, slot as u16));
                    moved.push((target, addr));
                }
            }
        }
        let mut blocks = vec![Block::zeroed(); moved.len()];
        let mut rest = blocks.as_mut_slice();
        for run in moved.chunk_by(|a, b| b.1.0 == a.1.0.saturating_add(1)) {
            let (now, later) = rest.split_at_mut(run.len());
            rest = later;
            if let Some(&(_, first)) = run.first() {
                self.dev.read_into(first, now)?;
            }
        }
        let addrs = self.segs.allocate(file_log(inode), &owners)?;
        for (&(target, _), &addr) in moved.iter().zip(&addrs) {
            copies.push(target, addr);
        }
        let mut out: Vec<(BlockAddr, Arc<Block>)> =
            addrs.into_iter().zip(blocks.into_iter().map(Arc::new)).collect();
        self.dev.write_scattered(&mut out)
    }

    /// Changes all slots.
    fn apply(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        shift: &Shift,
        copies: &Copies,
        size: u64,
    ) -> Result<()> {
        inode.pages.lock().drop_range(shift.changed.start..u64::MAX, &self.mem);
        let mut spans = self.spans_of(inode, shift.changed.clone())?;
        if shift.by > 0 {
            // A source is looked at before it is overwritten.
            spans.reverse();
        }
        let mut delta = 0;
        for span in spans {
            delta += self.apply_to_span(op, inode, &span, shift, copies)?;
        }
        self.add_blocks(op, inode, delta);
        // Never more than before: what moves was counted where it was.
        self.counts.release_blocks(delta.min(0).unsigned_abs());
        self.truncate_blocks(op, inode, size.div_ceil(SIZE), usize::MAX)?;
        self.notes.truncated(op, inode.ino, size.div_ceil(SIZE));
        self.resize(op, inode, size);
        let now = self.now();
        self.nodes.modify(op, &inode.frame, |block| set_changed(block.view_mut(), now));
        Ok(())
    }

    /// The nodes that exist for a range of file blocks.
    fn spans_of(&self, inode: &Inode, blocks: Range<u64>) -> Result<Vec<Span>> {
        let mut spans = Vec::new();
        let mut at = blocks.start;
        while at < blocks.end {
            at = match self.find_span(inode, at)? {
                Place::Missing { next } => next,
                Place::Span(span) => {
                    let next = span.blocks.end;
                    spans.push(span);
                    next
                }
            };
        }
        Ok(spans)
    }

    /// Returns by how much the number of blocks changed.
    fn apply_to_span(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        span: &Span,
        shift: &Shift,
        copies: &Copies,
    ) -> Result<i64> {
        let slots = span.slots(&shift.changed);
        let first = span.blocks.start.saturating_add(slots.start as u64);
        let targets = first..first.saturating_add(slots.len() as u64);
        let new = self.new_addrs(inode, targets.clone(), shift, copies)?;
        let old = self.slot_addrs(&span.frame, slots.clone())?;
        self.edit_slots(op, &span.frame, |all| {
            let words = all.get_mut(slots).unwrap_or_default();
            words.iter_mut().zip(&new).for_each(|(w, a)| *w = U32::new(a.0));
        })?;
        self.note_shifted(op, inode, targets, &new);
        let published: Vec<(BlockAddr, BlockAddr)> =
            new.iter().filter(|a| a.is_real()).map(|&a| (a, BlockAddr::NULL)).collect();
        self.segs.publish_all(&published)?;
        let freed: Vec<BlockAddr> = old.iter().copied().filter(|a| a.is_real()).collect();
        self.segs.invalidate_all(&freed)?;
        let count = |addrs: &[BlockAddr]| addrs.iter().filter(|a| **a != BlockAddr::NULL).count() as i64;
        Ok(count(&new) - count(&old))
    }

    fn note_shifted(&self, op: &Op<'_>, inode: &Inode, targets: Range<u64>, new: &[BlockAddr]) {
        self.notes.unmapped(op, inode.ino, targets.clone());
        let filled = || targets.clone().zip(new.iter().copied());
        let copied = filled().filter(|(_, a)| a.is_real());
        let mapped = copied.map(|(page, addr)| Mapped { page, addr, crc: None });
        self.notes.mapped(op, inode.ino, mapped, false);
        for (block, _) in filled().filter(|&(_, a)| a == BlockAddr::NEW) {
            self.notes.reserved(op, inode.ino, block..block + 1);
        }
    }

    /// What the slots of some blocks will hold: where a block moves to, its copy or the same marker.
    fn new_addrs(
        &self,
        inode: &Inode,
        targets: Range<u64>,
        shift: &Shift,
        copies: &Copies,
    ) -> Result<Vec<BlockAddr>> {
        let mut new = vec![BlockAddr::NULL; targets.end.saturating_sub(targets.start) as usize];
        let moved = shift.moved_into(&targets);
        if moved.is_empty() {
            return Ok(new);
        }
        let sources = self.map_blocks(inode, shift.source_of(moved.start)..shift.source_of(moved.end))?;
        let skipped = moved.start.saturating_sub(targets.start) as usize;
        for ((slot, target), source) in new.iter_mut().skip(skipped).zip(moved).zip(sources) {
            *slot = if source.is_real() { copies.get(target).unwrap_or_default() } else { source };
        }
        Ok(new)
    }
}
