//! Volumes with thousands of inodes that a killed client left: the recovery of the next client is cut at each
//! of its requests, and so is the recovery after that. The third client finds every name, byte and attribute.
//!
//! `RUNS=500` tries every cut of the first recovery and as many pairs of cuts; `SIZE=1` has 15,000 inodes
//! instead of 2,000.
mod bucket;
mod crash;
mod log;
mod recorder;
mod trial;

use super::cuts::share;
use trial::{Kind, Outcome, Trial};

/// Runs cuts of one kind, and prints the largest that was tried.
fn run(kind: Kind, pairs: u64, cut: impl FnOnce(&mut Trial, usize) -> Outcome<()>) {
    let runs = share(pairs);
    let size = std::env::var("SIZE").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut trial = Trial::new(kind, runs.start, size).unwrap_or_else(|why| panic!("{kind:?}: {why}"));
    let done = cut(&mut trial, (runs.end - runs.start) as usize);
    println!("{kind:?}: {trial}");
    done.unwrap_or_else(|why| panic!("SEED={} SIZE={size}: {kind:?}: {why}", runs.start));
    assert!(trial.has_reached(size), "{trial}");
}

#[test]
fn two_cuts_of_recovery_lose_nothing() {
    run(Kind::Store, 8, Trial::cut_recorded);
}

#[test]
fn two_cuts_of_recovery_with_write_back_lose_nothing_with_the_cache_or_without() {
    run(Kind::Uploaded, 6, Trial::cut_recorded);
}

/// Without the cache there are the files of a prefix of the commits.
#[test]
fn two_cuts_of_the_recovery_of_a_spool_lose_nothing_with_the_cache_and_leave_a_prefix_without() {
    run(Kind::Spooled, 6, Trial::cut_recorded);
}

#[test]
fn two_cuts_of_recovery_with_a_cache_of_reads_lose_nothing() {
    run(Kind::Store, 4, Trial::cut_with_a_cache_of_reads);
}
