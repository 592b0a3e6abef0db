//! Per-segment and per-section state.
use super::ages::Ages;
use super::boundary::Boundary;
use super::free::BitSet;
use super::index::Holes;
use super::runs::FreeSections;
use crate::error::Result;
use crate::health::{Health, invariant};
use foldhash::{HashMap, HashMapExt};
use segno_clean::{Class, Index, Paged};
use segno_format::bits::msb;
use segno_format::sit::{LogType, RawSitEntry, SIT_MAP_BYTES};
use segno_format::{BLOCKS_PER_SEG, BlockAddr, Corrupt, Geometry, SecNo, SegNo, Structure};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Valid blocks, and held blocks, which must not be reused because the last checkpoint, or a node logged by
/// fsync since, may refer to them.
#[derive(Debug, Clone)]
pub(super) struct Bitmaps {
    pub valid: [u8; SIT_MAP_BYTES],
    pub held: [u8; SIT_MAP_BYTES],
}

/// Smallest mtime stored. The first second of a volume counts as its next one, as an mtime of 0 belongs to
/// segments that were never used or were discarded.
pub const FIRST_SECOND: u64 = 1;

#[derive(Debug, Clone, Copy)]
pub(super) struct Seg {
    pub valid: u16,
    pub held: u16,
    pub log: LogType,
    pub current: bool,
    pub mtime: u64,
}

impl Seg {
    const UNUSED: Self = Self { valid: 0, held: 0, log: LogType::HotData, current: false, mtime: 0 };

    /// Sets whether a block is valid.
    fn set_valid(&mut self, bitmaps: &mut Bitmaps, off: usize, on: bool, now: u64) {
        self.mtime = match self.mtime {
            0 => now,
            m => m.saturating_mul(self.valid.into()).saturating_add(now) / (u64::from(self.valid) + 1),
        };
        msb::put(&mut bitmaps.valid, off, on);
        if on {
            self.valid += 1;
            self.hold(bitmaps, off);
        } else {
            self.valid -= 1;
            if self.valid == 0 {
                // Discards depend on the time at which a segment became empty, so it is exact.
                self.mtime = now.max(FIRST_SECOND);
            }
        }
    }

    /// Keeps a block from being reused before the next checkpoint.
    pub fn hold(&mut self, bitmaps: &mut Bitmaps, off: usize) {
        if !msb::test(&bitmaps.held, off) {
            msb::put(&mut bitmaps.held, off, true);
            self.held += 1;
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sec {
    pub valid: u32,
    pub free_segs: u32,
    /// Segments that are current or have unpublished blocks.
    pub busy: u32,
}

/// Segments, sections and their indexes.
pub struct Table {
    pub(super) segs: Paged<Seg>,
    pub(super) bitmaps: Paged<Option<Box<Bitmaps>>>,
    pub(super) secs: Paged<Sec>,
    pub(super) geo: Geometry,
    pub(super) free: BitSet,
    pub(super) free_secs: FreeSections,
    /// Segments that a stream left before they were full, with the first unused block.
    pub(super) parked: VecDeque<(SegNo, u32)>,
    pub(super) prefree: BTreeSet<SegNo>,
    /// Segments whose SIT entry differs from that of the last checkpoint, or of the one in progress.
    pub(super) changed: BTreeSet<SegNo>,
    /// Boundary of the checkpoint in progress.
    pub(super) boundary: Option<Boundary>,
    /// Segments open in a log or stream.
    pub(super) current: BTreeSet<SegNo>,
    /// Canaries: free blocks that no log writes, one per log.
    pub(super) canaries: [Option<(SegNo, u32)>; 6],
    /// Number of allocated blocks not yet published.
    pub(super) unpublished: HashMap<SegNo, u32>,
    pub(super) pins: HashMap<SegNo, u32>,
    pub(super) health: Arc<Health>,
    /// Sections that may be cleaned.
    pub(super) index: Index,
    /// Sections that would be candidates but are excluded.
    pub(super) aside: BTreeSet<SecNo>,
    pub(super) holes: Holes,
    pub(super) valid_total: u64,
    /// Valid blocks by the type of their segment.
    pub(super) valid_by_log: [u64; 6],
    pub(super) held_total: u64,
    pub(super) ages: Ages,
}

impl Table {
    /// Creates a table with every segment free.
    pub fn new(geo: &Geometry, health: Arc<Health>) -> Self {
        let (n, s) = (geo.segment_count_main, geo.segs_per_sec);
        let mut t = Self {
            segs: Paged::new(n as usize, Seg::UNUSED),
            bitmaps: Paged::new(n as usize, None),
            secs: Paged::new(geo.section_count as usize, Sec { valid: 0, free_segs: s, busy: 0 }),
            geo: *geo,
            free: BitSet::new(n as usize),
            free_secs: FreeSections::new(geo.section_count),
            parked: VecDeque::new(),
            prefree: BTreeSet::new(),
            changed: BTreeSet::new(),
            canaries: [None; 6],
            boundary: None,
            current: BTreeSet::new(),
            unpublished: HashMap::new(),
            pins: HashMap::new(),
            health,
            index: Index::new(geo.section_count, geo.blocks_per_sec()),
            aside: BTreeSet::new(),
            holes: Holes::default(),
            valid_total: 0,
            valid_by_log: [0; 6],
            held_total: 0,
            ages: Ages::default(),
        };
        (0..n).for_each(|i| _ = t.free.put(i, true));
        t
    }

    /// A segment. Numbers from the device are checked where they are read, so all that are looked up exist.
    pub(super) fn seg(&self, seg: SegNo) -> Seg {
        let found = self.segs.get(seg.idx()).copied();
        invariant!(self.health, found.is_some(), "a segment outside the main area is looked up", else {});
        found.unwrap_or(Seg::UNUSED)
    }
    fn sec(&self, sec: SecNo) -> Sec {
        let found = self.secs.get(sec.idx()).copied();
        invariant!(self.health, found.is_some(), "a section outside the main area is looked up", else {});
        found.unwrap_or_default()
    }
    /// The bitmaps of a segment that has valid or held blocks.
    fn bitmaps(&self, seg: SegNo) -> Option<&Bitmaps> {
        let found = self.bitmaps.get(seg.idx());
        invariant!(self.health, found.is_some(), "the maps of a segment outside the main area are looked up", else {});
        found?.as_deref()
    }
    pub(super) fn valid_map(&self, seg: SegNo) -> [u8; SIT_MAP_BYTES] {
        self.bitmaps(seg).map_or([0; SIT_MAP_BYTES], |m| m.valid)
    }

    /// Sets a segment's entry from the last checkpoint.
    pub fn load(&mut self, seg: SegNo, entry: &RawSitEntry) -> Result<()> {
        let log = entry.parse(seg)?;
        self.update(seg, |s, bitmaps| {
            *bitmaps = (entry.valid() > 0)
                .then(|| Box::new(Bitmaps { valid: entry.valid_map, held: entry.valid_map }));
            s.valid = entry.valid();
            s.held = entry.valid();
            s.log = log;
            s.mtime = entry.mtime.get();
        });
        Ok(())
    }

    pub fn free_sections(&self) -> u64 {
        self.free_secs.len()
    }
    pub fn free_segments(&self) -> u64 {
        self.free.len()
    }
    /// Segments without valid blocks that no log has open.
    pub fn empty_segments(&self) -> u64 {
        let idle_empty = |&&seg: &&SegNo| matches!(self.seg(seg), Seg { valid: 0, current: false, .. });
        let busy: BTreeSet<&SegNo> =
            self.unpublished.keys().chain(self.pins.keys()).filter(idle_empty).collect();
        self.free.len() + self.prefree.len() as u64 + busy.len() as u64
    }
    /// Segments that become free with the next checkpoint.
    pub fn prefree(&self) -> usize {
        self.prefree.len()
    }
    /// Sections that become free with the next checkpoint.
    pub fn prefree_sections(&self) -> u64 {
        let secs: Vec<SecNo> = self.prefree.iter().map(|&seg| self.geo.sec_of(seg)).collect();
        let others = |run: &[SecNo]| run.first().map_or(0, |&sec| self.sec(sec).free_segs);
        let free = |run: &&[SecNo]| run.len() as u32 + others(run) == self.geo.segs_per_sec;
        secs.chunk_by(|a, b| a == b).filter(free).count() as u64
    }
    pub fn changed(&self) -> &BTreeSet<SegNo> {
        &self.changed
    }
    /// Valid blocks of all segments, and of node segments.
    pub fn totals(&self) -> (u64, u64) {
        let [_, _, _, hot, warm, cold] = self.valid_by_log;
        (self.valid_total, hot + warm + cold)
    }
    /// Blocks that are no longer valid but may not be overwritten before the next checkpoint.
    pub fn reclaimable(&self) -> u64 {
        self.held_total.saturating_sub(self.valid_total)
    }
    pub fn valid_in_section(&self, sec: SecNo) -> u32 {
        self.sec(sec).valid
    }
    pub fn log_of(&self, seg: SegNo) -> LogType {
        self.seg(seg).log
    }
    pub fn valid_in_segment(&self, seg: SegNo) -> u32 {
        self.seg(seg).valid.into()
    }
    /// When a segment became empty, on the clock of SIT mtimes; none if it has valid blocks, never had any, or was discarded
    /// since.
    pub fn emptied_at(&self, seg: SegNo) -> Option<u64> {
        let Seg { valid, mtime, .. } = self.seg(seg);
        (valid == 0 && mtime != 0).then_some(mtime)
    }
    /// Records that a segment without valid blocks holds nothing to be discarded.
    pub fn note_discarded(&mut self, seg: SegNo) {
        if self.emptied_at(seg).is_some()
            && let Some(s) = self.segs.get_mut(seg.idx())
        {
            s.mtime = 0;
        }
    }
    /// Offsets of blocks that are not valid. Empty for a segment that is known to hold no data: all free
    /// segments of the mounted checkpoint were discarded (`was_trimmed`), and this one was discarded again or
    /// not used since.
    pub fn undiscarded(&self, seg: SegNo, was_trimmed: bool) -> Vec<Range<u32>> {
        let s = self.seg(seg);
        if was_trimmed && s.valid == 0 && s.mtime == 0 && !s.current {
            return Vec::new();
        }
        let offsets: Vec<u32> = (0..BLOCKS_PER_SEG).filter(|&off| !self.is_valid(seg, off)).collect();
        let runs = offsets.chunk_by(|a, b| a + 1 == *b);
        runs.filter_map(|run| Some(*run.first()?..*run.last()? + 1)).collect()
    }
    pub fn is_valid(&self, seg: SegNo, off: u32) -> bool {
        self.bitmaps(seg).is_some_and(|m| msb::test(&m.valid, off as usize))
    }
    /// Whether a block must not be written: it is valid, or the last checkpoint needs it.
    pub fn is_held(&self, seg: SegNo, off: u32) -> bool {
        self.bitmaps(seg).is_some_and(|m| msb::test(&m.held, off as usize))
    }
    /// First offset at or after `from` that may be written.
    pub fn next_hole(&self, seg: SegNo, from: u32) -> Option<u32> {
        let bitmaps = self.bitmaps(seg);
        (from..BLOCKS_PER_SEG).find(|&o| bitmaps.is_none_or(|m| !msb::test(&m.held, o as usize)))
    }
    /// The entry that the next checkpoint stores for a segment.
    pub fn entry(&self, seg: SegNo) -> RawSitEntry {
        let s = self.seg(seg);
        RawSitEntry::new(s.log, s.valid, &self.valid_map(seg), s.mtime)
    }

    /// Sections that may be cleaned.
    pub fn index(&self) -> &Index {
        &self.index
    }
    /// Orders cleaning candidates by age too, from now on.
    pub fn keep_ages(&mut self) {
        self.index.keep_ages(self.geo.segs_per_sec);
        (0..self.secs.len() as u32).map(SecNo).for_each(|sec| self.update_candidate(sec));
    }
    /// Excludes a section from cleaning.
    pub fn set_aside(&mut self, sec: SecNo) {
        self.aside.insert(sec);
        self.update_candidate(sec);
    }
    /// Includes all excluded sections again.
    pub fn reconsider(&mut self) {
        for sec in std::mem::take(&mut self.aside) {
            self.update_candidate(sec);
        }
    }
    /// Whether a section holds only blocks that recovery found there.
    pub fn is_left_over(&self, sec: SecNo) -> bool {
        matches!(self.sec(sec), Sec { valid: 0, busy: 0, .. })
    }
    /// Class of a section, by its first segment.
    pub fn class_of_section(&self, sec: SecNo) -> Class {
        if self.log_of(self.geo.sec_start(sec)).is_node() { Class::Node } else { Class::Data }
    }

    pub(super) fn update_candidate(&mut self, sec: SecNo) {
        let s = self.sec(sec);
        let partly = s.valid > 0 && s.valid < self.geo.blocks_per_sec();
        if s.busy == 0 && partly && !self.aside.contains(&sec) {
            let mtime = if self.index.ages().is_some() { self.section_mtime(sec) } else { 0 };
            self.index.put(sec.0, self.class_of_section(sec), s.valid, mtime);
        } else {
            self.index.remove(sec.0);
        }
    }

    pub(super) fn section_mtime(&self, sec: SecNo) -> u64 {
        let sum = self.geo.segments_of(sec).fold(0, |sum: u64, seg| sum.saturating_add(self.seg(seg).mtime));
        sum / u64::from(self.geo.segs_per_sec.max(1))
    }

    /// Sets whether blocks are valid. Adjacent addresses of one segment cost one update of the indexes.
    pub fn set_valid(&mut self, addrs: &[BlockAddr], on: bool, now: u64) -> Result<()> {
        for (first, seg, run) in by_segment(addrs, self.geo) {
            let outside = || {
                let why = "block outside the main area";
                Corrupt::block(Structure::SitBlock, first.0.into(), why, (!on).into(), on.into())
            };
            let seg = seg.ok_or_else(outside)?;
            self.keep_at_boundary(seg);
            self.changed.insert(seg);
            self.set_valid_in_segment(seg, run, on, now)?;
            if on {
                self.note_since(seg, run);
            }
        }
        Ok(())
    }

    /// Sets whether blocks of one segment are valid.
    pub(super) fn set_valid_in_segment(
        &mut self,
        seg: SegNo,
        addrs: &[BlockAddr],
        on: bool,
        now: u64,
    ) -> Result<()> {
        let bad =
            |a: BlockAddr, why| Corrupt::block(Structure::SitBlock, a.0.into(), why, (!on).into(), on.into());
        let (mut refused, geo) = (None, self.geo);
        self.update(seg, |s, bitmaps| {
            let bitmaps = bitmaps.get_or_insert_with(Bitmaps::empty);
            for &addr in addrs {
                let off = offset_of(addr, &geo);
                if msb::test(&bitmaps.valid, off) == on {
                    refused = Some(addr);
                    break;
                }
                s.set_valid(bitmaps, off, on, now);
            }
        });
        match refused {
            None => Ok(()),
            Some(a) => Err(bad(a, if on { "block is in use twice" } else { "block is freed twice" }).into()),
        }
    }

    /// A log opens a segment; its type becomes the log's.
    pub fn open(&mut self, seg: SegNo, log: LogType) {
        invariant!(self.health, !self.current.contains(&seg), "two logs open one segment", else return);
        let Seg { valid, log: before, .. } = self.seg(seg);
        self.stamp_opening(seg);
        self.open_loaded(seg, log);
        self.add_to_checkpoint(Some(seg));
        // The type of a segment without blocks is stored once it gets one.
        if valid > 0 && before != log {
            self.changed.insert(seg);
        }
    }
    /// A log continues in the segment where the checkpoint left it.
    pub fn open_loaded(&mut self, seg: SegNo, log: LogType) {
        self.update(seg, |s, _| {
            s.current = true;
            s.log = log;
        });
        self.current.insert(seg);
    }
    /// Changes the type of a segment without valid blocks; a no-op if it already has that type.
    pub fn retype(&mut self, seg: SegNo, log: LogType) {
        let may = self.valid_in_segment(seg) == 0 || self.log_of(seg) == log;
        invariant!(self.health, may, "a segment in use changes its type", else return);
        self.update(seg, |s, _| s.log = log);
    }
    /// Sets the type of the segments of a section that have no valid block and no log to the type that
    /// recovery found in the section. Linux, and cleaning here, take the type of a section from its first
    /// segment.
    pub fn retype_section(&mut self, sec: SecNo, log: LogType) {
        for seg in self.geo.segments_of(sec) {
            if self.valid_in_segment(seg) == 0 && !self.current.contains(&seg) {
                self.update(seg, |s, _| s.log = log);
                self.changed.insert(seg);
            }
        }
    }
    /// A log leaves a segment.
    pub fn close(&mut self, seg: SegNo) {
        self.update(seg, |s, _| s.current = false);
        let was_open = self.current.remove(&seg);
        invariant!(self.health, was_open, "a log leaves a segment that it has not opened", else {});
    }
    /// Counts addresses of a segment that were allocated and are not published yet.
    pub fn hand_out(&mut self, seg: SegNo, n: u32) {
        let before = self.before(seg);
        *self.unpublished.entry(seg).or_default() += n;
        self.after(seg, before);
        self.count_written(seg, n);
    }
    /// Subtracts addresses that were published or given up.
    pub fn take_back(&mut self, seg: SegNo, n: u32) -> Result<()> {
        let before = self.before(seg);
        let known = subtract(&mut self.unpublished, seg, n);
        self.after(seg, before);
        invariant!(self.health, known, "an unallocated block is published");
        Ok(())
    }
    /// Keeps the segment from being opened or cleaned until [`Table::unpin`].
    pub fn pin(&mut self, seg: SegNo) {
        let before = self.before(seg);
        *self.pins.entry(seg).or_default() += 1;
        self.after(seg, before);
    }
    /// Removes a pin; false if there was none.
    pub fn unpin(&mut self, seg: SegNo) -> bool {
        let before = self.before(seg);
        let known = subtract(&mut self.pins, seg, 1);
        self.after(seg, before);
        known
    }
    /// Holds a segment until the next checkpoint, because recovery found blocks in it.
    pub fn hold_all(&mut self, seg: SegNo) {
        self.update(seg, |s, bitmaps| {
            let bitmaps = bitmaps.get_or_insert_with(Bitmaps::empty);
            bitmaps.held = [0xff; SIT_MAP_BYTES];
            s.held = BLOCKS_PER_SEG as u16;
        });
        self.changed.insert(seg);
    }

    /// Keeps a block unchanged until the checkpoint after the one in progress is durable. It replaces the previous
    /// canary of the log.
    pub fn keep_canary(&mut self, log: LogType, seg: SegNo, off: u32) {
        let before = self.canaries[log.idx()].replace((seg, off));
        // A checkpoint releases it.
        self.add_to_checkpoint(before.map(|(seg, _)| seg));
        self.update(seg, |s, bitmaps| s.hold(bitmaps.get_or_insert_with(Bitmaps::empty), off as usize));
    }

    /// Whether a block is the canary of a log.
    pub fn is_canary(&self, seg: SegNo, off: u32) -> bool {
        self.canaries.contains(&Some((seg, off)))
    }

    /// First segment of a free section at or after `hint`, else of the first free section.
    pub fn find_free(&self, hint: SegNo) -> Option<SegNo> {
        self.free_secs.next_wrapping(self.geo.sec_of(hint)).map(|sec| self.geo.sec_start(sec))
    }

    /// The next free segment after `current` in the same section.
    pub fn next_in_section(&self, current: SegNo) -> Option<SegNo> {
        let next = self.free.next(current.0 + 1).map(SegNo);
        next.filter(|&seg| self.geo.sec_of(seg) == self.geo.sec_of(current))
    }

    /// Claims sections for a stream, as [`FreeSections::claim`].
    pub fn claim(&mut self, after: Option<SecNo>, want: u32) -> Option<Range<SecNo>> {
        self.free_secs.claim(after, want)
    }
    /// Whether a section is free, claimed or not.
    pub fn is_free_section(&self, sec: SecNo) -> bool {
        self.free_secs.contains(sec)
    }
    /// First segment of the next section of a claim.
    pub fn advance(&mut self, claim: &mut Range<SecNo>) -> Option<SegNo> {
        self.free_secs.advance(claim).map(|sec| self.geo.sec_start(sec))
    }
    pub fn release(&mut self, claim: &Range<SecNo>) {
        self.free_secs.release(claim);
    }
    /// Lengths of the free intervals in sections, longest first.
    #[cfg(feature = "lab")]
    pub fn free_intervals(&self) -> Vec<u32> {
        self.free_secs.intervals()
    }

    /// The segment of a type with the most free blocks for SSR by a log that leaves another segment.
    pub fn with_most_holes(&self, log: LogType, leaves: SegNo) -> Option<SegNo> {
        self.holes.of(log).find(|&seg| !self.has_other_log(seg, Some(leaves)))
    }
    /// Whether used segments have holes for a number of data blocks.
    pub fn has_holes_for(&self, blocks: u64) -> bool {
        let mut found = 0;
        let logs = [LogType::HotData, LogType::WarmData, LogType::ColdData];
        logs.into_iter().flat_map(|log| self.holes.of(log)).any(|seg| {
            found += if self.has_other_log(seg, None) {
                0
            } else {
                u64::from(BLOCKS_PER_SEG).saturating_sub(self.seg(seg).held.into())
            };
            found >= blocks
        })
    }
    /// Whether the segment's section has a log or stream other than the one that leaves a segment. No two logs may share a
    /// section.
    pub(super) fn has_other_log(&self, seg: SegNo, leaves: Option<SegNo>) -> bool {
        let sec = self.geo.sec_of(seg);
        let (from, to) = (self.geo.sec_start(sec), self.geo.sec_start(sec.offset(1)));
        self.current.range(from..to).any(|&open| Some(open) != leaves)
    }

    pub fn is_busy(&self, seg: SegNo) -> bool {
        self.seg(seg).current || self.unpublished.contains_key(&seg) || self.pins.contains_key(&seg)
    }
    /// Whether the segment's section is open or has unpublished blocks.
    pub fn is_section_busy(&self, seg: SegNo) -> bool {
        self.geo.segments_of(self.geo.sec_of(seg)).any(|seg| self.is_busy(seg))
    }
    /// Whether a log may open the segment; its section is not considered.
    pub fn is_free(&self, seg: SegNo) -> bool {
        self.seg(seg).held == 0 && !self.is_busy(seg)
    }
}

/// Subtracts from the count of a segment, which is removed at 0; false if the count is smaller.
fn subtract(counts: &mut HashMap<SegNo, u32>, seg: SegNo, n: u32) -> bool {
    let left = counts.get(&seg).and_then(|all| all.checked_sub(n));
    match left {
        Some(0) => drop(counts.remove(&seg)),
        Some(left) => drop(counts.insert(seg, left)),
        None => {}
    }
    left.is_some()
}

/// Runs of addresses in one segment: the first, the segment if they are in the main area, and all.
pub(super) fn by_segment(
    addrs: &[BlockAddr],
    geo: Geometry,
) -> impl Iterator<Item = (BlockAddr, Option<SegNo>, &[BlockAddr])> {
    let seg_of = move |a: BlockAddr| geo.seg_of(a).map(|(seg, _)| seg);
    let runs = addrs.chunk_by(move |&a, &b| seg_of(a) == seg_of(b));
    runs.filter_map(move |run| run.first().map(|&first| (first, seg_of(first), run)))
}

/// Offset of a block of the main area in its segment.
pub(super) fn offset_of(addr: BlockAddr, geo: &Geometry) -> usize {
    (addr.0.saturating_sub(geo.main_blkaddr) % BLOCKS_PER_SEG) as usize
}
