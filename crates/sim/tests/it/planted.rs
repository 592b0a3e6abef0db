//! Bugs planted in the engine are found.
use segno_engine::planted::Bug;
use segno_sim::suite::{PATIENCE, hunt};

fn is_found(bug: Bug) {
    let hunt = hunt(bug, 1, PATIENCE);
    println!("{bug:?}: {} after {} states: {}", hunt.by, hunt.states, hunt.what);
    assert!(hunt.found, "{bug:?} was not found in {} states", hunt.states);
}

#[test]
fn a_skipped_flush() {
    is_found(Bug::SkippedFlush);
}

#[test]
fn a_pack_that_ends_before_it_begins() {
    is_found(Bug::HeaderFirst);
}

#[test]
fn a_lost_nat_entry() {
    is_found(Bug::LostNatEntry);
}

#[test]
fn a_mark_without_its_data() {
    is_found(Bug::SkippedDataFlush);
}

#[test]
fn a_name_that_is_not_logged() {
    is_found(Bug::ForgottenDent);
}
