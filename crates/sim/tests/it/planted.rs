//! Bugs planted in the engine are found.
use segno_engine::planted::Bug;
use segno_sim::suite::hunt;
use std::time::Duration;

/// Far longer than it takes: what counts is how many states there were.
const PATIENCE: Duration = Duration::from_secs(600);
const STATES: u64 = 5_000;

#[test]
fn every_planted_bug_is_found_soon() {
    for bug in Bug::ALL {
        let hunt = hunt(bug, 1, PATIENCE);
        println!("{bug:?}: {} after {} states: {}", hunt.by, hunt.states, hunt.what);
        assert!(hunt.found && hunt.states < STATES, "{bug:?}: found {} after {}", hunt.found, hunt.states);
    }
}
