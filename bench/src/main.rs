//! Runs the same rows on every peer in alternating rounds and prints medians and ratios of one run.
mod peer;
mod report;
mod rows;

use anyhow::Result;
use clap::Parser;
use peer::{Peer, Place, drop_caches};
use report::Results;
use rows::{ROWS, Scale};
use std::path::PathBuf;

/// Compares the segno mount with other file systems on the same backing disk. Needs root.
#[derive(Parser)]
struct Args {
    /// The segno binary.
    #[arg(long, default_value = "target/release/segno")]
    segno: PathBuf,
    /// Folder for the backing file and the mount point.
    #[arg(long, default_value = "target/peers")]
    work: PathBuf,
    /// Rounds; each peer runs once a round.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A tenth of the work.
    #[arg(long)]
    quick: bool,
    /// Options for `segno mount -o`.
    #[arg(long, default_value = "noallow_other")]
    options: String,
    /// Only these peers, by name, beside segno.
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Print JSON instead of a Markdown table.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    std::fs::create_dir_all(&args.work)?;
    let place = Place {
        segno: args.segno.canonicalize()?,
        options: args.options.clone(),
        image: args.work.canonicalize()?.join("backing.img"),
        dir: args.work.canonicalize()?.join("mnt"),
        bytes: 6 << 30,
    };
    let scale = if args.quick { Scale::QUICK } else { Scale::FULL };
    let mut results = Results::default();
    let asked =
        |p: Peer| p == Peer::Segno || args.peers.is_empty() || args.peers.iter().any(|n| n == p.name());
    let (peers, missing): (Vec<_>, Vec<_>) =
        Peer::ALL.into_iter().filter(|p| asked(*p)).partition(|p| p.missing().is_none());
    for peer in missing {
        eprintln!("skipping {}: {}", peer.name(), peer.missing().unwrap_or_default());
    }
    rows::prepare(&args.work, scale)?;
    for round in 0..args.rounds {
        results.raw.push(raw_write(&place, scale)?);
        for &peer in &peers {
            eprintln!("round {} of {}: {}", round + 1, args.rounds, peer.name());
            run_peer(peer, &place, scale, &mut results)?;
        }
    }
    std::fs::remove_file(&place.image)?;
    rows::clean(&args.work)?;
    if args.json { results.print_json(scale) } else { results.print_markdown(scale) }
}

fn run_peer(peer: Peer, place: &Place, scale: Scale, results: &mut Results) -> Result<()> {
    peer.format(place)?;
    peer.mount(place)?;
    let done = rows(peer, place, scale, results);
    peer.unmount(place)?;
    done
}

fn rows(peer: Peer, place: &Place, scale: Scale, results: &mut Results) -> Result<()> {
    for row in ROWS {
        if row.cold {
            // A remount empties every cache that the kernel keeps for the mount, and the server's own.
            peer.unmount(place)?;
            drop_caches()?;
            peer.mount(place)?;
        }
        match rows::rate(row, &place.dir, scale) {
            Ok(rate) => results.add(row.name, peer, rate),
            Err(e) if peer == Peer::Segno => return Err(e),
            Err(e) => eprintln!("{}: row '{}': {e:#}", peer.name(), row.name),
        }
    }
    Ok(())
}

/// What the backing disk does without any file system of ours: MiB/s of writing and syncing the big file.
fn raw_write(place: &Place, scale: Scale) -> Result<f64> {
    use std::io::Write;
    let begun = std::time::Instant::now();
    let mut f = std::fs::File::create(&place.image)?;
    let mib = vec![0xa5; 1 << 20];
    for _ in 0..scale.big_mib {
        f.write_all(&mib)?;
    }
    f.sync_all()?;
    Ok(scale.big_mib as f64 / begun.elapsed().as_secs_f64())
}
