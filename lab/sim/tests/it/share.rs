//! Some cases of each kind, the same ones each time.
use segno_sim::suite::{self, Case, Depth, Kind, Plan, RowPlan, Totals};

/// Runs some cases of a kind, and fails with the output that `segno crashtest` would print.
fn share(kind: Kind, cases: u64, depth: Depth) -> Totals {
    share_on(None, kind, cases, depth)
}

fn share_on(setup: Option<&'static str>, kind: Kind, cases: u64, depth: Depth) -> Totals {
    let rows = vec![RowPlan { kind, cases, depth, share: 100 }];
    let plan = Plan { seed: 1, quick: false, setup, budget: None, rows };
    let report = suite::run(&plan, &mut |_| {});
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert_eq!((report.totals.violations, report.rows[0].cases), (0, cases));
    report.totals
}

const DEPTH: Depth =
    Depth { states: Some(20), recovery: 100, within: Some(100), work: 20, points: 15, shrink: true };

#[test]
fn sequences_give_what_the_model_gives() {
    assert_eq!(share(Kind::Model, 500, DEPTH).model_sequences, 500);
}

#[test]
fn power_cuts_after_one_operation() {
    let totals = share(Kind::Single, 200, DEPTH);
    assert!(totals.crash_states > 700 && totals.worked_on > 20, "{totals:?}");
}

#[test]
fn power_cuts_in_scenes() {
    let totals = share(Kind::Scene, 30, DEPTH);
    assert!(totals.crash_states > 250, "{totals:?}");
}

/// Without a journal, and in the records of both kinds of inodes.
#[test]
fn every_attribute_survives_power_cuts() {
    let depth = Depth { states: Some(8), ..DEPTH };
    let mut totals = Totals::default();
    for setup in ["default", "journal", "compressedjournal"] {
        for number in segno_sim::crash::scenes_of_attributes() {
            let case = Case { kind: Kind::Scene, number, setup: Some(setup) };
            suite::run_case(case, depth, None, &mut totals).unwrap_or_else(|finding| panic!("{finding}"));
        }
    }
    assert!(totals.crash_states > 300, "{totals:?}");
}

#[test]
fn power_cuts_in_races() {
    let totals = share(Kind::Race, 64, DEPTH);
    assert!(totals.crash_states > 100, "{totals:?}");
}

#[test]
fn power_cuts_after_drawn_sequences() {
    let totals = share(Kind::Drawn, 20, Depth { recovery: 20, ..DEPTH });
    assert!(totals.crash_states > 150 && totals.recovery_states > 30, "{totals:?}");
}

#[test]
fn everything_with_the_kernels_writeback_cache_above() {
    for setup in ["cached", "cachedjournal"].map(Some) {
        share_on(setup, Kind::Model, 60, DEPTH);
        let cuts = [Kind::Single, Kind::Scene, Kind::Drawn].map(|k| share_on(setup, k, 20, DEPTH));
        let states: u64 = cuts.iter().map(|t| t.crash_states).sum();
        assert!(states > 300, "{cuts:?}");
    }
}

/// Volumes of several devices, and a journal on a separate one: each device loses its writes alone.
#[test]
fn everything_with_a_flush_for_each_device() {
    for (setup, devices) in [("devices", 3), ("zoneddevices", 2), ("beside", 2)] {
        let setup = Some(setup);
        let of = |kind, cases| share_on(setup, kind, cases, DEPTH);
        let mut cuts = of(Kind::Single, 20);
        cuts += of(Kind::Scene, 8);
        cuts += of(Kind::Race, 8);
        assert_eq!(cuts.reach.devices, devices, "{}", cuts.reach);
        assert!(cuts.crash_states > 150, "{cuts:?}");
        assert!(of(Kind::Fault, 2).fault_points > 20);
    }
}

#[test]
fn failing_device_calls() {
    let totals = share(Kind::Fault, 12, DEPTH);
    assert!(totals.fault_points > 150, "{totals:?}");
}

/// A write to a file that another thread writes back. With a journal the fsync of one thread commits what the other wrote.
#[test]
fn power_cuts_in_races_on_one_file() {
    let number = segno_sim::crash::races_on_one_file();
    let setups = ["default", "journal", "compressed", "compressedjournal"];
    let mut totals = Totals::default();
    for number in number {
        // Another one for the same device call of the next sequence.
        let setup = setups[((number + number / 8 + 1) % 4) as usize];
        let case = Case { kind: Kind::Race, number, setup: Some(setup) };
        suite::run_case(case, DEPTH, None, &mut totals).unwrap_or_else(|finding| panic!("{finding}"));
    }
    assert!(totals.crash_states > 150, "{totals:?}");
}

/// One volume of each kind.
#[test]
fn power_cuts_of_large_recoveries() {
    let depth = Depth { states: Some(6), recovery: 1, within: Some(4), work: 0, points: 0, shrink: true };
    let totals = share(Kind::Recovery, 8, depth);
    let reach = totals.reach;
    assert!(totals.recovery_states > 110, "{totals:?}");
    assert!(
        reach.inodes > 1_900 && reach.records > 10_000 && reach.segments >= 9 && reach.cuts == 3,
        "{reach}"
    );
    assert_eq!(reach.devices, 3);
}
