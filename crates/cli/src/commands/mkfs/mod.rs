//! `segno mkfs`: options are named as in mkfs.f2fs.
mod journal;
mod room;
mod sparse;
mod volume;

use journal::{Choice, Devices};
pub use volume::VolumeArgs;

use crate::document::Schema;
use crate::image::{explain, patiently};
use crate::out::stdout;
use crate::storage::PartOption;
use crate::{show, store, tag};
use anyhow::{Context, Result, anyhow, bail, ensure};
use segno_clean::guard::Extent;
use segno_device::{BlockDevice, DeviceError, FileDevice, Location, OpenOptions, StorageKind, open_storage};
use segno_format::size;
use segno_format::superblock::uuid_text;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Features};
use segno_mkfs::{Layout, Member, MkfsOptions, Report, format, plan};
use serde_json::json;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Unit of the optional size argument, as in mkfs.f2fs.
pub const SECTOR: u64 = 512;
/// Longest path that a superblock records.
const RECORDED_PATH_MAX: usize = 63;

/// Format an image or block device
#[derive(clap::Args)]
pub struct Args {
    /// Overwrite existing contents
    #[arg(short, long, overrides_with = "force")]
    force: bool,
    /// Make a sparse image file of this size, for example 4G
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Write the image file in the Android sparse format
    #[arg(long, requires = "size", conflicts_with_all = ["preallocate", "devices"])]
    sparse: bool,
    /// Give the image file all of its storage at once, so that the host never lacks space for it
    #[arg(long, requires = "size")]
    preallocate: bool,
    /// Make a journal of this size after the end of the volume, of several devices on the first: an image file becomes longer by it, on a
    /// device the volume becomes smaller. By default 1/64 of a volume from 256 MiB on, 16 to 256 MiB, but not on removable devices, a
    /// single device with zones, and object stores
    #[arg(long, value_name = "auto|none|SIZE", value_parser = Choice::parse, default_value = "auto")]
    journal: Choice,
    /// Make the journal in this file or on this device: each mount names it then, with -o journal=FILE. A new file gets the size
    #[arg(long, value_name = "FILE", conflicts_with = "sparse")]
    journal_device: Option<PathBuf>,
    #[command(flatten)]
    volume: VolumeArgs,
    /// Make a zoned volume; sections are zones
    #[arg(short = 'm', long)]
    zoned: bool,
    /// Another device of the volume (up to seven)
    #[arg(short = 'c', long = "device", value_name = "DEV")]
    devices: Vec<PathBuf>,
    /// Owner of the root directory
    #[arg(short = 'R', long, value_name = "UID:GID", value_parser = owner)]
    root_owner: Option<(u32, u32)>,
    /// Discard the device first: 0 or 1. The default is 1 with -f
    #[arg(short = 't', long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    discard: Option<u8>,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Accept an object store that keeps no second writer out
    #[arg(long)]
    unfenced: bool,
    /// Use plain HTTP to another host
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    part: PartOption,
    /// Image file, block device, s3://BUCKET/PREFIX or file:///DIR
    image: PathBuf,
    /// Use only this number of sectors of 512 bytes
    #[arg(conflicts_with = "size")]
    sectors: Option<u64>,
}

pub fn run(args: &Args) -> Result<()> {
    let options = options(args)?;
    args.journal.check(args, &options)?;
    if let (true, Some(bytes)) = (args.sparse, args.size) {
        return sparse::format(args, &options, bytes);
    }
    let devices = devices(args, &options)?;
    let blocks = devices.blocks(args.journal);
    let place = args.journal.place(args, &options, &devices, blocks)?;
    let options = place.leaving_room(options, blocks);
    let devices = place.taking_off(devices, &args.image, &options, blocks)?;
    let report = format(&devices.members, &options).map_err(|e| room::explain(e, &options, blocks))?;
    let journal = place.make(args, devices, blocks_of_first(&report.layout))?;
    if !args.quiet && !options.features.contains(Features::RO) {
        warn_if_unguarded(args, &report.layout);
    }
    tell(args, &report, journal, place.why_not())
}

/// Blocks of the first device that are the volume's.
fn blocks_of_first(layout: &Layout) -> u64 {
    let lead = u64::from(layout.geo.segment0_blkaddr);
    match &layout.device_segments[..] {
        [first, _, ..] => lead + u64::from(*first) * u64::from(BLOCKS_PER_SEG),
        _ => layout.geo.block_count,
    }
}

fn tell(args: &Args, report: &Report, journal: Option<u64>, why_not: Option<&str>) -> Result<()> {
    if args.json {
        Schema("segno.mkfs", 1).print(stdout(), &report_json(args, report, journal, why_not))?;
    } else if !args.quiet {
        print(args, report, journal, why_not)?;
    }
    Ok(())
}

fn options(args: &Args) -> Result<MkfsOptions> {
    Ok(MkfsOptions {
        // Zones of an object store are sections.
        zoned: args.zoned || store::is_url(&args.image),
        blocks: args.sectors.map(|n| n.saturating_mul(SECTOR) / BLOCK_SIZE as u64),
        root_owner: args.root_owner.unwrap_or_else(caller),
        force: args.force,
        discard: args.discard.map(|n| n != 0),
        ..args.volume.options()?
    })
}

/// Opens all devices.
fn devices(args: &Args, options: &MkfsOptions) -> Result<Devices> {
    if store::is_url(&args.image) {
        let bytes = args.size.context("a volume on an object store needs --size, for example --size 1T")?;
        let settings =
            store::Settings { unfenced: args.unfenced, insecure: args.insecure, ..Default::default() };
        let options = MkfsOptions { segs_per_sec: store::zone_segments(bytes, options), ..options.clone() };
        let blocks = bytes / BLOCK_SIZE as u64;
        plan(&[blocks], &options).map_err(|e| room::explain(e, &options, blocks))?;
        let device = store::create(&args.image, bytes, &options, args.force, &settings)?;
        let first = Member { device, path: String::new(), zeroed: true };
        return Ok(Devices { members: vec![first], file: None });
    }
    let image = args.part.of(&args.image)?;
    let first = match args.size {
        Some(_) if Location::of(&image).is_part() => {
            bail!("{}: --size makes an image file, and a part of one has its size", image.display())
        }
        Some(bytes) => create(args, options, bytes)?,
        None => existing(&image, args)?,
    };
    let (first, file) = first;
    let mut members = vec![first];
    for path in &args.devices {
        members.push(existing(&tag::resolve(path)?, args)?.0);
    }
    Ok(Devices { members, file })
}

/// Makes the image file, unless the options cannot work on one of that size.
fn create(args: &Args, options: &MkfsOptions, bytes: u64) -> Result<Opened> {
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
    if args.preallocate {
        device.allocate(&args.image).inspect_err(|_| {
            // Best effort: the reason is that it takes space which is not there.
            let _left_behind = std::fs::remove_file(&args.image);
        })?;
    }
    let file = Arc::new(device);
    let member = Member { device: file.clone(), path: recorded(&args.image, args), zeroed: true };
    Ok((member, Some(file)))
}

/// The path that a volume of several devices records of this one: absolute, where the superblock has room for that.
fn recorded(path: &Path, args: &Args) -> String {
    let given = path.display().to_string();
    if args.devices.is_empty() {
        return given;
    }
    let absolute = path.canonicalize().map_or_else(|_| given.clone(), |p| p.display().to_string());
    if absolute.len() <= RECORDED_PATH_MAX { absolute } else { given }
}

fn existing(path: &Path, args: &Args) -> Result<Opened> {
    let ends = Location::of(path).has_end().map_err(explain)?;
    ensure!(
        ends,
        "{}: no partition begins there, so --length has to say how long the volume may be",
        path.display()
    );
    let (device, file) = patiently(|| open(path)).map_err(|e| match e {
        DeviceError::Io { ref source, .. } if source.kind() == ErrorKind::NotFound && is_in_dev(path) => {
            anyhow!("there is no device {}; `lsblk` lists those that exist", path.display())
        }
        DeviceError::Io { ref source, .. } if source.kind() == ErrorKind::NotFound => {
            anyhow!("{e}; --size makes a new image file, for example --size 4G")
        }
        DeviceError::ReadOnly { .. } => e.into(),
        other => explain(other),
    })?;
    Ok((Member { device, path: recorded(path, args), zeroed: false }, file))
}

/// A device, and the same if it is an image file.
type Opened<D = Member> = (D, Option<Arc<FileDevice>>);

/// A file, which may hold anything, a block device, or a part of one.
fn open(path: &Path) -> Result<Opened<Arc<dyn BlockDevice>>, DeviceError> {
    if Location::of(path).is_part() {
        return Ok((open_storage(path, OpenOptions::default())?, None));
    }
    let device = Arc::new(FileDevice::open(path, OpenOptions::default())?);
    let is_file = device.probe().kind == StorageKind::Regular;
    Ok((device.clone(), is_file.then_some(device)))
}

/// Whether a path names a device, existing or not. /dev/shm has files.
fn is_in_dev(path: &Path) -> bool {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.starts_with("/dev") && !absolute.starts_with("/dev/shm")
}

fn report_json(
    args: &Args,
    report: &Report,
    journal: Option<u64>,
    why_not: Option<&str>,
) -> serde_json::Value {
    let geo = &report.layout.geo;
    json!({
        "image": args.image.display().to_string(),
        "uuid": uuid_text(&report.uuid),
        "checkpoint_ver": report.checkpoint_ver,
        "segment_count": geo.segment_count,
        "segment_count_main": geo.segment_count_main,
        "usable_bytes": usable_bytes(&report.layout),
        "journal_bytes": journal,
        "no_journal": why_not,
    })
}

/// Bytes for files and their metadata. The rest is metadata of the volume and the reserve for cleaning.
fn usable_bytes(layout: &Layout) -> u64 {
    layout.reserve.user_block_count * BLOCK_SIZE as u64
}

fn extent(layout: &Layout) -> Extent {
    Extent {
        sections: layout.geo.section_count.into(),
        blocks_per_section: u64::from(layout.geo.segs_per_sec) * u64::from(BLOCKS_PER_SEG),
        user_blocks: layout.reserve.user_block_count,
    }
}

fn warn_if_unguarded(args: &Args, layout: &Layout) {
    let extent = extent(layout);
    if extent.guards_small_files() {
        return;
    }
    let chosen = args.volume.reserve_is_chosen();
    let advice = if chosen { "leave out -o and -Z" } else { "use a larger device or smaller sections (-s)" };
    let guarded = show::guarded(extent.guarded());
    eprintln!("segno: warning: overwrites may fail when the volume is full, space is {guarded}: {advice}");
}

fn print(args: &Args, report: &Report, journal: Option<u64>, why_not: Option<&str>) -> Result<()> {
    let mut out = stdout();
    writeln!(
        out,
        "{}: F2FS volume {} of {} segments, {} for files",
        args.image.display(),
        uuid_text(&report.uuid),
        report.layout.geo.segment_count,
        size::human(usable_bytes(&report.layout))
    )?;
    match (journal, why_not) {
        (Some(bytes), _) => {
            let bytes = size::human(bytes);
            match &args.journal_device {
                None => writeln!(out, "a journal of {bytes} follows it")?,
                Some(file) => writeln!(
                    out,
                    "a journal of {bytes} is in {0}: mount with -o journal={0}",
                    file.display()
                )?,
            }
        }
        (None, Some(why)) => writeln!(out, "no journal: {why}")?,
        (None, None) => {}
    }
    Ok(())
}

pub fn owner(text: &str) -> Result<(u32, u32), String> {
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
    fn owners_are_two_numbers() {
        assert_eq!(owner("1000:100"), Ok((1000, 100)));
        assert!(owner("1000").is_err() && owner("a:b").is_err());
    }
}
