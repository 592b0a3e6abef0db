//! Collapsing and inserting ranges: the rest of the file moves to other block numbers.
//!
//! A block's summary names its slot, and the summary of a block of the last checkpoint must not change. So the moving
//! blocks are first copied to new addresses, which nothing refers to yet; then all slots change within one operation.
//! A crash leaves the file in the old or the new state, and an error before the change leaves it as it was. The cost
//! is space for the copies until the next checkpoint. The room for them is granted before the file is locked.
use super::access::check_not_append_only;
use super::batch::file_log;
use super::locked::Locked;
use super::write::set_changed;
use super::{Files, Inode, SIZE};
use crate::error::{Error, Result};
use crate::health::invariant;
use crate::nodes::Span;
use crate::room::Grant;
use crate::space::Placement;
use crate::transaction::{MappedPage, Op};
use segno_clean::need::Request;
use segno_format::BlockAddr;
use segno_format::inode::RawInode;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// Blocks copied at a time.
const BATCH: usize = 512;

/// The blocks to move, and by how much.
#[derive(Clone, Debug)]
struct Shift {
    /// Blocks whose slots change.
    changed: Range<u64>,
    /// Blocks to move.
    sources: Range<u64>,
    /// Distance.
    by: i64,
}

impl Shift {
    /// Removes a range of whole blocks from a file, so that later data moves down, or inserts a hole, so that it moves up. Also returns
    /// the new size.
    fn plan(bytes: &Range<u64>, removes: bool, size: u64) -> Result<(Self, u64)> {
        let (start, end, last) = (bytes.start / SIZE, bytes.end / SIZE, size.div_ceil(SIZE));
        let by = (end - start).cast_signed();
        if removes {
            if bytes.end >= size {
                return Err(Error::Invalid("the range reaches the end of the file; truncate it"));
            }
            let shift = Self { changed: start..last, sources: end..last, by: -by };
            return Ok((shift, size - (bytes.end - bytes.start)));
        }
        if bytes.start >= size {
            return Err(Error::Invalid("the range starts at or past the end of the file"));
        }
        let size = size.checked_add(bytes.end - bytes.start).ok_or(Error::FileTooBig)?;
        Ok((Self { changed: start..size.div_ceil(SIZE), sources: start..last, by }, size))
    }

    fn target_of(&self, source: u64) -> u64 {
        source.saturating_add_signed(self.by)
    }
    fn source_of(&self, target: u64) -> u64 {
        target.saturating_add_signed(-self.by)
    }
    /// The part of some blocks that moved blocks end up in.
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

/// The copies by their new file blocks, ascending.
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

/// Writes the dirty pages of a range of a locked file.
pub type Flush<'a> = &'a dyn Fn(&Arc<Inode>, Range<u64>, &mut Grant<'_>) -> Result<()>;

impl Files {
    /// Room that removing or inserting a range takes. The caller holds the file's lock.
    pub fn request_for_shift(
        &self,
        inode: &Arc<Inode>,
        bytes: &Range<u64>,
        removes: bool,
    ) -> Result<Request> {
        self.check_shift(inode, bytes)?;
        let (shift, _) = Shift::plan(bytes, removes, inode.size())?;
        self.request_for_copies(inode, shift.changed.start..shift.sources.end, &shift.sources)
    }

    fn check_shift(&self, inode: &Inode, bytes: &Range<u64>) -> Result<()> {
        self.check_fallocate(inode, bytes)?;
        check_not_append_only(inode)?;
        if inode.get(RawInode::is_compressed) {
            return Err(Error::NotSupported("moving blocks of compressed files"));
        }
        Ok(())
    }

    /// Removes a range of whole blocks from a file, or inserts it as a hole.
    pub fn shift(
        &self,
        inode: &Arc<Inode>,
        mut locked: Locked<'_>,
        bytes: &Range<u64>,
        removes: bool,
        flush: Flush<'_>,
    ) -> Result<()> {
        self.check_shift(inode, bytes)?;
        let granted = &mut locked.granted;
        let (shift, size) = Shift::plan(bytes, removes, inode.size())?;
        self.check_fallocate(inode, &(0..size))?;
        self.convert_inline(&self.base.tx.begin(), inode)?;
        // Blocks reserved past the end would collide with the moved ones.
        {
            let (op, end) = (self.base.tx.begin(), inode.size().div_ceil(SIZE));
            self.truncate_blocks(&op, inode, end, usize::MAX)?;
            op.record(inode.ino, |log| log.truncated(end));
        }
        flush(inode, bytes.start / SIZE..u64::MAX, granted)?;
        let (copies, placed) = self.copy_sources(inode, &shift, granted)?;
        let op = self.base.tx.begin();
        placed.settle(|placed| self.apply(&op, inode, &shift, &copies, placed, size))
    }

    /// Copies every moving block, and creates the nodes for the new slots.
    fn copy_sources(
        &self,
        inode: &Arc<Inode>,
        shift: &Shift,
        granted: &mut Grant<'_>,
    ) -> Result<(Copies, Placement)> {
        let (mut copies, mut placed) = (Copies::default(), self.space.placement(0));
        for span in self.nodes.spans(&inode.frame, shift.sources.clone()) {
            let span = span?;
            let first = shift.sources.start.max(span.blocks.start);
            let addrs = self.nodes.slot_addrs(&span.frame, span.slots(&shift.sources))?;
            let used: Vec<(u64, BlockAddr)> =
                (first..).zip(addrs).filter(|&(_, a)| a != BlockAddr::NULL).collect();
            for batch in used.chunks(self.room.batch_pages(BATCH).max(1)) {
                self.copy_batch(inode, shift, batch, granted, &mut copies, &mut placed)?;
            }
        }
        Ok((copies, placed))
    }

    fn copy_batch(
        &self,
        inode: &Arc<Inode>,
        shift: &Shift,
        used: &[(u64, BlockAddr)],
        granted: &mut Grant<'_>,
        copies: &mut Copies,
        placed: &mut Placement,
    ) -> Result<()> {
        let mut owners = Vec::new();
        let mut moved = Vec::new();
        {
            let op = self.base.tx.begin();
            for &(source, addr) in used {
                let target = shift.target_of(source);
                let (frame, slot) = self.nodes.dnode_for_write(&op, &inode.frame, target)?;
                if addr.is_real() {
                    owners.push(self.nodes.summary_of(frame.nid, slot)?);
                    moved.push((target, addr));
                }
            }
        }
        let (targets, sources): (Vec<u64>, Vec<BlockAddr>) = moved.into_iter().unzip();
        let blocks = self.base.dev.read_scattered(&sources)?;
        let room = granted.split(sources.len() as u64);
        let promised = room.blocks() == sources.len() as u64;
        invariant!(self.base.health, promised, "more blocks move than were promised room");
        let mut copied = self.write_new(blocks, |space| space.allocate(file_log(inode), &owners))?;
        let addrs = std::mem::take(&mut copied.addrs);
        targets.into_iter().zip(addrs).for_each(|(target, addr)| copies.push(target, addr));
        placed.append(copied);
        Ok(())
    }

    /// Updates all slots.
    fn apply(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        shift: &Shift,
        copies: &Copies,
        placed: &mut Placement,
        size: u64,
    ) -> Result<()> {
        inode.pages.lock().drop_range(shift.changed.start..u64::MAX, &self.base.mem);
        let mut spans = self.nodes.spans(&inode.frame, shift.changed.clone()).collect::<Result<Vec<_>>>()?;
        if shift.by > 0 {
            // A source is read before it is overwritten.
            spans.reverse();
        }
        let mut delta = 0;
        for span in spans {
            delta += self.apply_to_span(op, inode, &span, (shift, copies), placed)?;
        }
        self.nodes.add_blocks(op, &inode.frame, delta);
        // Never more than before: moved blocks were counted at their old slots.
        self.space.counts.release_blocks(delta.min(0).unsigned_abs())?;
        self.truncate_blocks(op, inode, size.div_ceil(SIZE), usize::MAX)?;
        op.record(inode.ino, |log| log.truncated(size.div_ceil(SIZE)));
        self.resize(op, inode, size);
        let now = self.base.content_time();
        self.nodes.cache.modify_inode(op, &inode.frame, |i| set_changed(i, now));
        Ok(())
    }

    /// Returns the change of the number of blocks.
    fn apply_to_span(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        span: &Span,
        (shift, copies): (&Shift, &Copies),
        placed: &mut Placement,
    ) -> Result<i64> {
        let slots = span.slots(&shift.changed);
        let first = span.blocks.start.saturating_add(slots.start as u64);
        let targets = first..first.saturating_add(slots.len() as u64);
        let new = self.new_addrs(inode, targets.clone(), shift, copies)?;
        let old = self.nodes.slot_addrs(&span.frame, slots.clone())?;
        invariant!(
            self.base.health,
            old.len() == new.len(),
            "the numbers of moved and of filled slots differ"
        );
        self.nodes.edit_slots(op, &span.frame, "slots outside a node are moved", |all| {
            let words = all.get_mut(slots)?;
            words.iter_mut().zip(&new).for_each(|(w, a)| *w = U32::new(a.0));
            Some(())
        })?;
        self.note_shifted(op, inode, targets, &new);
        let real =
            |addrs: &[BlockAddr]| -> Vec<_> { addrs.iter().copied().filter(|a| a.is_real()).collect() };
        self.space.publish(placed, &real(&new), &real(&old))?;
        let count = |addrs: &[BlockAddr]| addrs.iter().filter(|a| **a != BlockAddr::NULL).count() as i64;
        Ok(count(&new) - count(&old))
    }

    fn note_shifted(&self, op: &Op<'_>, inode: &Inode, targets: Range<u64>, new: &[BlockAddr]) {
        op.record(inode.ino, |log| log.unmapped(targets.clone()));
        let filled = || targets.clone().zip(new.iter().copied());
        let copied = filled().filter(|(_, a)| a.is_real());
        let mapped = copied.map(|(page, addr)| MappedPage { page, addr, crc: None });
        op.mapped(inode.ino, mapped, false);
        for (block, _) in filled().filter(|&(_, a)| a == BlockAddr::NEW) {
            op.record(inode.ino, |log| log.reserved(block..block + 1));
        }
    }

    /// The future content of the slots of some blocks: for a moved block, the address of its copy or the same marker.
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
        let sources =
            self.nodes.map_blocks(&inode.frame, shift.source_of(moved.start)..shift.source_of(moved.end))?;
        let skipped = moved.start.saturating_sub(targets.start) as usize;
        for ((slot, target), source) in new.iter_mut().skip(skipped).zip(moved).zip(sources) {
            let stays = (!source.is_real()).then_some(source);
            let new = stays.or_else(|| copies.get(target));
            *slot = self.base.health.present(new, "a block that moves has no copy")?;
        }
        Ok(new)
    }
}
