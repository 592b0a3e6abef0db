//! Volumes that other tools made, whole and with areas wiped, through every command that reads or repairs a volume.
//!
//! The ordinary run takes a share. `FOREIGN=all` takes every set of options and every combination of areas, `FOREIGN=NAME` one
//! volume with every combination.
mod commands;
mod linux;
pub(crate) mod tools;
mod tree;
mod zeros;

use tools::{SETS, Volume};

/// Areas of a volume before the main area.
const AREAS: [&str; 5] = ["superblocks", "packs", "SIT", "NAT", "SSA"];
const ALL: u8 = 31;
/// Sets of the ordinary run.
const SHARE: [&str; 4] = ["plain", "everything", "zones", "devices"];

/// Sets of areas, one bit each: none, each alone, all; or every combination.
fn wiped(every: bool) -> Vec<u8> {
    (0..=ALL).filter(|&w| every || w.count_ones() <= 1 || w == ALL).collect()
}

fn names(wiped: u8) -> String {
    let named = AREAS.iter().enumerate().filter(|(i, _)| wiped & 1 << i != 0).map(|(_, name)| *name);
    let named: Vec<_> = named.collect();
    if named.is_empty() { "whole".into() } else { format!("without {}", named.join(", ")) }
}

/// Whether the environment chooses a volume, and whether it is tried with every combination.
fn chosen(name: &str, share: &[&str]) -> (bool, bool) {
    match std::env::var("FOREIGN").as_deref() {
        Err(_) => (share.contains(&name), false),
        Ok("all") => (true, true),
        Ok(one) => (one == name, true),
    }
}

/// Runs every command on a volume with every set of areas wiped; returns the faults.
fn faults(name: &str, volume: &Volume, every: bool) -> Vec<String> {
    let mut out = Vec::new();
    let whole = volume.snapshot();
    for wiped in wiped(every) {
        let found = commands::judge(volume, wiped);
        volume.restore(&whole);
        out.extend(found.into_iter().map(|fault| format!("{name}, {}: {fault}", names(wiped))));
    }
    println!("{name}: {out:#?}");
    out
}

#[track_caller]
fn none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn volumes_of_f2fs_tools_come_back_whole_and_with_wiped_areas() {
    let each = |set: &tools::Set| match chosen(set.name, &SHARE) {
        (true, every) => faults(set.name, &set.make(), every),
        (false, _) => Vec::new(),
    };
    none(&SETS.iter().flat_map(each).collect::<Vec<_>>());
}

#[test]
fn volumes_of_linux_come_back_with_what_was_deleted() {
    let each = |name: &&str| match chosen(name, &linux::IMAGES) {
        (true, every) => faults(&format!("Linux, {name}"), &linux::volume(name), every),
        (false, _) => Vec::new(),
    };
    none(&linux::IMAGES.iter().flat_map(each).collect::<Vec<_>>());
}

/// Nodes of Segno and of sload.f2fs in turn.
#[test]
fn a_volume_that_segno_and_sload_filled_in_turn_comes_back() {
    let mut volume = Volume::of_segno();
    for round in 0..2 {
        volume.add_by_segno(&format!("segno-{round}"));
        volume.add_by_sload(&format!("sload-{round}"));
    }
    none(&faults("both", &volume, false));
}
