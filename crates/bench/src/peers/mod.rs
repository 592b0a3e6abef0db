//! `segno bench peers`: the same work through the mount of segno and of other file systems, each on the same image in
//! alternating rounds.
mod data;
mod files;
mod page;
mod rows;
mod tree;

use crate::budget::Budget;
use crate::machine::Machine;
use crate::mounts::{FileSystem, Site};
use crate::options::Common;
use crate::place::ensure_room;
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::{Sample, alternate, ratio};
use anyhow::{Context, Result, ensure};
use rows::{ROWS as WORK, Scale};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;

/// Schema of a row.
pub const ROWS: &str = include_str!("../../schema/peers.json");
const BYTES: u64 = 6 << 30;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    /// Only these besides segno [default: all that can be mounted here]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub peers: Vec<FileSystem>,
    /// Options of segno's mount; for journal=on the volume gets room for one
    #[arg(long, value_name = "OPTIONS", default_value = "noallow_other")]
    pub options: String,
}

/// Rates by row.
type Rates = BTreeMap<&'static str, f64>;

#[derive(Debug, Serialize)]
struct Row {
    row: &'static str,
    unit: &'static str,
    metadata: bool,
    peer: &'static str,
    rates: Vec<f64>,
    median: f64,
    spread_percent: f64,
    segno_ratio: Option<f64>,
}

pub fn run(args: &Args) -> Result<Report> {
    let common = &args.common;
    ensure!(rustix::process::geteuid().is_root(), "mounting other file systems takes root");
    let place = common.place(BYTES)?;
    let image = place.path().context("it takes an image file")?;
    let storage = place.storage(Some(common.raw_time()))?;
    ensure!(storage.kind == "image", "{} is no image file", storage.name);
    ensure_room(image, BYTES)?;
    let mut site = Site::new(Some(image), BYTES, &args.options)?;
    site.journal = args.options.split(',').any(|o| o == "journal=on");
    let (peers, mut notes) = chosen(&args.peers);
    let scale = if common.quick { Scale::QUICK } else { Scale::FULL };
    let mut progress = Progress::new(peers.len() * common.rounds());
    tree::prepare(&site.root, scale)?;
    let found = alternate(&peers, common.rounds(), &Budget::unlimited(), |peer, round| {
        progress.step(&format!("{}, round {}", peer.name(), round + 1));
        one_round(peer, &site, scale, &mut notes)
    })?;
    drop(progress);
    let config =
        json!({ "bytes": BYTES, "rounds": common.rounds(), "scale": scale, "options": args.options });
    let mut report = Report::new("peers", common.seed, &config, Machine::here(Some(storage)))?;
    report.notes = notes;
    let rows = compared(&found);
    rows.iter().try_for_each(|row| report.push(row))?;
    page::fill(&mut report, &rows, common.rounds());
    Ok(report)
}

/// Segno and the selected peers that are available, and why the others are not.
fn chosen(asked: &[FileSystem]) -> (Vec<FileSystem>, Vec<String>) {
    let wanted = |p: &FileSystem| *p == FileSystem::Segno || asked.is_empty() || asked.contains(p);
    let (mut here, mut notes) = (Vec::new(), Vec::new());
    for peer in FileSystem::ALL.into_iter().filter(wanted) {
        match peer.missing() {
            None => here.push(peer),
            Some(why) => notes.push(format!("{} is left out: {why}.", peer.name())),
        }
    }
    (here, notes)
}

/// All rows on a fresh volume. Rows that a peer does not support are noted; segno must support all.
fn one_round(peer: FileSystem, site: &Site, scale: Scale, notes: &mut Vec<String>) -> Result<Rates> {
    site.format(peer)?;
    if let Err(e) = site.mount(peer) {
        ensure!(peer != FileSystem::Segno, e);
        notes.push(format!("{} is left out: it cannot be mounted: {e:#}.", peer.name()));
        return Ok(Rates::new());
    }
    let done = all_rows(peer, site, scale, notes);
    let unmounted = site.unmount(peer);
    let rates = done?;
    unmounted?;
    Ok(rates)
}

fn all_rows(peer: FileSystem, site: &Site, scale: Scale, notes: &mut Vec<String>) -> Result<Rates> {
    let mut rates = Rates::new();
    for row in WORK {
        let prepared = row.prepare(&site.dir(), scale);
        if row.cold {
            site.cool(peer)?;
        }
        match prepared.and_then(|()| row.rate(&site.dir(), scale)) {
            Ok(rate) => drop(rates.insert(row.name, rate)),
            Err(e) if peer == FileSystem::Segno => return Err(e),
            Err(e) => notes.push(format!("{}: {e:#}.", peer.name())),
        }
    }
    Ok(rates)
}

/// A line for each row and peer that has figures.
fn compared(found: &[(FileSystem, Vec<Rates>)]) -> Vec<Row> {
    let of = |peer: FileSystem, row: &str| -> Vec<f64> {
        let rounds = found.iter().filter(|(p, _)| *p == peer).flat_map(|(_, rounds)| rounds);
        rounds.filter_map(|r| r.get(row).copied()).collect()
    };
    let mut rows = Vec::new();
    for work in WORK {
        let ours = of(FileSystem::Segno, work.name);
        for peer in found.iter().map(|(p, _)| *p) {
            let rates = of(peer, work.name);
            if rates.is_empty() {
                continue;
            }
            let sample = Sample::of(&rates);
            // Rounds that the peer could not complete have no counterpart.
            let paired = peer != FileSystem::Segno && rates.len() == ours.len();
            rows.push(Row {
                row: work.name,
                unit: work.unit,
                metadata: work.metadata,
                peer: peer.name(),
                median: sample.median,
                spread_percent: sample.spread_percent(),
                segno_ratio: paired.then(|| ratio(&ours, &rates).median),
                rates,
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_row_runs_in_any_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mnt = dir.path().join("mnt");
        std::fs::create_dir(&mnt).unwrap();
        tree::prepare(dir.path(), Scale::TINY).unwrap();
        for row in WORK {
            let rate = row.prepare(&mnt, Scale::TINY).and_then(|()| row.rate(&mnt, Scale::TINY));
            match rate {
                Ok(rate) => assert!(rate > 0.0, "{}", row.name),
                // A file system in memory may have no direct I/O, and sqlite3 may not be installed.
                Err(e) => assert!(row.name.contains("direct") || row.name.contains("SQLite"), "{e:#}"),
            }
        }
    }

    #[test]
    fn ratios_are_within_rounds_and_rows_keep_their_contract() {
        let rates = |r: f64| Rates::from([("create empty", r), ("stat cold", 5.0)]);
        let found = [
            (FileSystem::Segno, vec![rates(20.0), rates(60.0), rates(30.0)]),
            (FileSystem::Ext4, vec![rates(10.0), rates(20.0), rates(10.0)]),
            // Failed in one round.
            (FileSystem::Ntfs3g, vec![rates(10.0), Rates::new(), rates(10.0)]),
        ];
        let rows = compared(&found);
        let of = |peer: &str| rows.iter().find(|r| r.row == "create empty" && r.peer == peer).unwrap();
        assert_eq!((of("segno").median, of("segno").segno_ratio), (30.0, None));
        assert_eq!((of("ext4").segno_ratio, of("ntfs-3g").segno_ratio), (Some(3.0), None));
        let mut report = Report::new("peers", 1, &json!({}), Machine::here(None)).unwrap();
        rows.iter().for_each(|row| report.push(row).unwrap());
        page::fill(&mut report, &rows, 3);
        report.to_json(ROWS).unwrap();
        let text = crate::page::text(&report);
        for part in
            ["create empty", "files/s", "ntfs-3g", "± ", "Geometric mean of segno/ext4 over 2 rows: 1.73"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn peers_are_chosen_by_the_names_they_are_shown_with() {
        for peer in FileSystem::ALL {
            assert_eq!(FileSystem::from_str(peer.name(), false), Ok(peer));
        }
        let (here, notes) = chosen(&[FileSystem::Ntfs3g]);
        assert_eq!(here.first(), Some(&FileSystem::Segno));
        assert_eq!(here.len() + notes.len(), 2);
    }
}
