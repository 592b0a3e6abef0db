//! Volumes that other tools made, whole and with areas wiped, through every command that reads or repairs a volume.
//!
//! The ordinary run takes a share of the volumes, and divides the areas among them. `FOREIGN=all` takes every set of options and
//! every combination of areas, `FOREIGN=NAME` one volume with every combination.
mod commands;
mod linux;
mod pairs;
pub(crate) mod tools;
mod tree;
mod zeros;

use tools::{SETS, Volume};

/// Areas of a volume before the main area.
const AREAS: [&str; 5] = ["superblocks", "packs", "SIT", "NAT", "SSA"];
const ALL: u8 = 31;
/// Sets of the ordinary run.
const SHARE: [&str; 4] = ["devices", "everything", "plain", "zones"];

/// The combinations of areas that a volume is tried with.
#[derive(Clone, Copy)]
enum Combinations {
    Every,
    /// `Turn(turn, volumes)`: no area, and one share of `volumes` of these six combinations: all areas, and
    /// each area alone.
    Turn(usize, usize),
}

/// Combinations of areas, one bit each.
fn wiped(combinations: Combinations) -> Vec<u8> {
    let Combinations::Turn(turn, volumes) = combinations else { return (0..=ALL).collect() };
    let few = (1..=ALL).rev().filter(|w| *w == ALL || w.is_power_of_two()).enumerate();
    std::iter::once(0).chain(few.filter(|(i, _)| i % volumes == turn).map(|(_, w)| w)).collect()
}

fn names(wiped: u8) -> String {
    let named = AREAS.iter().enumerate().filter(|(i, _)| wiped & 1 << i != 0).map(|(_, name)| *name);
    let named: Vec<_> = named.collect();
    if named.is_empty() { "whole".into() } else { format!("without {}", named.join(", ")) }
}

/// The combinations for a volume that the environment chooses.
fn chosen(name: &str, share: &[&str]) -> Option<Combinations> {
    match std::env::var("FOREIGN").as_deref() {
        Err(_) => share.iter().position(|n| *n == name).map(|turn| Combinations::Turn(turn, share.len())),
        Ok("all") => Some(Combinations::Every),
        Ok(one) => (one == name).then_some(Combinations::Every),
    }
}

/// Runs every command on a volume with every set of areas wiped; returns the faults.
fn faults(name: &str, volume: &Volume, combinations: Combinations) -> Vec<String> {
    let mut out = Vec::new();
    let whole = volume.snapshot();
    for wiped in wiped(combinations) {
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
    let each = |set: &tools::Set| {
        chosen(set.name, &SHARE).map(|combinations| faults(set.name, &set.make(), combinations))
    };
    none(&SETS.iter().filter_map(each).flatten().collect::<Vec<_>>());
}

#[test]
fn volumes_of_linux_come_back_with_what_was_deleted() {
    let each = |name: &&str| {
        let combinations = chosen(name, &linux::IMAGES)?;
        Some(faults(&format!("Linux, {name}"), &linux::volume(name), combinations))
    };
    none(&linux::IMAGES.iter().filter_map(each).flatten().collect::<Vec<_>>());
}

/// Nodes of Segno and of sload.f2fs in turn.
#[test]
fn a_volume_that_segno_and_sload_filled_in_turn_comes_back() {
    let mut volume = Volume::of_segno();
    for round in 0..2 {
        volume.add_by_segno(&format!("segno-{round}"));
        volume.add_by_sload(&format!("sload-{round}"));
    }
    none(&faults("both", &volume, Combinations::Turn(0, 2)));
}
