//! Candidates by class and valid blocks: a list of sections for each number of valid blocks, and a bitmap of
//! the non-empty lists. Updates and finding the emptiest section take constant time.
use crate::ages::Ages;
use crate::buckets::Buckets;
use crate::paged::Paged;
use crate::{Candidate, Class};

const NONE: u32 = u32::MAX;
/// Marks a section that is no candidate.
const OUT: u32 = u32::MAX;
const NODE: u32 = 1 << 31;

/// Which of several equally full sections is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieBreak {
    /// The section whose number of valid blocks changed longest ago.
    #[default]
    Oldest,
    /// The one with the lowest number, as Linux does.
    Lowest,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
    /// Class and valid blocks, or `OUT`.
    key: u32,
}

/// The lists of one class.
#[derive(Clone, Debug, Default)]
struct Lists {
    head: Vec<u32>,
    tail: Vec<u32>,
    /// Bitmap of the non-empty lists, and of its non-zero words.
    used: Vec<u64>,
    summary: Vec<u64>,
    len: u64,
}

/// The candidates.
#[derive(Clone, Debug)]
pub struct Index {
    links: Paged<Link>,
    lists: [Lists; 2],
    per_sec: u32,
    /// Which of equally full sections comes first.
    pub tie: TieBreak,
    ages: Option<Ages>,
    /// Opening stamp of each section.
    stamps: Paged<u64>,
    /// Data sections by opening.
    openings: Option<Buckets>,
}

impl Index {
    /// For `sections` sections of `per_sec` blocks, none of them a candidate.
    #[must_use]
    pub fn new(sections: u32, per_sec: u32) -> Self {
        let n = sections as usize;
        Self {
            links: Paged::new(n, Link { prev: NONE, next: NONE, key: OUT }),
            lists: [Lists::new(per_sec), Lists::new(per_sec)],
            per_sec,
            tie: TieBreak::default(),
            ages: None,
            stamps: Paged::new(n, 0),
            openings: None,
        }
    }

    /// Also orders candidates by age from now on, at a higher cost for updates. The caller must put every
    /// candidate again.
    pub fn keep_ages(&mut self, segs_per_sec: u32) {
        self.ages = Some(Ages::new(self.links.len(), self.per_sec, segs_per_sec));
    }
    /// Also orders data candidates by opening from now on, at a higher cost for updates.
    pub fn keep_openings(&mut self) {
        self.openings = Some(Buckets::new(self.per_sec));
        for sec in 0..self.links.len() as u32 {
            self.reorder(sec, OUT, self.key_of(sec));
        }
    }
    /// Records that a section was opened when `stamp` data blocks had been written.
    pub fn opened(&mut self, sec: u32, stamp: u64) {
        let key = self.key_of(sec);
        self.reorder(sec, key, OUT);
        if let Some(s) = self.stamps.get_mut(sec as usize) {
            *s = stamp;
        }
        self.reorder(sec, OUT, key);
    }
    /// Number of data blocks that had been written when a section was opened.
    #[must_use]
    pub fn opening(&self, sec: u32) -> u64 {
        self.stamps.get(sec as usize).copied().unwrap_or(0)
    }
    /// The data sections for which no other one is at least as empty and was opened earlier: as (valid,
    /// opening stamp, section), emptiest first. None without [`Index::keep_openings`].
    pub fn unbeaten(&self) -> impl Iterator<Item = (u32, u64, u32)> + '_ {
        self.openings.iter().flat_map(Buckets::unbeaten)
    }
    /// Sections by age, if they are kept.
    #[must_use]
    pub fn ages(&self) -> Option<&Ages> {
        self.ages.as_ref()
    }
    /// Blocks in a section.
    #[must_use]
    pub fn per_sec(&self) -> u32 {
        self.per_sec
    }
    /// Number of candidates.
    #[must_use]
    pub fn len(&self, class: Class) -> u64 {
        self.lists[class as usize].len
    }

    /// Adds or updates a candidate. `mtime` matters only with [`Index::keep_ages`].
    pub fn put(&mut self, sec: u32, class: Class, valid: u32, mtime: u64) {
        let key = valid | if class == Class::Node { NODE } else { 0 };
        let old = self.key_of(sec);
        if old != key {
            self.unlink(sec);
            self.link(sec, class, valid, key);
            self.reorder(sec, old, key);
        }
        if let Some(ages) = &mut self.ages {
            ages.put(Candidate { sec, class, valid, mtime });
        }
    }

    /// Removes a section, if it is a candidate.
    pub fn remove(&mut self, sec: u32) {
        let old = self.key_of(sec);
        self.unlink(sec);
        self.reorder(sec, old, OUT);
        if let Some(ages) = &mut self.ages {
            ages.remove(sec);
        }
    }

    /// The emptiest section of a class and its valid blocks.
    #[must_use]
    pub fn emptiest(&self, class: Class) -> Option<(u32, u32)> {
        let lists = &self.lists[class as usize];
        let valid = lists.next_used(0)?;
        let first = lists.head.get(valid as usize).copied()?;
        let sec = match self.tie {
            TieBreak::Oldest => first,
            TieBreak::Lowest => self.walk(first).min()?,
        };
        Some((sec, valid))
    }

    fn key_of(&self, sec: u32) -> u32 {
        self.links.get(sec as usize).map_or(OUT, |l| l.key)
    }

    /// Moves a section between the lists by opening, which have data alone.
    fn reorder(&mut self, sec: u32, old: u32, new: u32) {
        let key = (self.opening(sec), sec);
        let Some(openings) = &mut self.openings else { return };
        // OUT has the bit of NODE.
        if old & NODE == 0 {
            openings.remove(old, key);
        }
        if new & NODE == 0 {
            openings.insert(new, key);
        }
    }

    fn walk(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let real = |sec: u32| (sec != NONE).then_some(sec);
        std::iter::successors(real(first), move |&s| real(self.links.get(s as usize)?.next))
    }

    fn link(&mut self, sec: u32, class: Class, valid: u32, key: u32) {
        let lists = &mut self.lists[class as usize];
        let Some(tail) = lists.tail.get_mut(valid as usize) else { return };
        let prev = std::mem::replace(tail, sec);
        match self.links.get_mut(prev as usize) {
            Some(p) => p.next = sec,
            None => {
                lists.set_head(valid, sec);
                lists.mark(valid, true);
            }
        }
        lists.len += 1;
        if let Some(l) = self.links.get_mut(sec as usize) {
            *l = Link { prev, next: NONE, key };
        }
    }

    fn unlink(&mut self, sec: u32) {
        let Some(&Link { prev, next, key }) = self.links.get(sec as usize) else { return };
        if key == OUT {
            return;
        }
        let lists = &mut self.lists[usize::from(key & NODE != 0)];
        let valid = key & !NODE;
        match self.links.get_mut(prev as usize) {
            Some(p) => p.next = next,
            None => lists.set_head(valid, next),
        }
        match self.links.get_mut(next as usize) {
            Some(n) => n.prev = prev,
            None => lists.set_tail(valid, prev),
        }
        lists.len -= 1;
        if let Some(l) = self.links.get_mut(sec as usize) {
            *l = Link { prev: NONE, next: NONE, key: OUT };
        }
    }
}

impl Lists {
    fn new(per_sec: u32) -> Self {
        let n = per_sec as usize + 1;
        let words = n.div_ceil(64);
        Self {
            head: vec![NONE; n],
            tail: vec![NONE; n],
            used: vec![0; words],
            summary: vec![0; words.div_ceil(64)],
            len: 0,
        }
    }

    fn set_head(&mut self, valid: u32, sec: u32) {
        if let Some(h) = self.head.get_mut(valid as usize) {
            *h = sec;
        }
    }
    /// Sets the last element of a list; without one the list is empty.
    fn set_tail(&mut self, valid: u32, sec: u32) {
        if let Some(t) = self.tail.get_mut(valid as usize) {
            *t = sec;
        }
        if sec == NONE {
            self.mark(valid, false);
        }
    }
    /// Notes whether a list has sections.
    fn mark(&mut self, valid: u32, used: bool) {
        let (word, bit) = (valid as usize / 64, valid % 64);
        if let (Some(w), Some(s)) = (self.used.get_mut(word), self.summary.get_mut(word / 64)) {
            *w = *w & !(1 << bit) | u64::from(used) << bit;
            *s = *s & !(1 << (word % 64)) | u64::from(*w != 0) << (word % 64);
        }
    }
    /// The lowest number of valid blocks from `from` on that any section has.
    fn next_used(&self, from: u32) -> Option<u32> {
        let word = from as usize / 64;
        let here = self.used.get(word)? & (u64::MAX << (from % 64));
        if here != 0 {
            return Some(word as u32 * 64 + here.trailing_zeros());
        }
        let from = word + 1;
        let mut mask = u64::MAX << (from % 64);
        for (i, s) in self.summary.iter().enumerate().skip(from / 64) {
            let hit = s & mask;
            if hit != 0 {
                let word = i * 64 + hit.trailing_zeros() as usize;
                return Some(word as u32 * 64 + self.used.get(word)?.trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }
}
