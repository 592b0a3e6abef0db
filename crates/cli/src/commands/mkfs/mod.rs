//! `segno mkfs`: options are named as in mkfs.f2fs.
mod room;

use super::journal::found;
use crate::exit::Outcome;
use crate::image::{explain, patiently};
use crate::{show, size};
use anyhow::{Context, Result, anyhow, bail};
use segno_clean::guard::Extent;
use segno_device::{DeviceError, FileDevice, OpenOptions};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Features};
use segno_mkfs::{CasefoldFlags, Layout, Member, MkfsOptions, Report, format, plan, probe};
use serde_json::json;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Unit of the optional size argument, as in mkfs.f2fs.
const SECTOR: u64 = 512;
/// Longest path that a superblock records.
const RECORDED_PATH_MAX: usize = 63;

/// Format an image or block device
#[derive(clap::Args)]
pub struct Args {
    /// Overwrite existing contents
    #[arg(short, long)]
    force: bool,
    /// Make a sparse image file of this size, for example 4G
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Make a journal of this size after the end of the volume, for -o journal=on|auto
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "sectors")]
    journal: Option<u64>,
    /// Volume label
    #[arg(short, long, default_value = "")]
    label: String,
    /// Features, as for mkfs.f2fs
    #[arg(short = 'O', long, value_name = "FEATURE,…", value_delimiter = ',')]
    features: Vec<String>,
    /// Share of the main area reserved for cleaning, in percent
    #[arg(short = 'o', long, value_name = "PERCENT")]
    overprovision: Option<f64>,
    /// Sections that only cleaning may use (as newer mkfs.f2fs -Z)
    #[arg(short = 'Z', long, value_name = "N")]
    reserved_sections: Option<u32>,
    /// Make a zoned volume; sections are zones
    #[arg(short = 'm', long)]
    zoned: bool,
    /// Segments in a section
    #[arg(short = 's', long, value_name = "N", default_value_t = 1)]
    segs_per_sec: u32,
    /// Sections in a zone
    #[arg(short = 'z', long, value_name = "N", default_value_t = 1)]
    secs_per_zone: u32,
    /// Room for many more nodes on a large volume
    #[arg(short = 'i', long)]
    large_nat_bitmap: bool,
    /// Another device of the volume (up to seven)
    #[arg(short = 'c', long = "device", value_name = "DEV")]
    devices: Vec<PathBuf>,
    /// Support directories that ignore case: utf8[:strict,hashonly]
    #[arg(short = 'C', long, value_name = "ENCODING", value_parser = casefold)]
    casefold: Option<CasefoldFlags>,
    /// More extensions of files that are seldom rewritten
    #[arg(short = 'e', long, value_name = "EXT,…", value_delimiter = ',')]
    cold_extensions: Vec<String>,
    /// More extensions of files that are often rewritten
    #[arg(short = 'E', long, value_name = "EXT,…", value_delimiter = ',')]
    hot_extensions: Vec<String>,
    /// Volume id
    #[arg(short = 'U', long, value_parser = uuid)]
    uuid: Option<[u8; 16]>,
    /// Owner of the root directory
    #[arg(short = 'R', long, value_name = "UID:GID", value_parser = owner)]
    root_owner: Option<(u32, u32)>,
    /// Discard the device first: 0 or 1
    #[arg(short = 't', long, value_name = "0|1", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    discard: u8,
    /// Sector size to record
    #[arg(short = 'w', long, value_name = "BYTES", default_value_t = 512)]
    sector_size: u32,
    /// Seconds since 1970 for the time stamps
    #[arg(short = 'T', long)]
    timestamp: Option<u64>,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Image file or block device
    image: PathBuf,
    /// Use only so many sectors of 512 bytes
    #[arg(conflicts_with = "size")]
    sectors: Option<u64>,
}

pub fn run(args: &Args) -> Outcome {
    let options = options(args)?;
    let members = members(args, &options)?;
    let blocks = members.first().map_or(0, |m| m.device.block_count());
    let report = format(&members, &options).map_err(|e| room::explain(e, &options, blocks))?;
    let journal = match (args.journal, members.first()) {
        (Some(_), Some(only)) => Some(found::make(&only.device)?),
        _ => None,
    };
    if !args.quiet && !options.features.contains(Features::RO) {
        warn_if_unguarded(args, &report.layout);
    }
    if args.json {
        writeln!(stdout(), "{}", report_json(args, &report, journal))?;
    } else if !args.quiet {
        print(args, &report, journal)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn options(args: &Args) -> Result<MkfsOptions> {
    let mut options = MkfsOptions {
        label: args.label.clone(),
        features: features(&args.features)?,
        overprovision_percent: args.overprovision,
        reserved_sections: args.reserved_sections,
        zoned: args.zoned,
        segs_per_sec: args.segs_per_sec,
        secs_per_zone: args.secs_per_zone,
        large_nat_bitmap: args.large_nat_bitmap,
        blocks: args.sectors.map(|n| n.saturating_mul(SECTOR) / BLOCK_SIZE as u64),
        gap_blocks: args.journal.map_or(Ok(0), found::blocks_of)?,
        sector_size: args.sector_size,
        root_owner: args.root_owner.unwrap_or_else(caller),
        discard: args.discard != 0,
        uuid: args.uuid,
        timestamp: args.timestamp,
        ..MkfsOptions::default()
    };
    if let Some(flags) = args.casefold {
        options.features |= Features::CASEFOLD;
        options.casefold = flags;
    }
    options.cold_extensions.extend(args.cold_extensions.iter().cloned());
    options.hot_extensions.extend(args.hot_extensions.iter().cloned());
    Ok(options)
}

fn features(names: &[String]) -> Result<Features> {
    let one = |name: &String| {
        Features::from_mkfs_name(name.trim()).ok_or_else(|| anyhow!("unknown feature {name} (-O)"))
    };
    names.iter().filter(|n| !n.is_empty()).try_fold(Features::empty(), |all, name| Ok(all | one(name)?))
}

/// Opens all devices; refuses to overwrite existing contents.
fn members(args: &Args, options: &MkfsOptions) -> Result<Vec<Member>> {
    let first = match args.size {
        Some(bytes) => create(args, options, bytes)?,
        None => existing(&args.image, args.force)?,
    };
    let mut members = vec![first];
    for path in &args.devices {
        members.push(existing(path, args.force)?);
    }
    Ok(members)
}

/// Makes the image file, unless the options cannot work on one of that size.
fn create(args: &Args, options: &MkfsOptions, bytes: u64) -> Result<Member> {
    if is_in_dev(&args.image) {
        bail!(
            "{}: --size makes an image file, and /dev has devices: leave it out, or name a file elsewhere",
            args.image.display()
        );
    }
    if args.devices.is_empty() {
        let blocks = bytes / BLOCK_SIZE as u64;
        plan(&[blocks], options).map_err(|e| room::explain(e, options, blocks))?;
    }
    let device = patiently(|| FileDevice::create(&args.image, bytes, args.force)).map_err(|e| match e {
        DeviceError::Exists { path } => anyhow!("{path} exists already; overwrite it with -f"),
        other => explain(other),
    })?;
    Ok(Member { device: Arc::new(device), path: recorded(&args.image), zeroed: true })
}

/// The path by which a volume of several devices finds this one again: absolute, where the superblock has room for that.
fn recorded(path: &Path) -> String {
    let given = path.display().to_string();
    let absolute = path.canonicalize().map_or_else(|_| given.clone(), |p| p.display().to_string());
    if absolute.len() <= RECORDED_PATH_MAX { absolute } else { given }
}

fn existing(path: &Path, force: bool) -> Result<Member> {
    let device = patiently(|| FileDevice::open(path, OpenOptions::default())).map_err(|e| match e {
        DeviceError::Io { ref source, .. } if source.kind() == ErrorKind::NotFound && is_in_dev(path) => {
            anyhow!("there is no device {}; `lsblk` lists those that exist", path.display())
        }
        DeviceError::Io { ref source, .. } if source.kind() == ErrorKind::NotFound => {
            anyhow!("{e}; --size makes a new image file, for example --size 4G")
        }
        DeviceError::ReadOnly { .. } => e.into(),
        other => explain(other),
    })?;
    let found = probe(&device).with_context(|| format!("cannot read {}", path.display()))?;
    if let Some(what) = found.filter(|_| !force) {
        bail!("{} holds {what}; overwrite it with -f", path.display());
    }
    Ok(Member { device: Arc::new(device), path: recorded(path), zeroed: false })
}

/// Whether a path names a device, existing or not. /dev/shm has files.
fn is_in_dev(path: &Path) -> bool {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.starts_with("/dev") && !absolute.starts_with("/dev/shm")
}

fn report_json(args: &Args, report: &Report, journal: Option<u64>) -> serde_json::Value {
    let l = &report.layout;
    json!({
        "image": args.image.display().to_string(),
        "uuid": show::uuid(&report.uuid),
        "checkpoint_ver": report.checkpoint_ver,
        "segment_count": l.segment_count,
        "segment_count_main": l.segment_count_main,
        "journal_bytes": journal,
    })
}

fn extent(layout: &Layout) -> Extent {
    Extent {
        sections: layout.section_count.into(),
        blocks_per_section: u64::from(layout.segs_per_sec) * u64::from(BLOCKS_PER_SEG),
        user_blocks: layout.reserve.user_block_count,
    }
}

fn warn_if_unguarded(args: &Args, layout: &Layout) {
    let extent = extent(layout);
    if extent.guards_small_files() {
        return;
    }
    let chosen = args.overprovision.is_some() || args.reserved_sections.is_some();
    let advice = if chosen { "leave out -o and -Z" } else { "use a larger device or smaller sections (-s)" };
    let guarded = show::guarded(extent.guarded());
    eprintln!("segno: warning: overwrites may fail when the volume is full, space is {guarded}: {advice}");
}

fn print(args: &Args, report: &Report, journal: Option<u64>) -> Result<()> {
    let l = &report.layout;
    writeln!(
        stdout(),
        "{}: F2FS volume {} of {} segments, {} of them for files",
        args.image.display(),
        show::uuid(&report.uuid),
        l.segment_count,
        l.segment_count_main
    )?;
    if let Some(bytes) = journal {
        writeln!(stdout(), "a journal of {} follows it: mount with -o journal=auto", size::human(bytes))?;
    }
    Ok(())
}

/// `utf8`, or `utf8:` and flags.
fn casefold(text: &str) -> Result<CasefoldFlags, String> {
    let (encoding, words) = text.split_once(':').unwrap_or((text, ""));
    if !["utf8", "utf8-12.1"].contains(&encoding) {
        return Err(format!("unknown encoding {encoding}; there is utf8"));
    }
    let mut flags = CasefoldFlags::default();
    for word in words.split(',').filter(|w| !w.is_empty()) {
        match word {
            "strict" => flags.strict = true,
            "nostrict" => flags.strict = false,
            "hashonly" => flags.hash_only = true,
            "nohashonly" => flags.hash_only = false,
            _ => return Err(format!("unknown flag {word}; there are strict and hashonly, and no… of both")),
        }
    }
    Ok(flags)
}

fn uuid(text: &str) -> Result<[u8; 16], String> {
    let hex: String = text.chars().filter(|&c| c != '-').collect();
    if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("a UUID has 32 hexadecimal digits".into());
    }
    u128::from_str_radix(&hex, 16).map(u128::to_be_bytes).map_err(|e| e.to_string())
}

fn owner(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once(':').and_then(|(u, g)| Some((u.parse().ok()?, g.parse().ok()?)));
    numbers.ok_or_else(|| "two numbers are needed, as 1000:1000".into())
}

/// The calling user owns the root directory, as with mkfs.f2fs.
fn caller() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_with_a_shape() {
        assert_eq!(owner("1000:100"), Ok((1000, 100)));
        assert!(owner("1000").is_err() && owner("a:b").is_err());
        assert_eq!(uuid("00112233-4455-6677-8899-aabbccddeeff").unwrap()[..3], [0, 0x11, 0x22]);
        assert!(uuid("00112233").is_err() && uuid(&"g".repeat(32)).is_err());
        let strict = CasefoldFlags { strict: true, hash_only: false };
        assert_eq!(casefold("utf8:strict").unwrap(), strict);
        assert_eq!(casefold("utf8").unwrap(), CasefoldFlags::default());
        assert!(casefold("latin1").is_err() && casefold("utf8:loose").is_err());
    }

    #[test]
    fn features_are_named_as_in_mkfs_f2fs() {
        let names = ["extra_attr".to_owned(), "inode_crtime".to_owned()];
        assert_eq!(features(&names).unwrap(), Features::EXTRA_ATTR | Features::INODE_CRTIME);
        assert_eq!(features(&["shiny".to_owned()]).unwrap_err().to_string(), "unknown feature shiny (-O)");
    }
}
