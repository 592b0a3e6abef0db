//! `segno-lab mount-zoned`: a mount of a zoned device in memory.
use crate::exit::Outcome;
use anyhow::{Error, anyhow};
use segno_sim::guarded::Geometry;
use std::path::PathBuf;
use std::process::ExitCode;

/// Mount a volume on a zoned device in memory that refuses what a drive would refuse
///
/// Stays in the foreground. After the unmount the volume is checked and the device reports what it was given.
/// Exit code 1 if the volume is damaged or a command broke a rule of zones.
#[derive(clap::Args)]
pub struct Args {
    /// Zones that are written in order
    #[arg(long, value_name = "N", default_value_t = 128)]
    zones: u32,
    /// Size of a zone in segments of 2 MiB
    #[arg(long, value_name = "N", default_value_t = 2)]
    segments: u32,
    /// Percentage of the space kept from users
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    overprovision: f64,
    /// Sections reserved, at least
    #[arg(long, value_name = "N", default_value_t = 8)]
    reserved: u32,
    /// Mount options, as for `segno mount`
    #[arg(short, long, value_name = "OPTION,…")]
    options: Vec<String>,
    /// Directory to mount at
    dir: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    let geometry = Geometry {
        zoned: true,
        sections: args.zones,
        segments_per_section: args.segments,
        overprovision_percent: args.overprovision,
        reserved: args.reserved,
    };
    let device = geometry.zoned_device().map_err(|why| anyhow!("cannot format a zoned device: {why}"))?;
    let ready = |transport: String| println!("mounted at {}, {transport}", args.dir.display());
    segno_cli::mount_device(device.clone(), "zoned", &args.dir, &args.options, ready)?;
    let counts = segno_sim::guarded::judge(&device).map_err(Error::msg)?;
    println!(
        "clean; {} blocks written, {} zones reset, {} finished, no rule broken",
        counts.blocks_written, counts.resets, counts.finishes
    );
    Ok(ExitCode::SUCCESS)
}
