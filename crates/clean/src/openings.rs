//! Data sections that can be cleaned, by when they were opened.
use std::collections::BTreeSet;

/// Opening stamp and section.
type Key = (u64, u32);

/// Sections by valid blocks, with the one opened first for each number.
#[derive(Clone, Debug)]
pub struct Openings {
    sets: Vec<BTreeSet<Key>>,
    /// Kept apart, so that a pick reads one array.
    first: Vec<Option<Key>>,
}

impl Openings {
    pub fn new(per_sec: u32) -> Self {
        let n = per_sec as usize + 1;
        Self { sets: vec![BTreeSet::new(); n], first: vec![None; n] }
    }

    pub fn insert(&mut self, valid: u32, key: Key) {
        if let (Some(set), Some(first)) =
            (self.sets.get_mut(valid as usize), self.first.get_mut(valid as usize))
        {
            set.insert(key);
            *first = Some(first.map_or(key, |f| f.min(key)));
        }
    }

    pub fn remove(&mut self, valid: u32, key: Key) {
        if let (Some(set), Some(first)) =
            (self.sets.get_mut(valid as usize), self.first.get_mut(valid as usize))
        {
            set.remove(&key);
            if *first == Some(key) {
                *first = set.first().copied();
            }
        }
    }

    /// The sections that no other beats, being at least as empty and opened before: as (valid, opening stamp, section),
    /// emptiest first.
    pub fn unbeaten(&self) -> impl Iterator<Item = (u32, u64, u32)> + '_ {
        let mut oldest = None;
        (0..).zip(&self.first).filter_map(move |(valid, first)| {
            let (stamp, sec) = first.filter(|&(stamp, _)| oldest.is_none_or(|o| stamp < o))?;
            oldest = Some(stamp);
            Some((valid, stamp, sec))
        })
    }
}
