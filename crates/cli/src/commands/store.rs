//! `segno store`: volumes on object stores.
use super::sync;
use crate::document::Schema;
use crate::new_file::NewFile;
use crate::out::stdout;
use crate::progress::Progress;
use crate::storage::DeviceOption;
use crate::store::{self, Settings, ZONE_SEGMENTS_MAX, is_url};
use anyhow::{Context, Result, bail, ensure};
use segno::inspect;
use segno_device::{BlockDevice, ZoneKind};
use segno_format::size;
use segno_format::{BLOCK_SIZE, Block, Features};
use segno_host::copy_mode;
use segno_mkfs::MkfsOptions;
use segno_store::{Cause, StoreDevice};
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Blocks copied at a time: 1 MiB.
const STEP: usize = 256;

/// Volumes on object stores: s3://BUCKET/PREFIX, or a directory as file:///DIR
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// Use plain HTTP to another host
    #[arg(long, global = true)]
    insecure: bool,
}

#[derive(clap::Subcommand)]
enum What {
    /// Show size, objects and writer of a volume
    Info {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// The volume
        url: PathBuf,
    },
    /// Find out whether the store keeps a second writer out; writes and deletes one object
    Probe {
        /// Where a volume is or shall be
        url: PathBuf,
    },
    /// Upload what a mount with write-back acknowledged and the store does not have; returns when it has everything
    Drain {
        /// Cache directory of a volume that is not mounted; its last mount need not have ended well
        #[arg(long, value_name = "DIR")]
        cache: Option<PathBuf>,
        /// The volume, with --cache; else a file or directory of its mount
        place: PathBuf,
    },
    /// Copy the volume into a sparse image file, for `segno check` and fsck.f2fs
    Export {
        /// With what this cache has and the store does not, as another writer took the volume over before it was uploaded
        #[arg(long, value_name = "DIR")]
        cache: Option<PathBuf>,
        /// The volume
        url: PathBuf,
        /// Image file, which must not exist
        image: PathBuf,
    },
    /// Make a volume of an image file that `export` made
    Import {
        /// Replace the volume that is there
        #[arg(short, long)]
        force: bool,
        /// Accept a store that keeps no second writer out
        #[arg(long)]
        unfenced: bool,
        #[command(flatten)]
        devices: DeviceOption,
        /// The new volume
        url: PathBuf,
        /// Image file
        image: PathBuf,
    },
}

pub fn run(args: &Args) -> Result<()> {
    let settings = Settings { insecure: args.insecure, ..Settings::default() };
    match &args.what {
        What::Info { json, url } => info(checked(url)?, *json, &settings),
        What::Probe { url } => probe(checked(url)?, args.insecure),
        What::Drain { cache: Some(cache), place } => store::drain(checked(place)?, cache, args.insecure),
        What::Drain { cache: None, place } => sync::sync(place),
        What::Export { cache: Some(cache), url, image } => {
            let device = store::with_spool(checked(url)?, cache, args.insecure)?;
            export_spooled(&device, url, cache, image)
        }
        What::Export { cache: None, url, image } => {
            let device = store::device(checked(url)?, true, &settings)?;
            export(&device, url, image, &mut Gaps::Refused)
        }
        What::Import { force, unfenced, devices, url, image } => {
            let settings = Settings { unfenced: *unfenced, ..settings };
            import(checked(url)?, image, devices, *force, &settings)
        }
    }
}

fn checked(url: &Path) -> Result<&Path> {
    ensure!(is_url(url), "{} is no URL: s3://BUCKET/PREFIX or file:///DIR", url.display());
    Ok(url)
}

fn info(url: &Path, as_json: bool, settings: &Settings) -> Result<()> {
    let device = store::device(url, true, settings)?;
    let about = device.about();
    let bytes = device.block_count() * BLOCK_SIZE as u64;
    let opened = device.stats().count(Cause::Open);
    let held = store::has_writer(url, settings.insecure)?;
    let mut out = stdout();
    if as_json {
        let all = json!({
            "bytes": bytes,
            "zone_bytes": u64::from(device.geometry().zone_blocks) * BLOCK_SIZE as u64,
            "conventional_zones": device.geometry().conventional,
            "zones": device.geometry().zones,
            "fenced": !device.is_unfenced(),
            "held": held,
            "extents": about.extents,
            "objects": about.objects,
            "live_bytes": about.live_blocks * BLOCK_SIZE as u64,
            "commits_behind_map": about.replayed,
            "open_gets": opened.gets,
            "open_bytes": opened.bytes_got,
        });
        return Ok(Schema("segno.store-info", 1).print(out, &all)?);
    }
    writeln!(out, "{}: {} in {} zones", url.display(), size::human(bytes), device.geometry().zones)?;
    let live = size::human(about.live_blocks * BLOCK_SIZE as u64);
    writeln!(out, "stored: {live} in {} extents of {} objects", about.extents, about.objects)?;
    writeln!(out, "commits behind the newest map: {}", about.replayed)?;
    writeln!(out, "in use: {}", if held { "yes, or its writer was killed" } else { "no" })?;
    let fenced = if device.is_unfenced() { "no: nothing keeps a second writer out" } else { "yes" };
    Ok(writeln!(out, "fenced: {fenced}")?)
}

fn probe(url: &Path, insecure: bool) -> Result<()> {
    if !store::fenced(url, insecure)? {
        bail!(
            "{}: the store has no conditional creation, so it cannot keep a second writer out (--unfenced accepts that)",
            url.display()
        );
    }
    Ok(writeln!(stdout(), "{}: the store keeps a second writer out", url.display())?)
}

fn export(device: &StoreDevice, url: &Path, image: &Path, gaps: &mut Gaps) -> Result<()> {
    let bytes = device.block_count() * BLOCK_SIZE as u64;
    let new = NewFile::create_new(image, copy_mode([url]))?;
    let target = new.device(bytes)?;
    let mut progress = Progress::default();
    for zone in device.zones()? {
        let end = if zone.kind == ZoneKind::Sequential { zone.pointer } else { zone.start + zone.blocks };
        copy(device, zone.start, end, &target, false, gaps)?;
        progress.show(|| share("exported", zone.start + zone.blocks, device.block_count()));
    }
    new.finish()
}

/// The writer that took the volume over may have deleted a part of it.
fn export_spooled(device: &StoreDevice, url: &Path, cache: &Path, image: &Path) -> Result<()> {
    let mut gaps = Gaps::Counted(0);
    export(device, url, image, &mut gaps)?;
    let spooled = device.spooled().context("nothing was left")?;
    writeln!(stdout(), "{}: with {} commits of {}", image.display(), spooled.commits, cache.display())?;
    if spooled.unusable > 0 {
        eprintln!(
            "segno: warning: {} later commits are without effect: one before them is missing or damaged",
            spooled.unusable
        );
    }
    match gaps {
        Gaps::Counted(blocks) if blocks > 0 => bail!(
            "{blocks} blocks of {} are zeros, as they are in the store no more; `segno check` and `segno rescue` tell what is whole",
            image.display()
        ),
        _ => Ok(()),
    }
}

/// Blocks that cannot be read.
enum Gaps {
    Refused,
    /// They are left out.
    Counted(u64),
}

impl Gaps {
    /// Reads blocks, one by one where some cannot be read.
    fn read(&mut self, from: &dyn BlockDevice, at: u64, into: &mut [Block]) -> io::Result<()> {
        let failed = match from.read(at, into) {
            Err(e) if is_gap(&e) => e,
            done => return done,
        };
        let Self::Counted(count) = self else { return Err(failed) };
        for (at, block) in (at..).zip(into) {
            match from.read(at, std::slice::from_mut(block)) {
                Err(e) if is_gap(&e) => {
                    *block = Block::zeroed();
                    *count += 1;
                }
                done => done?,
            }
        }
        Ok(())
    }
}

fn is_gap(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
}

fn share(done: &str, at: u64, of: u64) -> String {
    format!("{done} {} %", (at * 100).checked_div(of).unwrap_or(100))
}

/// Copies blocks. Zeros are written only where a zone is written in order.
fn copy(
    from: &dyn BlockDevice,
    start: u64,
    end: u64,
    to: &dyn BlockDevice,
    all: bool,
    gaps: &mut Gaps,
) -> Result<()> {
    let mut blocks: Vec<Block> = (0..STEP).map(|_| Block::zeroed()).collect();
    let mut at = start;
    while at < end {
        let count = (end - at).min(STEP as u64) as usize;
        let now = blocks.get_mut(..count).unwrap_or_default();
        gaps.read(from, at, now).with_context(|| format!("cannot read block {at}"))?;
        let addressed = (at..).zip(now.iter());
        let runs: Vec<(u64, &Block)> = addressed.filter(|(_, b)| all || !b.is_zero()).collect();
        for run in runs.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
            let Some((first, _)) = run.first() else { continue };
            let gathered: Vec<&Block> = run.iter().map(|(_, block)| *block).collect();
            to.write(*first, &gathered).with_context(|| format!("cannot write block {first}"))?;
        }
        at += count as u64;
    }
    Ok(())
}

fn import(url: &Path, image: &Path, devices: &DeviceOption, force: bool, settings: &Settings) -> Result<()> {
    let source = crate::image::open(&devices.of(image)?, crate::image::READ_ONLY)?;
    let superblock = inspect::superblock(&*source)?;
    ensure!(
        superblock.features.contains(Features::BLKZONED),
        "{} is not zoned: mount it, and copy its files to a new volume on {}",
        image.display(),
        url.display()
    );
    let foreign = || {
        format!(
            "{} has other zones than a volume on an object store; only what `segno store export` made can be imported",
            image.display()
        )
    };
    let segs_per_sec = superblock.geo.segs_per_sec;
    ensure!((1..=ZONE_SEGMENTS_MAX).contains(&segs_per_sec), foreign());
    let mkfs = MkfsOptions { zoned: true, segs_per_sec, ..MkfsOptions::default() };
    let bytes = source.block_count() * BLOCK_SIZE as u64;
    let target = store::create(url, bytes, &mkfs, force, settings)?;
    let zones = target.zones()?;
    let first = zones.iter().find(|z| z.kind == ZoneKind::Sequential).map_or(0, |z| z.start);
    ensure!(first == u64::from(superblock.geo.main_blkaddr), foreign());
    let mut progress = Progress::default();
    for zone in zones {
        let end = zone.start + zone.blocks;
        if zone.kind == ZoneKind::Conventional {
            copy(&*source, zone.start, end, &*target, false, &mut Gaps::Refused)?;
        } else if is_used(&*source, zone.start, end)? {
            // Where it had been written to is not known: to its end.
            copy(&*source, zone.start, end, &*target, true, &mut Gaps::Refused)?;
        }
        progress.show(|| share("imported", end, source.block_count()));
    }
    Ok(target.flush()?)
}

/// Whether a range has anything but zeros.
fn is_used(device: &dyn BlockDevice, start: u64, end: u64) -> Result<bool> {
    let mut block = [Block::zeroed()];
    for at in start..end {
        device.read(at, &mut block).with_context(|| format!("cannot read block {at}"))?;
        if !block.iter().all(Block::is_zero) {
            return Ok(true);
        }
    }
    Ok(false)
}
