//! Age-threshold cleaning: of the sections older than a threshold, the oldest are weighed by age and fill.
use super::{Factors, Situation, Victim, VictimPolicy, victim};
use crate::{Class, Index};
use std::cmp::Reverse;

/// Seconds below which a section is too young: seven days.
const THRESHOLD: u64 = 7 * 24 * 3600;
/// Weight of the age in percent; the rest is that of the fill.
const AGE_WEIGHT: u64 = 60;
/// Minimum number of oldest candidates to consider, and minimum percentage.
const LOOK_AT: usize = 10;
const LOOK_AT_PERCENT: usize = 20;

#[derive(Clone, Copy, Debug, Default)]
pub struct Atgc {
    pub factors: Factors,
}

/// Terms that all candidates share.
#[derive(Clone, Copy, Debug)]
struct Scale {
    accu: u64,
    total: u64,
    /// One more than the youngest age stamp.
    end: u64,
    per_sec: u64,
}

impl Scale {
    fn of(oldest: u64, youngest: u64, per_sec: u32) -> Self {
        let end = youngest.saturating_add(1);
        let total = (end - oldest).max(1);
        Self { accu: (u64::MAX / total / 100).min(10_000), total, end, per_sec: u64::from(per_sec).max(1) }
    }
    fn age(self, mtime: u64) -> u64 {
        self.accu * (self.end - mtime) / self.total * AGE_WEIGHT
    }
    fn room(self, valid: u64) -> u64 {
        self.accu * self.per_sec.saturating_sub(valid) / self.per_sec * (100 - AGE_WEIGHT)
    }
}

impl Atgc {
    /// The best among the oldest candidates beyond the threshold. Ties are broken by weighted age, then by
    /// age stamp, then by section number.
    ///
    /// Among equally full sections the oldest is best, and if it is not considered then none of them is. So
    /// only the oldest of each are compared, emptiest first, until even the greatest age cannot make up for
    /// the fill.
    fn best(&self, index: &Index, threshold: u64) -> Option<Victim> {
        let ages = index.ages()?;
        let (oldest, youngest) = ages.span()?;
        let scale = Scale::of(oldest, youngest, index.per_sec());
        let old_enough = ages.up_to(youngest.checked_sub(threshold)?);
        let look_at = LOOK_AT.max(old_enough * LOOK_AT_PERCENT / 100).min(old_enough);
        let last = ages.at(look_at.checked_sub(1)?)?;
        let greatest_age = scale.age(oldest);
        let mut best: Option<(Rank, Victim)> = None;
        for class in Class::ALL {
            for (valid, mtime, sec) in ages.oldest_by_valid(class) {
                let counted = self.factors.scale(class, valid.into());
                let (room, full) = (scale.room(counted), counted >= scale.per_sec);
                if best.is_some_and(|(b, _)| (b.gains, b.sum) > (!full, greatest_age + room)) {
                    break;
                }
                if (mtime, sec) > last {
                    continue;
                }
                let age = scale.age(mtime);
                let rank = Rank { gains: !full, sum: age + room, age, first: Reverse((mtime, sec)) };
                if best.is_none_or(|(b, _)| rank > b) {
                    best = Some((rank, victim(sec, class)));
                }
            }
        }
        best.map(|(_, v)| v)
    }
}

/// Sort key, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Whether cleaning gains anything, counted with the factors.
    gains: bool,
    sum: u64,
    age: u64,
    first: Reverse<(u64, u32)>,
}

impl VictimPolicy for Atgc {
    fn needs_ages(&self) -> bool {
        true
    }
    fn pick(&mut self, index: &Index, situation: &Situation) -> Option<Victim> {
        let young = situation.facts.now < THRESHOLD;
        let found = self.best(index, THRESHOLD);
        if found.is_none() && young { self.best(index, 0) } else { found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Facts;

    fn index(all: &[(u32, u64)]) -> Index {
        let mut i = Index::new(all.len() as u32, 512);
        i.keep_ages(1);
        for (sec, &(valid, mtime)) in (0..).zip(all) {
            i.put(sec, Class::Data, valid, mtime);
        }
        i
    }

    #[test]
    fn age_and_room_are_weighed() {
        let s = Scale::of(0, 99, 512);
        // accu 10,000; a section half as old as the oldest, and a quarter full.
        assert_eq!((s.age(50), s.room(128)), (300_000, 300_000));
        let at = |now| Situation { facts: Facts { now, ..Facts::default() }, ..Situation::default() };
        // 60 + 4 points against 3 + 39; against 36 + 39.
        let young = (500, 99);
        let pick = |all: &[(u32, u64)], now| Atgc::default().pick(&index(all), &at(now)).map(|v| v.sec);
        assert_eq!(pick(&[(460, 0), (10, 95), young], 0), Some(0));
        assert_eq!(pick(&[(460, 0), (10, 40), young], 0), Some(1));
        assert_eq!(pick(&[(460, 0), (10, 40), young], THRESHOLD), None, "all are too young");
    }
}
