//! Space accounting on a share of the random geometries; the example `geometries` runs any number of them.
#![allow(clippy::unwrap_used, clippy::panic)]
use segno_gcmodel::geometries::Case;

fn run(seed: u64) {
    if let Some(case) = Case::draw(seed)
        && let Err(e) = case.run()
    {
        panic!("{case:?}: {e}");
    }
}

#[test]
fn guarded_volumes_do_not_run_out_of_space() {
    (1..=100).for_each(run);
}

/// An fsync needs room for its nodes twice, and what it logs during a batch is more than the batch foresaw.
#[test]
fn logged_nodes_leave_room_for_recovery() {
    [7, 11, 25, 69, 221].into_iter().for_each(run);
}

/// Copies of one step go to two logs, and open a section in both.
#[test]
fn copies_may_open_two_sections() {
    run(3850);
}
