//! Space accounting on a share of the random geometries; the example `geometries` runs any number of them.
#![allow(clippy::unwrap_used, clippy::panic)]
use segno_clean::guard::Extent;
use segno_gcmodel::Experiment;
use segno_gcmodel::geometries::{Case, Pattern, PlantedBug};

fn run(seed: u64) {
    if let Some(case) = Case::draw(seed)
        && let Err(e) = case.run()
    {
        panic!("{case:?}: {e}");
    }
}

/// A volume whose dirty pages exceed all that is kept from users.
fn dirty() -> Case {
    let e7 = Experiment::named("E7").unwrap();
    let experiment = Experiment { zones: 256, reserved: 12, overprovision: 0.0, ..e7 };
    let volume = Extent { sections: 256, blocks_per_section: 512, user_blocks: experiment.user_blocks() };
    assert!(volume.guarded().covers(256));
    let dirty_pages = Some(experiment.extent().0 / 20);
    let experiment = Experiment { dirty_pages, ..experiment };
    Case { experiment, pattern: Pattern::Uniform, quantum: 128, ..Case::draw(1).unwrap() }
}

#[test]
fn guarded_volumes_do_not_run_out_of_space() {
    (1..=40).for_each(run);
}

/// Each with a volume on which it is found; without the bug there is nothing to be found.
#[test]
fn every_planted_bug_is_found() {
    for bug in PlantedBug::ALL {
        let case = match bug {
            PlantedBug::Overwrites => dirty(),
            PlantedBug::Floor => Case::draw(1).unwrap(),
            PlantedBug::Quantum | PlantedBug::Release | PlantedBug::Alone => Case::draw(2).unwrap(),
            PlantedBug::QuantumNodes => Case::draw(3).unwrap(),
            PlantedBug::Logged => Case::draw(7).unwrap(),
            PlantedBug::Goal => Case::draw(13).unwrap(),
            PlantedBug::Batch => Case::draw(20).unwrap(),
            PlantedBug::Chain => Case::draw(70).unwrap(),
        };
        if let Err(e) = case.run() {
            panic!("{case:?}: {e}");
        }
        let found = Case { bug: Some(bug), ..case }.run();
        assert!(found.is_err(), "{bug:?} is not found");
    }
}
