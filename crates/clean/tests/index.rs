//! The index against a scan of all candidates.
#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use segno_clean::policy::cost_benefit::{age, cost};
use segno_clean::policy::{self, Facts, Situation};
use segno_clean::{Ages, Candidate, Class, Index, TieBreak};

const SECTIONS: u32 = 120;
const PER_SEC: u32 = 1024;
const SEGS: u32 = 2;

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(Candidate),
    Remove(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let class = prop_oneof![Just(Class::Data), Just(Class::Node)];
    // Few distinct fills and ages, so that there are ties; ages up to two weeks.
    let put = (0..SECTIONS, class, 1..12u32, 0..40u64).prop_map(|(sec, class, fill, age)| {
        Step::Put(Candidate { sec, class, valid: fill * 90, mtime: age * 30_000 })
    });
    prop_oneof![4 => put, 1 => (0..SECTIONS).prop_map(Step::Remove)]
}

fn replay(steps: &[Step], tie: TieBreak) -> (Index, Vec<Candidate>) {
    let mut index = Index::new(SECTIONS, PER_SEC);
    index.tie = tie;
    index.keep_ages(SEGS);
    // Candidates in the order in which they got their class and fill.
    let mut all: Vec<Candidate> = Vec::new();
    for s in steps {
        match *s {
            Step::Put(c) => {
                index.put(c.sec, c.class, c.valid, c.mtime);
                match all.iter_mut().find(|o| o.sec == c.sec && (o.class, o.valid) == (c.class, c.valid)) {
                    Some(same) => *same = c,
                    None => {
                        all.retain(|o| o.sec != c.sec);
                        all.push(c);
                    }
                }
            }
            Step::Remove(sec) => {
                index.remove(sec);
                all.retain(|o| o.sec != sec);
            }
        }
    }
    (index, all)
}

fn best<K: Ord>(all: &[Candidate], cost: impl Fn(&Candidate) -> K) -> Option<u32> {
    all.iter().min_by_key(|c| cost(c)).map(|c| c.sec)
}

fn pick(name: &str, index: &Index) -> Option<u32> {
    pick_at(name, index, 0)
}

fn pick_at(name: &str, index: &Index, now: u64) -> Option<u32> {
    let facts = Facts { now, ..Facts::default() };
    let situation = Situation { facts, ..Situation::default() };
    policy::parse(name).unwrap().pick(index, &situation).map(|v| v.sec)
}

const SEVEN_DAYS: u64 = 7 * 24 * 3600;

/// Linux scans the tree of ages of sections older than the threshold, and again with a threshold of zero if
/// the volume is younger than the threshold. `node` is the weight of a node block, in halves.
fn atgc_by_scan(all: &[Candidate], now: u64, node: u64) -> Option<u32> {
    let found = atgc_pass(all, SEVEN_DAYS, node);
    if found.is_none() && now < SEVEN_DAYS { atgc_pass(all, 0, node) } else { found }
}

fn atgc_pass(all: &[Candidate], threshold: u64, node: u64) -> Option<u32> {
    let mut tree = all.to_vec();
    tree.sort_by_key(|c| (c.mtime, c.sec));
    let (min, max) = (tree.first()?.mtime, tree.last()?.mtime + 1);
    tree.retain(|c| max - 1 - c.mtime >= threshold);
    let total = max - min;
    let accu = (u64::MAX / total / 100).min(10_000);
    let mut best: Option<(bool, u64, u64, u32)> = None;
    for c in tree.iter().take(10.max(tree.len() * 20 / 100)) {
        let counted = if c.class == Class::Node { u64::from(c.valid) * node / 2 } else { c.valid.into() };
        let age = accu * (max - c.mtime) / total * 60;
        let u = accu * u64::from(PER_SEC).saturating_sub(counted) / u64::from(PER_SEC) * 40;
        let (cost, full) = (u64::from(u32::MAX) - (age + u), counted >= PER_SEC.into());
        if best.is_none_or(|(f, b, a, _)| (full, cost) < (f, b) || ((full, cost) == (f, b) && age > a)) {
            best = Some((full, cost, age, c.sec));
        }
    }
    best.map(|b| b.3)
}

proptest! {
    #[test]
    fn every_policy_finds_what_a_scan_finds(steps in prop::collection::vec(step(), 1..400)) {
        let (lowest, all) = replay(&steps, TieBreak::Lowest);
        prop_assert_eq!(pick("greedy", &lowest), best(&all, |c| (c.valid, c.sec)));
        let (oldest, all) = replay(&steps, TieBreak::Oldest);
        // `min_by_key` keeps the first, which has been so full for the longest time.
        prop_assert_eq!(pick("greedy", &oldest), best(&all, |c| (c.valid, c.class)));
        let factor = |c: &Candidate| if c.class == Class::Node { 5 } else { 2 };
        prop_assert_eq!(pick("factor:1,2.5", &oldest), best(&all, |c| (c.valid * factor(c), c.class)));
        let ages = (all.iter().map(|c| c.mtime).min(), all.iter().map(|c| c.mtime).max());
        if let (Some(min), Some(max)) = ages {
            let cost = |c: &Candidate| cost(Ages::percent(c.valid, SEGS), age(c.mtime, min, max));
            prop_assert_eq!(pick("cost_benefit", &oldest), best(&all, |c| (cost(c), c.mtime, c.sec)));
        }
        for now in [0, SEVEN_DAYS] {
            prop_assert_eq!(pick_at("atgc", &oldest, now), atgc_by_scan(&all, now, 2));
            prop_assert_eq!(pick_at("factor:1,2.5:atgc", &oldest, now), atgc_by_scan(&all, now, 5));
        }
    }

    /// The openings of the sections are 100 times the given numbers; few distinct ones, so that there are
    /// ties.
    #[test]
    fn benefit_finds_what_a_scan_finds(
        steps in prop::collection::vec(step(), 1..400),
        openings in prop::collection::vec(0..9u64, SECTIONS as usize),
        early in any::<bool>(),
    ) {
        let (mut index, all) = replay(&steps, TieBreak::Oldest);
        let opened = |sec: u32| openings[sec as usize] * 100;
        if early {
            index.keep_openings();
        }
        (0..SECTIONS).for_each(|sec| index.opened(sec, opened(sec)));
        if !early {
            index.keep_openings();
        }
        let written = 1000;
        let score = |c: &Candidate| {
            let (valid, full) = (u64::from(c.valid), u64::from(PER_SEC));
            // Multiples of every B + v would overflow; 2^40 separates the scores of these few fills.
            (((full - valid) * (written - opened(c.sec))) << 40) / (full + valid)
        };
        let data: Vec<Candidate> = all.into_iter().filter(|c| c.class == Class::Data).collect();
        let found = best(&data, |c| (u64::MAX - score(c), c.valid, c.sec));
        let facts = Facts { written, ..Facts::default() };
        let situation = Situation { facts, ..Situation::default() };
        for sec in 0..SECTIONS {
            if !data.iter().any(|c| c.sec == sec) {
                index.remove(sec);
            }
        }
        prop_assert_eq!(policy::parse("benefit").unwrap().pick(&index, &situation).map(|v| v.sec), found);
    }

    #[test]
    fn factors_of_one_change_nothing(steps in prop::collection::vec(step(), 1..120)) {
        for tie in [TieBreak::Lowest, TieBreak::Oldest] {
            let (index, _) = replay(&steps, tie);
            for base in ["greedy", "cost_benefit", "atgc"] {
                prop_assert_eq!(pick(base, &index), pick(&format!("factor:1,1:{base}"), &index));
            }
        }
    }

    #[test]
    fn the_emptiest_of_a_class_is_the_first_of_a_sort(steps in prop::collection::vec(step(), 1..120)) {
        let (index, all) = replay(&steps, TieBreak::Oldest);
        for class in Class::ALL {
            let mut sorted: Vec<(u32, u32)> =
                all.iter().filter(|c| c.class == class).map(|c| (c.sec, c.valid)).collect();
            sorted.sort_by_key(|&(_, valid)| valid);
            prop_assert_eq!(index.emptiest(class), sorted.first().copied());
            prop_assert_eq!(index.len(class), all.iter().filter(|c| c.class == class).count() as u64);
        }
    }
}

/// Data 900 of 1024, node 300: the choices of both patch versions with and without their flag.
#[test]
fn the_two_versions_of_the_patch_differ_where_only_nodes_are_left() {
    let mut index = Index::new(4, PER_SEC);
    index.put(0, Class::Data, 900, 0);
    index.put(1, Class::Node, 300, 0);
    let s = Situation { enough_with_prefree: true, enough_with_freed: true, facts: Facts::default() };
    for name in ["prefer_data", "weighted"] {
        let mut p = policy::parse(name).unwrap();
        assert_eq!(p.pick(&index, &s).map(|v| v.sec), Some(0), "{name} takes data first");
        p.nearly_out();
        assert_eq!(p.pick(&index, &s).map(|v| v.sec), Some(1), "{name} takes nodes when space is nearly out");
        index.put(1, Class::Node, 950, 0);
        assert_eq!(p.pick(&index, &s), None, "{name} ends the round rather than clean more data than needed");
        index.put(1, Class::Node, 300, 0);
        p.round_ended();
        assert_eq!(p.pick(&index, &s).map(|v| v.sec), Some(0), "{name} takes data first in the next round");
    }
    index.remove(0);
    assert_eq!(policy::parse("prefer_data").unwrap().pick(&index, &s), None, "version 1 has no victim");
    assert_eq!(policy::parse("weighted").unwrap().pick(&index, &s).map(|v| v.sec), Some(1), "version 6 has");
}
