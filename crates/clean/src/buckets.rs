//! Sections by valid blocks, and the first of each number.
use crate::ranked::Key;
use std::collections::BTreeSet;

/// Sections by valid blocks, with the first key of each number.
#[derive(Clone, Debug)]
pub struct Buckets {
    sets: Vec<BTreeSet<Key>>,
    /// Kept apart, so that a pick reads one array.
    first: Vec<Option<Key>>,
}

impl Buckets {
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

    /// The first of each number of valid blocks from 0 on.
    pub fn first(&self) -> &[Option<Key>] {
        &self.first
    }

    /// The sections for which no other one is at least as empty and came first: as (valid, stamp, section),
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
