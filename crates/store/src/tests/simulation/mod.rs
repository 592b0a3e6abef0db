//! Mounts that take a volume from each other, on a store whose requests are lost, repeated, late and out of
//! order. The state machines of the crate decide, and no task or clock is involved: a list of events is one
//! exact run. A run that fails is shortened by dropping events while it fails.
//!
//! `RUNS=1000000 SEED=1 cargo test -p segno-store simulation`
mod history;
mod mount;
mod network;
mod world;

use super::cuts::share;
use segno_testkit::Rng;
use world::{Ended, World};

/// The events of a seed.
fn events(seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    (0..rng.between(20, 500)).map(|_| rng.draw()).collect()
}

fn run(events: &[u64], traced: bool) -> (Result<Ended, String>, Vec<String>) {
    let mut world = World::new(traced);
    let done = events.iter().try_for_each(|&event| world.step(event)).and_then(|()| world.end());
    (done, world.trace)
}

/// Drops events, in parts of falling size, as long as the run fails.
fn shrink(mut events: Vec<u64>) -> Vec<u64> {
    let mut size = events.len().div_ceil(2);
    loop {
        let mut at = 0;
        while at < events.len() {
            let fewer = [&events[..at], &events[(at + size).min(events.len())..]].concat();
            match run(&fewer, false).0 {
                Err(_) => events = fewer,
                Ok(_) => at += size,
            }
        }
        if size == 1 {
            return events;
        }
        size = size.div_ceil(2);
    }
}

#[test]
fn acknowledged_commits_survive_any_order_of_requests() {
    let mut total = Ended::default();
    for seed in share(4000) {
        match run(&events(seed), false).0 {
            Ok(ended) => total.add(&ended),
            Err(why) => {
                let fewer = shrink(events(seed));
                let (failed, trace) = run(&fewer, true);
                let trace = trace.join("\n  ");
                panic!("SEED={seed} RUNS=1: {why}; with {} events: {failed:?}\n  {trace}", fewer.len());
            }
        }
    }
    println!("{total:?}");
    assert!(total.reaches_everything(), "{total:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..20 {
        assert_eq!(run(&events(seed), true).1, run(&events(seed), true).1);
    }
}
