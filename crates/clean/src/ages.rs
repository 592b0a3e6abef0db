//! Candidates by age, for the policies whose cost grows with it.
use crate::{BLOCKS_PER_SEG, Candidate, Class};
use std::collections::BTreeSet;

/// Utilisation in percent, as Linux rounds it: 0 to 100.
const FILLS: usize = 101;

type Aged = BTreeSet<(u64, u32)>;

/// Sections of a class by utilisation in whole percent, each with its oldest at hand.
#[derive(Clone, Debug)]
struct ByFill {
    sets: Vec<Aged>,
    oldest: Vec<Option<(u64, u32)>>,
}

/// See the module. Older is smaller; of equally old sections the lower number comes first.
#[derive(Clone, Debug)]
pub struct Ages {
    now: Vec<Option<Candidate>>,
    all: Aged,
    classes: [ByFill; 2],
    segs_per_sec: u32,
}

impl Ages {
    pub(crate) fn new(sections: usize, segs_per_sec: u32) -> Self {
        let empty = || ByFill { sets: vec![Aged::new(); FILLS], oldest: vec![None; FILLS] };
        Self { now: vec![None; sections], all: Aged::new(), classes: [empty(), empty()], segs_per_sec }
    }

    /// Utilisation in percent: of a mean segment, rounded down twice.
    #[must_use]
    pub fn percent(valid: u32, segs_per_sec: u32) -> u32 {
        (valid / segs_per_sec.max(1) * 100 / BLOCKS_PER_SEG).min(100)
    }
    #[must_use]
    pub fn segs_per_sec(&self) -> u32 {
        self.segs_per_sec
    }

    pub(crate) fn put(&mut self, c: Candidate) {
        let Some(slot) = self.now.get_mut(c.sec as usize) else { return };
        let old = slot.replace(c);
        let percent = |c: &Candidate| Self::percent(c.valid, self.segs_per_sec) as usize;
        let place = |c: &Candidate| (c.class, percent(c), c.mtime);
        match old {
            Some(o) if place(&o) == place(&c) => return,
            Some(o) => {
                self.all.remove(&(o.mtime, o.sec));
                self.classes[o.class as usize].remove(percent(&o), (o.mtime, o.sec));
            }
            None => {}
        }
        self.all.insert((c.mtime, c.sec));
        self.classes[c.class as usize].insert(percent(&c), (c.mtime, c.sec));
    }

    pub(crate) fn remove(&mut self, sec: u32) {
        let Some(old) = self.now.get_mut(sec as usize).and_then(Option::take) else { return };
        let percent = Self::percent(old.valid, self.segs_per_sec) as usize;
        self.all.remove(&(old.mtime, sec));
        self.classes[old.class as usize].remove(percent, (old.mtime, sec));
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// Mean age stamps of the oldest and the youngest.
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.all.first()?.0, self.all.last()?.0))
    }
    /// All candidates, oldest first.
    pub fn oldest_first(&self) -> impl Iterator<Item = &Candidate> + '_ {
        self.all.iter().filter_map(|&(_, sec)| self.now.get(sec as usize)?.as_ref())
    }
    /// The oldest of each utilisation that occurs, as (percent, age stamp, section).
    pub fn oldest_by_fill(&self, class: Class) -> impl Iterator<Item = (u32, u64, u32)> + '_ {
        let heads = &self.classes[class as usize].oldest;
        heads.iter().enumerate().filter_map(|(u, head)| head.map(|(mtime, sec)| (u as u32, mtime, sec)))
    }
}

impl ByFill {
    fn insert(&mut self, percent: usize, key: (u64, u32)) {
        let (Some(set), Some(oldest)) = (self.sets.get_mut(percent), self.oldest.get_mut(percent)) else {
            return;
        };
        set.insert(key);
        *oldest = Some(oldest.map_or(key, |o| o.min(key)));
    }
    fn remove(&mut self, percent: usize, key: (u64, u32)) {
        let (Some(set), Some(oldest)) = (self.sets.get_mut(percent), self.oldest.get_mut(percent)) else {
            return;
        };
        set.remove(&key);
        if *oldest == Some(key) {
            *oldest = set.first().copied();
        }
    }
}
