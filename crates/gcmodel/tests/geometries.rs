//! Space accounting on a share of the random geometries; the example `geometries` runs any number of them.
#![allow(clippy::unwrap_used, clippy::panic)]
use segno_clean::guard::Extent;
use segno_gcmodel::Experiment;
use segno_gcmodel::geometries::{Case, Pattern, Plant};

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
    for plant in Plant::ALL {
        let case = match plant {
            Plant::Overwrites => dirty(),
            Plant::Floor => Case::draw(1).unwrap(),
            Plant::Quantum | Plant::Release | Plant::Alone => Case::draw(2).unwrap(),
            Plant::QuantumNodes => Case::draw(3).unwrap(),
            Plant::Logged => Case::draw(7).unwrap(),
            Plant::Goal => Case::draw(13).unwrap(),
            Plant::Batch => Case::draw(20).unwrap(),
            Plant::Chain => Case::draw(70).unwrap(),
        };
        if let Err(e) = case.run() {
            panic!("{case:?}: {e}");
        }
        let found = Case { plant: Some(plant), ..case }.run();
        assert!(found.is_err(), "{plant:?} is not found");
    }
}
