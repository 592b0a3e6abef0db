//! Per-segment and per-section state.
use super::boundary::Boundary;
use super::free::BitSet;
use super::index::{Holes, class_of};
use super::runs::FreeSections;
use crate::error::Result;
use crate::planted::{Bug, planted};
use segno_clean::{Class, Index};
use segno_format::bits::msb;
use segno_format::sit::{LogType, RawSitEntry, SIT_MAP_BYTES};
use segno_format::{BLOCKS_PER_SEG, BlockAddr, Corrupt, Geometry, SegNo, Structure};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

/// Which blocks are valid now, and which must not be reused because the last checkpoint, or a block logged by fsync
/// since, may refer to them.
#[derive(Debug, Clone)]
pub(super) struct Maps {
    pub valid: [u8; SIT_MAP_BYTES],
    pub held: [u8; SIT_MAP_BYTES],
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Seg {
    pub valid: u16,
    pub held: u16,
    pub log: LogType,
    current: bool,
    pub mtime: u64,
}

impl Seg {
    /// Makes a block valid, or not valid any more.
    fn flip(&mut self, maps: &mut Maps, off: usize, on: bool, now: u64) {
        self.mtime = match self.mtime {
            0 => now,
            m => m.saturating_mul(self.valid.into()).saturating_add(now) / (u64::from(self.valid) + 1),
        };
        msb::put(&mut maps.valid, off, on);
        if on {
            self.valid += 1;
            self.hold(maps, off);
        } else {
            self.valid -= 1;
            if planted(Bug::ReusedBlock) {
                msb::put(&mut maps.held, off, false);
                self.held -= 1;
            }
        }
    }

    /// Keeps a block from being reused.
    pub fn hold(&mut self, maps: &mut Maps, off: usize) {
        if !msb::test(&maps.held, off) {
            msb::put(&mut maps.held, off, true);
            self.held += 1;
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sec {
    valid: u32,
    free_segs: u32,
    /// Segments that are current or have unpublished blocks.
    busy: u32,
}

/// Segments remembered that streams left; SSR and cleaning find the others.
const PARKED_MAX: usize = 1024;

/// See the module.
#[derive(Debug)]
pub struct Table {
    pub(super) segs: Vec<Seg>,
    pub(super) maps: Vec<Option<Box<Maps>>>,
    secs: Vec<Sec>,
    segs_per_sec: u32,
    pub(super) free: BitSet,
    free_secs: FreeSections,
    /// Segments that a stream left before they were full, with the first block that it did not use.
    parked: VecDeque<(SegNo, u32)>,
    prefree: BTreeSet<SegNo>,
    /// Segments whose SIT entry differs from what the last checkpoint stored, or the one on its way will.
    pub(super) changed: BTreeSet<SegNo>,
    /// Of the checkpoint on its way.
    pub(super) boundary: Option<Boundary>,
    /// Segments that logs are in.
    pub(super) current: BTreeSet<SegNo>,
    /// Blocks that nobody writes although they are free, one per log.
    pub(super) spared: [Option<(SegNo, u32)>; 6],
    unpublished: HashMap<SegNo, u32>,
    /// Sections that may be cleaned.
    index: Index,
    /// Those that may not although they look like it.
    aside: BTreeSet<u32>,
    holes: Holes,
    valid_total: u64,
    valid_nodes: u64,
    held_total: u64,
}

impl Table {
    /// Every segment free.
    pub fn new(geo: &Geometry) -> Self {
        let (n, s) = (geo.segment_count_main, geo.segs_per_sec);
        let mut t = Self {
            segs: vec![
                Seg { valid: 0, held: 0, log: LogType::HotData, current: false, mtime: 0 };
                n as usize
            ],
            maps: vec![None; n as usize],
            secs: vec![Sec { valid: 0, free_segs: s, busy: 0 }; geo.section_count as usize],
            segs_per_sec: s,
            free: BitSet::new(n as usize),
            free_secs: FreeSections::new(geo.section_count),
            parked: VecDeque::new(),
            prefree: BTreeSet::new(),
            changed: BTreeSet::new(),
            spared: [None; 6],
            boundary: None,
            current: BTreeSet::new(),
            unpublished: HashMap::new(),
            index: Index::new(geo.section_count, geo.blocks_per_sec()),
            aside: BTreeSet::new(),
            holes: Holes::default(),
            valid_total: 0,
            valid_nodes: 0,
            held_total: 0,
        };
        (0..n).for_each(|i| t.free.put(i, true));
        t
    }

    /// Takes a segment's entry from the last checkpoint.
    pub fn load(&mut self, seg: SegNo, entry: &RawSitEntry) -> Result<()> {
        let log = entry.parse(seg)?;
        self.update(seg, |s, maps| {
            *maps =
                (entry.valid() > 0).then(|| Box::new(Maps { valid: entry.valid_map, held: entry.valid_map }));
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
    /// Segments without valid blocks that no log is in.
    pub fn empty_segments(&self) -> u64 {
        let idle_empty = |s: &&SegNo| self.segs.get(s.idx()).is_some_and(|s| s.valid == 0 && !s.current);
        let unpublished = self.unpublished.keys().filter(idle_empty).count();
        self.free.len() + self.prefree.len() as u64 + unpublished as u64
    }
    /// Segments that become free with the next checkpoint.
    pub fn prefree(&self) -> usize {
        self.prefree.len()
    }
    /// Sections that become free with the next checkpoint.
    pub fn prefree_sections(&self) -> u64 {
        let per = self.segs_per_sec.max(1);
        let mut secs: Vec<(u32, u32)> = Vec::new();
        for seg in &self.prefree {
            match secs.last_mut() {
                Some((sec, n)) if *sec == seg.0 / per => *n += 1,
                _ => secs.push((seg.0 / per, 1)),
            }
        }
        let free = |sec: u32| self.secs.get(sec as usize).map_or(0, |s| s.free_segs);
        secs.into_iter().filter(|&(sec, n)| n + free(sec) == per).count() as u64
    }
    pub fn changed(&self) -> &BTreeSet<SegNo> {
        &self.changed
    }
    /// Valid blocks of all segments, and those of node segments.
    pub fn totals(&self) -> (u64, u64) {
        (self.valid_total, self.valid_nodes)
    }
    /// Blocks that are not valid any more, but may not be overwritten before the next checkpoint.
    pub fn reclaimable(&self) -> u64 {
        self.held_total.saturating_sub(self.valid_total)
    }
    pub fn valid_in_section(&self, sec: u32) -> u32 {
        self.secs.get(sec as usize).map_or(0, |s| s.valid)
    }
    pub fn log_of(&self, seg: SegNo) -> Option<LogType> {
        self.segs.get(seg.idx()).map(|s| s.log)
    }
    pub fn valid_in_segment(&self, seg: SegNo) -> u32 {
        self.segs.get(seg.idx()).map_or(0, |s| s.valid.into())
    }
    pub fn is_valid(&self, seg: SegNo, off: u32) -> bool {
        self.maps.get(seg.idx()).and_then(Option::as_deref).is_some_and(|m| msb::test(&m.valid, off as usize))
    }
    /// First offset at or after `from` that may be written.
    pub fn next_hole(&self, seg: SegNo, from: u32) -> Option<u32> {
        let maps = self.maps.get(seg.idx()).and_then(Option::as_deref);
        (from..BLOCKS_PER_SEG).find(|&o| maps.is_none_or(|m| !msb::test(&m.held, o as usize)))
    }
    /// The entry that the next checkpoint stores for a segment.
    pub fn entry(&self, seg: SegNo) -> RawSitEntry {
        let map = self.maps.get(seg.idx()).and_then(Option::as_deref).map_or([0; SIT_MAP_BYTES], |m| m.valid);
        match self.segs.get(seg.idx()) {
            Some(s) => RawSitEntry::new(s.log, s.valid, &map, s.mtime),
            None => RawSitEntry::new(LogType::HotData, 0, &map, 0),
        }
    }

    /// Sections that may be cleaned.
    pub fn index(&self) -> &Index {
        &self.index
    }
    /// Orders them by age too, from now on.
    pub fn keep_ages(&mut self) {
        self.index.keep_ages(self.segs_per_sec);
        (0..self.secs.len() as u32).for_each(|sec| self.place(sec));
    }
    /// A section that is set aside is no candidate.
    pub fn set_aside(&mut self, sec: u32, aside: bool) {
        if aside {
            self.aside.insert(sec);
        } else {
            self.aside.remove(&sec);
        }
        self.place(sec);
    }
    /// All that were set aside are candidates again.
    pub fn reconsider(&mut self) {
        for sec in std::mem::take(&mut self.aside) {
            self.place(sec);
        }
    }
    /// Whether a log may open the section.
    pub fn is_section_free(&self, sec: u32) -> bool {
        self.free_secs.contains(sec)
    }
    /// Whether a section holds nothing but what recovery found there.
    pub fn is_left_over(&self, sec: u32) -> bool {
        self.secs.get(sec as usize).is_some_and(|s| s.valid == 0 && s.busy == 0)
    }
    /// What a section holds, by its first segment.
    pub fn class_of_section(&self, sec: u32) -> Class {
        self.segs.get((sec * self.segs_per_sec) as usize).map_or(Class::Data, |s| class_of(s.log))
    }

    fn place(&mut self, sec: u32) {
        let s = self.secs.get(sec as usize).copied().unwrap_or_default();
        let partly = s.valid > 0 && s.valid < self.segs_per_sec * BLOCKS_PER_SEG;
        if s.busy == 0 && partly && !self.aside.contains(&sec) {
            let mtime = if self.index.ages().is_some() { self.section_mtime(sec) } else { 0 };
            self.index.put(sec, self.class_of_section(sec), s.valid, mtime);
        } else {
            self.index.remove(sec);
        }
    }

    fn section_mtime(&self, sec: u32) -> u64 {
        let first = sec * self.segs_per_sec;
        let sum: u64 = (first..first + self.segs_per_sec)
            .filter_map(|s| self.segs.get(s as usize))
            .fold(0, |sum, s| sum.saturating_add(s.mtime));
        sum / u64::from(self.segs_per_sec.max(1))
    }

    /// A block became part of the volume.
    pub fn validate(&mut self, addr: BlockAddr, now: u64, geo: &Geometry) -> Result<()> {
        self.flip(&[addr], true, now, geo)
    }
    /// A block is no longer part of the volume.
    pub fn invalidate(&mut self, addr: BlockAddr, now: u64, geo: &Geometry) -> Result<()> {
        self.flip(&[addr], false, now, geo)
    }

    /// Makes blocks valid or not. Neighbours of one segment cost one update of the indexes.
    pub fn flip(&mut self, addrs: &[BlockAddr], on: bool, now: u64, geo: &Geometry) -> Result<()> {
        let seg_of = |a: &BlockAddr| geo.seg_of(*a).map(|(seg, _)| seg);
        for run in addrs.chunk_by(|a, b| seg_of(a) == seg_of(b)) {
            let Some(&first) = run.first() else { continue };
            let outside = || {
                let why = "block outside the main area";
                Corrupt::block(Structure::SitBlock, first.0.into(), why, (!on).into(), on.into())
            };
            let seg = seg_of(&first).ok_or_else(outside)?;
            self.keep(seg);
            self.changed.insert(seg);
            self.turn(seg, run, on, now, geo)?;
            if on {
                self.note_since(seg, run, geo);
            }
        }
        Ok(())
    }

    /// Blocks of one segment.
    pub(super) fn turn(
        &mut self,
        seg: SegNo,
        addrs: &[BlockAddr],
        on: bool,
        now: u64,
        geo: &Geometry,
    ) -> Result<()> {
        let bad =
            |a: BlockAddr, why| Corrupt::block(Structure::SitBlock, a.0.into(), why, (!on).into(), on.into());
        let mut refused = None;
        self.update(seg, |s, maps| {
            let maps = maps.get_or_insert_with(Maps::empty);
            for &addr in addrs {
                let off = geo.seg_of(addr).map_or(0, |(_, off)| off) as usize;
                if msb::test(&maps.valid, off) == on {
                    refused = Some(addr);
                    break;
                }
                s.flip(maps, off, on, now);
            }
        });
        match refused {
            None => Ok(()),
            Some(a) => Err(bad(a, if on { "block is in use twice" } else { "block is freed twice" }).into()),
        }
    }

    /// A log opens a segment; its type becomes the log's.
    pub fn open(&mut self, seg: SegNo, log: LogType) {
        let (valid, before) = self.segs.get(seg.idx()).map_or((0, log), |s| (s.valid, s.log));
        self.open_loaded(seg, log);
        self.of_next_checkpoint(Some(seg));
        // Of a segment without blocks the next of them tells.
        if valid > 0 && before != log {
            self.changed.insert(seg);
        }
    }
    /// A log goes on in the segment where the checkpoint left it.
    pub fn open_loaded(&mut self, seg: SegNo, log: LogType) {
        self.update(seg, |s, _| {
            s.current = true;
            s.log = log;
        });
        self.current.insert(seg);
    }
    /// Changes the type of a segment without valid blocks.
    pub fn retype(&mut self, seg: SegNo, log: LogType) {
        self.update(seg, |s, _| s.log = log);
    }
    /// A log leaves a segment.
    pub fn close(&mut self, seg: SegNo) {
        self.update(seg, |s, _| s.current = false);
        self.current.remove(&seg);
    }
    /// Addresses of a segment were handed out and are not published yet.
    pub fn unsettle(&mut self, seg: SegNo, n: u32) {
        let before = self.before(seg);
        *self.unpublished.entry(seg).or_default() += n;
        self.after(seg, before);
    }
    /// Some of them were published or given up.
    pub fn settle(&mut self, addrs: &[BlockAddr], geo: &Geometry) {
        let seg_of = |a: &BlockAddr| geo.seg_of(*a).map(|(seg, _)| seg);
        for run in addrs.chunk_by(|a, b| seg_of(a) == seg_of(b)) {
            let Some(seg) = run.first().and_then(seg_of) else { continue };
            let before = self.before(seg);
            if let Some(n) = self.unpublished.get_mut(&seg) {
                *n = n.saturating_sub(run.len() as u32);
                if *n == 0 {
                    self.unpublished.remove(&seg);
                }
            }
            self.after(seg, before);
        }
    }
    /// Keeps a segment from being used until the next checkpoint, because recovery found blocks in it.
    pub fn hold_all(&mut self, seg: SegNo) {
        self.update(seg, |s, maps| {
            let maps = maps.get_or_insert_with(Maps::empty);
            maps.held = [0xff; SIT_MAP_BYTES];
            s.held = BLOCKS_PER_SEG as u16;
        });
        self.changed.insert(seg);
    }

    /// Keeps a block as it is until the checkpoint after the one on its way is durable, in place of the one kept so for
    /// the same log before.
    pub fn spare(&mut self, log: LogType, seg: SegNo, off: u32) {
        let Some(place) = self.spared.get_mut(log.idx()) else { return };
        let before = place.replace((seg, off));
        // A checkpoint gives it back.
        self.of_next_checkpoint(before.map(|(seg, _)| seg));
        self.update(seg, |s, maps| s.hold(maps.get_or_insert_with(Maps::empty), off as usize));
    }

    /// First segment of a free section at or after `hint`, of the first one else.
    pub fn find_free(&self, hint: SegNo) -> Option<SegNo> {
        let per = self.segs_per_sec.max(1);
        self.free_secs.next_wrapping(hint.0 / per).map(|sec| SegNo(sec * per))
    }

    /// The free segment behind `current` in the same section.
    pub fn next_in_section(&self, current: SegNo) -> Option<SegNo> {
        let per = self.segs_per_sec.max(1);
        let end = (current.0 / per + 1) * per;
        self.free.next(current.0 + 1).filter(|&s| s < end).map(SegNo)
    }

    /// Claims sections for a stream; see [`FreeSections`].
    pub fn claim(&mut self, after: Option<u32>, want: u32) -> Option<Range<u32>> {
        self.free_secs.claim(after, want)
    }
    /// Whether nothing is in a section, claimed or not.
    pub fn is_free_section(&self, sec: u32) -> bool {
        self.free_secs.contains(sec)
    }
    /// First segment of the next section of a claim.
    pub fn advance(&mut self, claim: &mut Range<u32>) -> Option<SegNo> {
        self.free_secs.advance(claim).map(|sec| SegNo(sec * self.segs_per_sec.max(1)))
    }
    pub fn release(&mut self, claim: &Range<u32>) {
        self.free_secs.release(claim);
    }
    /// Lengths of the free intervals in sections, longest first.
    pub fn free_intervals(&self) -> Vec<u32> {
        self.free_secs.intervals()
    }

    /// A stream leaves a segment that is not full.
    pub fn park(&mut self, seg: SegNo, next: u32) {
        if self.parked.len() == PARKED_MAX {
            self.parked.pop_front();
        }
        self.parked.push_back((seg, next));
    }
    /// A segment of a type that a stream left, if it still is as the stream left it, and where to go on.
    pub fn take_parked(&mut self, log: LogType) -> Option<(SegNo, u32)> {
        let mut kept = VecDeque::new();
        let mut found = None;
        while let Some((seg, next)) = self.parked.pop_front() {
            let usable = !self.is_free(seg)
                && !self.is_busy(seg)
                && (next..BLOCKS_PER_SEG).all(|off| self.next_hole(seg, off) == Some(off));
            if usable && found.is_none() && self.log_of(seg) == Some(log) {
                found = Some((seg, next));
                break;
            }
            if usable {
                kept.push_back((seg, next));
            }
        }
        kept.append(&mut self.parked);
        self.parked = kept;
        found
    }
    /// Blocks that wait in segments that streams left.
    pub fn parked_blocks(&self) -> u64 {
        self.parked.iter().map(|&(_, next)| u64::from(BLOCKS_PER_SEG - next)).sum()
    }

    /// The segment of a type with the most room for SSR.
    pub fn roomiest(&self, log: LogType) -> Option<SegNo> {
        self.holes.roomiest(log).map(SegNo)
    }

    pub(super) fn update(&mut self, seg: SegNo, f: impl FnOnce(&mut Seg, &mut Option<Box<Maps>>)) {
        let before = self.before(seg);
        if let (Some(s), Some(m)) = (self.segs.get_mut(seg.idx()), self.maps.get_mut(seg.idx())) {
            f(s, m);
        }
        self.after(seg, before);
    }

    /// Takes a segment out of every index; `after` puts it back with its new state.
    fn before(&mut self, seg: SegNo) -> Standing {
        let st = self.standing(seg);
        if let Some((log, held)) = st.hole {
            self.holes.put(log, held, seg.0, false);
        }
        st
    }

    fn after(&mut self, seg: SegNo, before: Standing) {
        let sec = seg.0 / self.segs_per_sec.max(1);
        let s = self.segs.get(seg.idx()).copied();
        let valid = s.map_or(0, |s| s.valid);
        self.held_total = self.held_total + s.map_or(0, |s| u64::from(s.held)) - u64::from(before.held);
        let node = |log: LogType, v: u16| if log.is_node() { u64::from(v) } else { 0 };
        self.valid_total = self.valid_total + u64::from(valid) - u64::from(before.valid);
        let nodes_now = s.map_or(0, |s| node(s.log, s.valid));
        self.valid_nodes = self.valid_nodes + nodes_now - node(before.log, before.valid);
        let (busy, free) = (self.is_busy(seg), self.is_free(seg));
        if let Some(x) = self.secs.get_mut(sec as usize) {
            x.valid = x.valid + u32::from(valid) - u32::from(before.valid);
            step(&mut x.busy, before.busy, busy);
            step(&mut x.free_segs, before.free, free);
            self.free_secs.put(sec, x.free_segs == self.segs_per_sec);
        }
        self.free.put(seg.0, free);
        let st = self.standing(seg);
        self.place(sec);
        if let Some((log, held)) = st.hole {
            self.holes.put(log, held, seg.0, true);
        }
        if st.prefree != before.prefree {
            if st.prefree {
                self.prefree.insert(seg);
            } else {
                self.prefree.remove(&seg);
            }
        }
    }

    fn is_busy(&self, seg: SegNo) -> bool {
        self.segs.get(seg.idx()).is_some_and(|s| s.current) || self.unpublished.contains_key(&seg)
    }
    /// Whether the segment's section is open, or has blocks on their way.
    pub fn is_section_busy(&self, seg: SegNo) -> bool {
        let per = self.segs_per_sec.max(1);
        let first = seg.0 - seg.0 % per;
        (first..first.saturating_add(per)).any(|s| self.is_busy(SegNo(s)))
    }
    /// Whether a log may open the segment (sections apart).
    pub fn is_free(&self, seg: SegNo) -> bool {
        self.segs.get(seg.idx()).is_some_and(|s| s.held == 0) && !self.is_busy(seg)
    }

    fn standing(&self, seg: SegNo) -> Standing {
        let Some(s) = self.segs.get(seg.idx()) else { return Standing::default() };
        let busy = self.is_busy(seg);
        Standing {
            valid: s.valid,
            held: s.held,
            log: s.log,
            busy,
            free: self.is_free(seg),
            prefree: !busy && s.valid == 0 && s.held > 0,
            hole: (!busy && s.valid > 0 && u32::from(s.held) < BLOCKS_PER_SEG).then_some((s.log, s.held)),
        }
    }
}

/// Counts a member that comes or goes. With branches: rustc 1.95 may lose the addition of a comparison that is branched on
/// later.
fn step(count: &mut u32, before: bool, now: bool) {
    match (before, now) {
        (false, true) => *count += 1,
        (true, false) => *count -= 1,
        _ => {}
    }
}

/// Where a segment stands in the indexes.
#[derive(Debug, Clone, Copy)]
struct Standing {
    valid: u16,
    held: u16,
    log: LogType,
    busy: bool,
    free: bool,
    prefree: bool,
    hole: Option<(LogType, u16)>,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            valid: 0,
            held: 0,
            log: LogType::HotData,
            busy: false,
            free: false,
            prefree: false,
            hole: None,
        }
    }
}
