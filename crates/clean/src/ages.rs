//! Candidates by age, for policies that weigh it.
use crate::buckets::Buckets;
use crate::paged::Paged;
use crate::ranked::{Key, Ranked};
use crate::{BLOCKS_PER_SEG, Candidate, Class};

/// Utilisation in percent, as Linux rounds it: 0 to 100.
const PERCENTS: usize = 101;

/// Sections of a class by valid blocks, with the oldest of each number and of each whole percent.
#[derive(Clone, Debug)]
struct ByFill {
    by_valid: Buckets,
    oldest_of_percent: Vec<Option<Key>>,
    segs_per_sec: u32,
}

/// Candidates ordered by age stamp, oldest first; ties by section number.
#[derive(Clone, Debug)]
pub struct Ages {
    now: Paged<Option<Candidate>>,
    all: Ranked,
    classes: [ByFill; 2],
}

impl Ages {
    pub(crate) fn new(sections: usize, per_sec: u32, segs_per_sec: u32) -> Self {
        let classes = [ByFill::new(per_sec, segs_per_sec), ByFill::new(per_sec, segs_per_sec)];
        Self { now: Paged::new(sections, None), all: Ranked::default(), classes }
    }

    /// Utilisation in percent: of a mean segment, rounded down twice.
    #[must_use]
    pub fn percent(valid: u32, segs_per_sec: u32) -> u32 {
        (valid / segs_per_sec.max(1) * 100 / BLOCKS_PER_SEG).min(100)
    }

    pub(crate) fn put(&mut self, c: Candidate) {
        let Some(slot) = self.now.get_mut(c.sec as usize) else { return };
        let old = slot.replace(c);
        let place = |c: &Candidate| (c.class, c.valid, c.mtime);
        match old {
            Some(o) if place(&o) == place(&c) => return,
            Some(o) => {
                if o.mtime != c.mtime {
                    self.all.remove((o.mtime, o.sec));
                    self.all.insert((c.mtime, c.sec));
                }
                self.classes[o.class as usize].remove(o.valid, (o.mtime, o.sec));
            }
            None => self.all.insert((c.mtime, c.sec)),
        }
        self.classes[c.class as usize].insert(c.valid, (c.mtime, c.sec));
    }

    pub(crate) fn remove(&mut self, sec: u32) {
        if self.now.get(sec as usize).is_none_or(Option::is_none) {
            return;
        }
        let Some(old) = self.now.get_mut(sec as usize).and_then(Option::take) else { return };
        self.all.remove((old.mtime, sec));
        self.classes[old.class as usize].remove(old.valid, (old.mtime, sec));
    }

    /// Number of sections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }
    /// Whether it holds no section.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.len() == 0
    }
    /// Mean age stamps of the oldest and the youngest.
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.all.first()?.0, self.all.last()?.0))
    }
    /// Number of candidates with this age stamp or an older one.
    #[must_use]
    pub fn up_to(&self, mtime: u64) -> usize {
        self.all.up_to(mtime)
    }
    /// Age stamp and section at a rank, oldest first.
    #[must_use]
    pub fn at(&self, place: usize) -> Option<(u64, u32)> {
        self.all.at(place)
    }
    /// The oldest section for each number of valid blocks, emptiest first, as (valid, age stamp, section).
    pub fn oldest_by_valid(&self, class: Class) -> impl Iterator<Item = (u32, u64, u32)> + '_ {
        heads(self.classes[class as usize].by_valid.first())
    }
    /// The oldest section of each utilisation, as (percent, age stamp, section).
    pub fn oldest_by_fill(&self, class: Class) -> impl Iterator<Item = (u32, u64, u32)> + '_ {
        heads(&self.classes[class as usize].oldest_of_percent)
    }
}

fn heads(of: &[Option<Key>]) -> impl Iterator<Item = (u32, u64, u32)> + '_ {
    (0..).zip(of).filter_map(|(i, head)| head.map(|(mtime, sec)| (i, mtime, sec)))
}

impl ByFill {
    fn new(per_sec: u32, segs_per_sec: u32) -> Self {
        Self { by_valid: Buckets::new(per_sec), oldest_of_percent: vec![None; PERCENTS], segs_per_sec }
    }

    fn insert(&mut self, valid: u32, key: Key) {
        self.by_valid.insert(valid, key);
        let percent = Ages::percent(valid, self.segs_per_sec);
        if let Some(head) = self.oldest_of_percent.get_mut(percent as usize) {
            *head = Some(head.map_or(key, |o| o.min(key)));
        }
    }

    fn remove(&mut self, valid: u32, key: Key) {
        self.by_valid.remove(valid, key);
        let percent = Ages::percent(valid, self.segs_per_sec);
        if self.oldest_of_percent.get(percent as usize) == Some(&Some(key)) {
            let oldest = self.oldest_within(percent);
            if let Some(head) = self.oldest_of_percent.get_mut(percent as usize) {
                *head = oldest;
            }
        }
    }

    /// The oldest section among those whose valid blocks round to a percentage.
    fn oldest_within(&self, percent: u32) -> Option<Key> {
        let first = (percent * BLOCKS_PER_SEG).div_ceil(100) * self.segs_per_sec;
        let same = |valid: &u32| Ages::percent(*valid, self.segs_per_sec) == percent;
        let oldest = self.by_valid.first();
        let valid = (first..oldest.len() as u32).take_while(same);
        valid.filter_map(|v| oldest.get(v as usize).copied().flatten()).min()
    }
}
