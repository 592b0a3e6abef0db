//! Sections and segments (valid, free, prefree), and the zones below them.
use crate::log::{Log, LogKind};
use segno_clean::lifetime::{Lifetimes, OldCopy};
use segno_clean::policy::VictimPolicy;
use segno_clean::{BLOCKS_PER_SEG, Class, Index};
use std::collections::VecDeque;

/// No block, no segment.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub struct Space {
    pub per_sec: u32,
    pub segs_per_sec: u32,
    pub valid: Vec<u64>,
    pub seg_valid: Vec<u16>,
    pub sec_valid: Vec<u32>,
    seg_mtime: Vec<u64>,
    /// Segments that are not free, by section.
    used_segs: Vec<u8>,
    /// The log that wrote a section last.
    kind: Vec<LogKind>,
    open: Vec<bool>,
    aside: Vec<bool>,
    free: VecDeque<u32>,
    prefree: Vec<u32>,
    is_prefree: Vec<bool>,
    pub changed: Vec<u32>,
    is_changed: Vec<bool>,
    pub logs: Vec<Log>,
    pub index: Index,
    ages: bool,
    /// Write pointers of the zones.
    pub pointer: Vec<u32>,
    pub violations: u64,
    pub resets: u64,
    pub filled: u64,
    pub valid_total: u64,
    /// Seconds on the SIT clock.
    pub now: u64,
    /// Data blocks written; the clock of opening stamps.
    pub written: u64,
    lifetimes: Lifetimes,
    /// Valid blocks of hot, warm and cold data sections.
    valid_by_log: [u64; 3],
}

impl Space {
    pub fn new(sections: u32, per_sec: u32, policy: &dyn VictimPolicy) -> Self {
        let (n, segs_per_sec) = (sections as usize, per_sec / BLOCKS_PER_SEG);
        let segs = n * segs_per_sec as usize;
        let mut index = Index::new(sections, per_sec);
        let ages = policy.needs_ages();
        if ages {
            index.keep_ages(segs_per_sec);
        }
        if policy.needs_openings() {
            index.keep_openings();
        }
        let mut space = Self {
            per_sec,
            segs_per_sec,
            valid: vec![0; (n * per_sec as usize).div_ceil(64)],
            seg_valid: vec![0; segs],
            sec_valid: vec![0; n],
            seg_mtime: vec![0; if ages { segs } else { 0 }],
            used_segs: vec![0; n],
            kind: vec![LogKind::WarmData; n],
            open: vec![false; n],
            aside: vec![false; n],
            free: (0..sections).collect(),
            prefree: Vec::new(),
            is_prefree: vec![false; segs],
            changed: Vec::new(),
            is_changed: vec![false; segs],
            logs: vec![Log::default(); LogKind::ALL.len()],
            index,
            ages,
            pointer: vec![0; n],
            violations: 0,
            resets: 0,
            filled: 0,
            valid_total: 0,
            now: 0,
            written: 0,
            lifetimes: Lifetimes::new(per_sec),
            valid_by_log: [0; 3],
        };
        for kind in LogKind::ALL {
            let opened = space.open_section(kind);
            debug_assert!(opened);
        }
        space
    }

    pub fn free_sections(&self) -> u64 {
        self.free.len() as u64
    }
    pub fn prefree_segments(&self) -> u64 {
        self.prefree.len() as u64
    }
    /// Sections that the next checkpoint frees.
    pub fn prefree_sections(&self) -> u64 {
        let mut secs: Vec<u32> = self.prefree.iter().map(|s| s / self.segs_per_sec).collect();
        secs.sort_unstable();
        let whole = |run: &&[u32]| {
            run.first()
                .is_some_and(|&s| !self.open[s as usize] && run.len() == self.used_segs[s as usize] as usize)
        };
        secs.chunk_by(|a, b| a == b).filter(whole).count() as u64
    }
    pub fn is_valid(&self, addr: u32) -> bool {
        self.valid[addr as usize / 64] >> (addr % 64) & 1 == 1
    }
    pub fn class_of(&self, sec: u32) -> Class {
        if self.kind[sec as usize].is_node() { Class::Node } else { Class::Data }
    }
    /// The log for a user block whose old copy is at an address, by lifetime.
    pub fn log_of_written(&mut self, old: Option<u32>) -> LogKind {
        let old = old
            .map(|addr| addr / self.per_sec)
            .map(|sec| OldCopy { log: self.kind[sec as usize].data(), opened: self.index.opening(sec) });
        self.lifetimes.written(old, self.written, self.valid_by_log).into()
    }
    /// Whether writes are known to be spread evenly.
    pub fn is_even(&self) -> bool {
        self.lifetimes.is_even()
    }
    /// The log for a block that is moved from an address, by lifetime.
    pub fn log_of_moved(&self, from: u32) -> LogKind {
        self.lifetimes.moved(self.kind[(from / self.per_sec) as usize].data()).into()
    }
    /// Blocks left in the section of a log.
    pub fn room_in(&self, log: LogKind) -> u32 {
        self.per_sec - self.logs[log.slot()].next
    }
    /// Opens as many data logs; false if there are not enough sections.
    pub fn open_groups(&mut self, groups: u8) -> bool {
        (3..groups).all(|g| {
            self.logs.push(Log::default());
            self.open_section(LogKind::group(g))
        })
    }

    /// Allocates the next block of a log and makes it valid.
    pub fn append(&mut self, kind: LogKind) -> Option<u32> {
        let log = self.logs[kind.slot()];
        if log.next >= self.per_sec && !self.open_section(kind) {
            return None;
        }
        let log = &mut self.logs[kind.slot()];
        let (sec, off) = (log.sec, log.next);
        log.next += 1;
        log.held += 1;
        if !kind.is_node() {
            self.written += 1;
        }
        if self.pointer[sec as usize] != off {
            self.violations += 1;
        }
        self.pointer[sec as usize] = off + 1;
        let addr = sec * self.per_sec + off;
        let seg = addr / BLOCKS_PER_SEG;
        if off.is_multiple_of(BLOCKS_PER_SEG) {
            self.used_segs[sec as usize] += 1;
        }
        self.touch(seg);
        self.valid[addr as usize / 64] |= 1 << (addr % 64);
        self.seg_valid[seg as usize] += 1;
        self.sec_valid[sec as usize] += 1;
        self.valid_total += 1;
        if let Some(n) = self.valid_by_log.get_mut(kind.slot()) {
            *n += 1;
        }
        if (off + 1).is_multiple_of(BLOCKS_PER_SEG) {
            self.filled += 1;
            if self.seg_valid[seg as usize] == 0 {
                self.make_prefree(seg);
            }
        }
        if off + 1 == self.per_sec {
            self.close(sec);
        }
        Some(addr)
    }

    /// Invalidates a block.
    pub fn invalidate(&mut self, addr: u32) {
        let (seg, sec) = (addr / BLOCKS_PER_SEG, addr / self.per_sec);
        debug_assert!(self.is_valid(addr));
        self.touch(seg);
        self.valid[addr as usize / 64] &= !(1 << (addr % 64));
        self.seg_valid[seg as usize] -= 1;
        self.sec_valid[sec as usize] -= 1;
        self.valid_total -= 1;
        if let Some(n) = self.valid_by_log.get_mut(self.kind[sec as usize].slot()) {
            *n -= 1;
        }
        if self.seg_valid[seg as usize] == 0 && !self.is_current(sec, seg) {
            self.make_prefree(seg);
        }
        if !self.open[sec as usize] {
            self.place(sec);
            if self.sec_valid[sec as usize] == 0 && self.kind[sec as usize] == LogKind::HotData {
                self.lifetimes.hot_ended(self.index.opening(sec), self.written);
            }
        }
    }

    fn is_current(&self, sec: u32, seg: u32) -> bool {
        self.open[sec as usize]
            && self.logs.iter().any(|l| l.sec == sec && l.next / BLOCKS_PER_SEG == seg % self.segs_per_sec)
    }

    fn touch(&mut self, seg: u32) {
        if !std::mem::replace(&mut self.is_changed[seg as usize], true) {
            self.changed.push(seg);
        }
        if self.ages {
            let valid = u64::from(self.seg_valid[seg as usize]);
            let m = &mut self.seg_mtime[seg as usize];
            *m = if *m == 0 { self.now } else { (*m * valid + self.now) / (valid + 1) };
        }
    }

    fn make_prefree(&mut self, seg: u32) {
        if !std::mem::replace(&mut self.is_prefree[seg as usize], true) {
            self.prefree.push(seg);
        }
    }

    fn mtime(&self, sec: u32) -> u64 {
        if !self.ages {
            return 0;
        }
        let first = (sec * self.segs_per_sec) as usize;
        let sum: u64 = self.seg_mtime[first..first + self.segs_per_sec as usize].iter().sum();
        sum / u64::from(self.segs_per_sec)
    }

    fn place(&mut self, sec: u32) {
        let valid = self.sec_valid[sec as usize];
        if valid > 0 && valid < self.per_sec && !self.aside[sec as usize] {
            let mtime = self.mtime(sec);
            self.index.put(sec, self.class_of(sec), valid, mtime);
        } else {
            self.index.remove(sec);
        }
    }

    /// Excludes a section from the candidates, or includes it again.
    pub fn set_aside(&mut self, sec: u32, aside: bool) {
        self.aside[sec as usize] = aside;
        if !self.open[sec as usize] {
            self.place(sec);
        }
    }

    fn close(&mut self, sec: u32) {
        self.open[sec as usize] = false;
        self.place(sec);
    }

    fn open_section(&mut self, kind: LogKind) -> bool {
        let Some(sec) = self.free.pop_front() else { return false };
        self.open[sec as usize] = true;
        self.kind[sec as usize] = kind;
        self.index.opened(sec, self.written);
        self.logs[kind.slot()] = Log { sec, next: 0, held: 0 };
        true
    }

    /// Completes a checkpoint: prefree segments become free, and sections that contain no others are reset.
    pub fn committed(&mut self) {
        for seg in std::mem::take(&mut self.prefree) {
            self.is_prefree[seg as usize] = false;
            let sec = seg / self.segs_per_sec;
            self.used_segs[sec as usize] -= 1;
            if self.used_segs[sec as usize] == 0 && !self.open[sec as usize] {
                self.reset(sec);
            }
        }
        for seg in self.changed.drain(..) {
            self.is_changed[seg as usize] = false;
        }
        for log in &mut self.logs {
            log.held = self.sec_valid[log.sec as usize];
        }
    }

    fn reset(&mut self, sec: u32) {
        if self.sec_valid[sec as usize] != 0 {
            self.violations += 1;
        }
        self.index.remove(sec);
        self.pointer[sec as usize] = 0;
        self.resets += 1;
        self.free.push_back(sec);
        let first = (sec * self.segs_per_sec) as usize;
        if self.ages {
            self.seg_mtime[first..first + self.segs_per_sec as usize].fill(0);
        }
    }

    /// The minimum free space of the open sections, by kind.
    pub fn log_room(&self) -> crate::rounds::LogRoom {
        let left = |k: LogKind| u64::from(self.per_sec - self.logs[k.slot()].held.min(self.per_sec));
        let least =
            |node| LogKind::ALL.into_iter().filter(|k| k.is_node() == node).map(left).min().unwrap_or(0);
        crate::rounds::LogRoom { data: least(false), nodes: least(true), hot_data: left(LogKind::HotData) }
    }
}
