//! Number and depth of the cases of each kind.
use super::case::{Case, Kind};
use crate::crash;
use crate::recovery;
use crate::setup;
use segno_testkit::rng::mix;
use std::time::Duration;

/// Depth of the power cuts of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Maximum number of states, spread over all of them.
    pub states: Option<usize>,
    /// Recovery is also cut in one of `recovery` crash states.
    pub recovery: u64,
    /// Maximum number of states inside a recovery.
    pub within: Option<usize>,
    /// One of `work` recovered volumes is written to and emptied.
    pub work: u64,
    /// Number of faults in a workload.
    pub points: u64,
    /// A sequence that fails is run again to find the shortest that does.
    pub shrink: bool,
}

impl Depth {
    /// For a single case: includes everything that any run tests in it.
    pub const ALL: Self =
        Self { states: None, recovery: 20, within: None, work: 20, points: u64::MAX, shrink: true };
}

/// All cases of one kind.
#[derive(Clone, Copy, Debug)]
pub struct RowPlan {
    pub kind: Kind,
    pub cases: u64,
    pub depth: Depth,
    /// Share of the time in percent.
    pub share: u32,
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of all random choices.
    pub seed: u64,
    pub quick: bool,
    /// All cases are on this setup.
    pub setup: Option<&'static str>,
    /// No new state is started after this time.
    pub budget: Option<Duration>,
    pub rows: Vec<RowPlan>,
}

/// Time limit of `--quick`, so that it ends within 60 seconds including the cases that are running then.
const QUICK: Duration = Duration::from_secs(50);

impl Plan {
    /// A sample of everything within a minute.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        let depth =
            Depth { states: Some(40), recovery: 400, within: Some(100), work: 20, points: 20, shrink: true };
        let row = |kind, cases, share| RowPlan { kind, cases, depth, share };
        let rows = vec![
            row(Kind::Single, crash::singles(), 20),
            row(Kind::Scene, crash::scenes(), 9),
            row(Kind::Full, crash::fulls(), 3),
            row(Kind::Race, crash::races(), 7),
            row(Kind::Fault, 400, 11),
            row(Kind::Model, 20_000, 12),
            row(Kind::Pair, 1000, 8),
            row(Kind::Drawn, 1000, 10),
            row(Kind::Damage, 500, 10),
            row(Kind::Guarded, 100, 3),
            row(Kind::Recovery, recovery::recoveries(), 7),
        ];
        Self { seed, quick: true, setup: None, budget: Some(QUICK), rows }
    }

    /// Every single operation with every persistence point, and a large sample of everything else.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        let row = |kind, cases, states| {
            let depth =
                Depth { states, recovery: 500, within: Some(150), work: 20, points: 60, shrink: true };
            RowPlan { kind, cases, depth, share: 0 }
        };
        let rows = vec![
            row(Kind::Single, crash::singles(), None),
            row(Kind::Scene, crash::scenes(), Some(300)),
            row(Kind::Full, crash::fulls(), Some(100)),
            row(Kind::Race, crash::races(), Some(200)),
            row(Kind::Fault, 400, None),
            row(Kind::Model, 100_000, None),
            row(Kind::Pair, 24_000, Some(120)),
            row(Kind::Drawn, 3000, Some(200)),
            row(Kind::Damage, 5000, None),
            row(Kind::Guarded, 400, None),
            RowPlan {
                kind: Kind::Recovery,
                cases: 2 * recovery::recoveries(),
                depth: Depth { states: None, recovery: 1, within: None, work: 0, points: 0, shrink: true },
                share: 0,
            },
        ];
        Self { seed, quick: false, setup: None, budget: None, rows }
    }

    /// Only the cases of one kind.
    #[must_use]
    pub fn only(mut self, kind: Kind) -> Self {
        self.rows.retain(|r| r.kind == kind);
        self.rows.iter_mut().for_each(|r| r.share = 100);
        self
    }

    /// All on one setup, except for kinds with special setups.
    pub fn on(mut self, name: &str) -> Result<Self, String> {
        let name = setup::name(name)?;
        self.setup = Some(name);
        self.rows.retain(|r| r.kind.runs_on(name));
        for row in self.rows.iter_mut().filter(|r| r.kind == Kind::Scene) {
            row.cases = crash::scenes_each();
        }
        Ok(self)
    }

    /// The case of this number in a row.
    #[must_use]
    pub fn case(&self, row: &RowPlan, index: u64) -> Case {
        Case { setup: self.setup, ..row.case(self.seed, index) }
    }
}

impl RowPlan {
    /// A case of the row, on any setup.
    #[must_use]
    pub fn case(&self, seed: u64, index: u64) -> Case {
        let number = match self.kind {
            // Each once, on a setup that the seed chooses; spread, so that a row that is cut short saw something of all.
            Kind::Single => seed.wrapping_mul(crash::singles()).wrapping_add(spread(index, crash::singles())),
            Kind::Scene => spread(index, crash::scenes()),
            Kind::Full => spread(index, crash::fulls()),
            Kind::Race => spread(index, crash::races()),
            Kind::Recovery => seed.wrapping_sub(1).wrapping_mul(recovery::recoveries()).wrapping_add(index),
            _ => mix(mix(seed).wrapping_add(index)) >> 16,
        };
        Case { kind: self.kind, number, setup: None }
    }
}

/// The numbers below `count` in another order.
fn spread(index: u64, count: u64) -> u64 {
    // A prime that divides none of the counts makes the steps visit every number once.
    const STEP: u64 = 1_000_003;
    index.wrapping_mul(STEP).checked_rem(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_row_in_order_has_each_case_once() {
        for count in [crash::singles(), crash::scenes(), crash::fulls(), crash::races()] {
            let all: BTreeSet<u64> = (0..count).map(|i| spread(i, count)).collect();
            assert_eq!(all.len() as u64, count);
        }
    }

    #[test]
    fn the_cases_a_hunt_begins_with_exist() {
        let (scenes, races) = (crash::telling_scenes().unwrap(), crash::telling_races().unwrap());
        assert!(scenes.iter().all(|&n| n < crash::scenes()) && races.len() > 8);
    }

    #[test]
    fn a_plan_for_one_setup_has_each_case_once_on_it() {
        let plan = Plan::full(3).on("smallring").unwrap();
        let scenes = plan.rows.iter().find(|r| r.kind == Kind::Scene).unwrap();
        let cases: BTreeSet<String> = (0..scenes.cases).map(|i| plan.case(scenes, i).to_string()).collect();
        assert_eq!(cases.len() as u64, crash::scenes_each());
        assert!(cases.iter().all(|c| c.ends_with("@smallring")), "{cases:?}");
        assert!(Plan::full(1).on("none").is_err());
    }

    #[test]
    fn the_shares_of_a_quick_run_are_a_whole() {
        assert_eq!(Plan::quick(1).rows.iter().map(|r| r.share).sum::<u32>(), 100);
    }
}
