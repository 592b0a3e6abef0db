//! Fuzz targets of volumes: the contents of the device, the journal, the table of devices, and names.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod devices;
mod names;

use segno_sim::hostile::Image;
use segno_sim::hostile::fuzz::{draw, journal, open, read_journal, search};
use segno_testkit::Rng;
use segno_testkit::fuzz::{Mutator, Outcome, Target};
use segno_testkit::memory::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn volumes(name: &str, runs: u64, run: &dyn Fn(&Image) -> Outcome) {
    // The volumes are made before memory is counted.
    draw(&mut Rng::new(0)).unwrap();
    let target = Target { name, runs, draw: &|rng| draw(rng).unwrap(), run };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn fuzz_volumes_opened() {
    volumes("volumes", 200, &open);
}

#[test]
fn fuzz_volumes_searched() {
    volumes("searches", 100, &search);
}

#[test]
fn fuzz_journals() {
    let mutator = Mutator { seeds: vec![journal().unwrap()], resized: 0, ..Mutator::default() };
    let target = Target {
        name: "journals",
        runs: 500,
        draw: &|rng| mutator.draw(rng),
        run: &|i: &Vec<u8>| read_journal(i),
    };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}
