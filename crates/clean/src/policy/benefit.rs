//! The data section with the greatest benefit for its cost, where age counts from the opening of a section.
//!
//! A block that was moved makes its new section young, so tightly packed cold sections are left alone. Ages
//! that blocks take along, as in `cost_benefit`, make such a section the oldest, and it is cleaned again
//! although nothing in it became invalid. Where writes are known to be spread evenly the emptiest section is
//! best, whatever its age.
use super::predictive::cheaper_class;
use super::{Situation, Victim, VictimPolicy, victim};
use crate::{Class, Index};

#[derive(Clone, Copy, Debug, Default)]
pub struct Benefit;

impl VictimPolicy for Benefit {
    fn needs_openings(&self) -> bool {
        true
    }
    fn pick(&mut self, index: &Index, situation: &Situation) -> Option<Victim> {
        match cheaper_class(index, &situation.facts)? {
            Victim { class: Class::Data, .. } if !situation.facts.even => {
                best(index, situation.facts.written)
            }
            emptiest => Some(emptiest),
        }
    }
}

/// The data section with the greatest `(B - v) * age / (B + v)`, compared exactly; of equal ones the
/// emptiest.
fn best(index: &Index, now: u64) -> Option<Victim> {
    let full = u128::from(index.per_sec());
    let mut found: Option<(u128, u128, u32)> = None;
    for (valid, stamp, sec) in index.unbeaten() {
        let (valid, age) = (u128::from(valid), u128::from(now.saturating_sub(stamp)));
        let (benefit, cost) = (full.saturating_sub(valid) * age, full + valid);
        if found.is_none_or(|(b, c, _)| benefit * c > b * cost) {
            found = Some((benefit, cost, sec));
        }
    }
    found.map(|(_, _, sec)| victim(sec, Class::Data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Facts;

    fn pick(sections: &[(u32, u64)], written: u64) -> Option<u32> {
        let mut i = Index::new(8, 512);
        i.keep_openings();
        for (sec, &(valid, opened)) in (0..).zip(sections) {
            i.opened(sec, opened);
            i.put(sec, Class::Data, valid, 0);
        }
        let facts = Facts { written, ..Facts::default() };
        Benefit.pick(&i, &Situation { facts, ..Situation::default() }).map(|v| v.sec)
    }

    #[test]
    fn the_formula() {
        // 256/768 * 1000 = 333, 384/640 * 500 = 300, and 600 at an age of 1000.
        assert_eq!(pick(&[(256, 0), (128, 500)], 1000), Some(0));
        assert_eq!(pick(&[(256, 0), (128, 0)], 1000), Some(1));
        assert_eq!(pick(&[(256, 0), (128, 500), (256, 1)], 1000), Some(0), "opened first");
        assert_eq!(pick(&[(256, 0), (128, 0)], 0), Some(1), "without ages the emptiest");
        assert_eq!(pick(&[(256, 1), (511, 0)], u64::MAX), Some(0), "no overflow");
    }

    #[test]
    fn node_sections_are_weighed_by_the_emptiest_of_each_class() {
        let mut i = Index::new(4, 2048);
        i.keep_openings();
        i.put(0, Class::Data, 1900, 0);
        i.opened(1, 40);
        i.put(1, Class::Data, 1810, 0);
        i.put(2, Class::Node, 950, 0);
        let facts = Facts { nodes: 8_000, spare: 64_000, written: 200, ..Facts::default() };
        let pick = |i: &Index| Benefit.pick(i, &Situation { facts, ..Situation::default() }).map(|v| v.sec);
        assert_eq!(pick(&i), Some(1), "238/3858 * 160 against 148/3948 * 200");
        i.put(3, Class::Data, 1809, 0);
        i.opened(3, 190);
        let even = Facts { even: true, ..facts };
        let emptiest = Benefit.pick(&i, &Situation { facts: even, ..Situation::default() });
        assert_eq!((pick(&i), emptiest.map(|v| v.sec)), (Some(1), Some(3)));
        i.put(2, Class::Node, 850, 0);
        assert_eq!(pick(&i), Some(2));
    }
}
