//! The section with the best ratio of benefit to cost: an old section may be fuller than a young one.
use super::{Factors, Situation, Victim, VictimPolicy, victim};
use crate::{Class, Index};

/// Age and fill, as in the log-structured file system of Rosenblum and Ousterhout and in F2FS.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostBenefit {
    pub(super) factors: Factors,
    /// Oldest and youngest age stamp seen since mount.
    pub(super) span: Option<(u64, u64)>,
}

impl VictimPolicy for CostBenefit {
    fn needs_ages(&self) -> bool {
        true
    }

    /// Among sections of equal utilisation the oldest is best, so only those are compared. Ties are broken by
    /// age, then by section number.
    fn pick(&mut self, index: &Index, _: &Situation) -> Option<Victim> {
        let ages = index.ages()?;
        let (min, max) = ages.span()?;
        let (min, max) = self.span.map_or((min, max), |(a, b)| (a.min(min), b.max(max)));
        self.span = Some((min, max));
        let factors = self.factors;
        let all = Class::ALL.into_iter().flat_map(|class| {
            ages.oldest_by_fill(class).map(move |(u, mtime, sec)| {
                let u = factors.scale(class, u.into()).min(100) as u32;
                (cost(u, age(mtime, min, max)), mtime, sec, class)
            })
        });
        let (_, _, sec, class) = all.min_by_key(|&(cost, mtime, sec, _)| (cost, mtime, sec))?;
        Some(victim(sec, class))
    }
}

/// Age from 0 (youngest) to 100 (oldest), wrapping at 8 bits as in Linux.
#[must_use]
pub fn age(mtime: u64, min: u64, max: u64) -> u8 {
    let since = u128::from(mtime.saturating_sub(min));
    match u128::from(max.saturating_sub(min)) {
        0 => 0,
        span => 100u8.wrapping_sub((100 * since / span) as u8),
    }
}

/// `UINT_MAX - (100 * (100 - u) * age) / (100 + u)`, utilisation and age in percent.
#[must_use]
pub fn cost(u: u32, age: u8) -> u32 {
    let u = u.min(100);
    u32::MAX - 100 * (100 - u) * u32::from(age) / (100 + u)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ages;

    fn section_cost(valid: u32, segs_per_sec: u32, mtime: u64, min: u64, max: u64) -> u32 {
        cost(Ages::percent(valid, segs_per_sec), age(mtime, min, max))
    }

    #[test]
    fn the_formula() {
        assert_eq!(section_cost(256, 1, 10, 10, 110), u32::MAX - 3333, "half full and oldest");
        assert_eq!(section_cost(128, 1, 60, 10, 110), u32::MAX - 3000, "a quarter full, half as old");
        assert_eq!(section_cost(1024, 3, 10, 10, 110), u32::MAX - 100 * 34 * 100 / 166, "rounded down twice");
        assert_eq!(section_cost(128, 1, 110, 10, 110), u32::MAX, "the youngest");
        assert_eq!(section_cost(128, 1, 7, 7, 7), u32::MAX, "nothing has an age");
        assert_eq!(section_cost(128, 1, u64::MAX, 0, u64::MAX), u32::MAX, "no overflow");
    }
}
