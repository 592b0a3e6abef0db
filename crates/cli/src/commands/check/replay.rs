//! What a crash left to replay: the roll-forward chain and the journal behind the volume.
use super::Args;
use crate::{image, inspect};
use anyhow::{Context, Result, bail, ensure};
use segno_check::{CheckOptions, Report, check};
use segno_device::{BlockDevice, FileDevice, OpenOptions, Overlay};
use segno_engine::options::{Discard, JournalMode};
use segno_engine::{Error, MountOptions, Volume};
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES, Superblock};
use segno_format::{Block, Features};
use segno_journal::{Area, Journal, Opened, Stale};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// The journal in a file of its own, if one was named.
pub struct External(Option<Arc<dyn BlockDevice>>);

impl External {
    /// Opens it, and makes sure that it is one of this volume.
    pub fn open(args: &Args, volume: &Arc<dyn BlockDevice>) -> Result<Self> {
        let Some(path) = &args.journal else { return Ok(Self(None)) };
        let name = path.display();
        let is_volume = args.image.iter().any(|image| is_same(image, path));
        ensure!(!is_volume, "{name} is the volume; a journal behind it is found without --journal");
        let options = OpenOptions { read_only: !args.writes_in_place(), direct: false };
        let file = image::patiently(|| FileDevice::open(path, options)).map_err(image::explain)?;
        let found = Self(Some(Arc::new(file)));
        let sb = inspect::superblock(&**volume)?;
        let checkpoint = inspect::journaled_checkpoint(&**volume, &sb)?;
        match found.area().map(|area| Journal::open(area, &checkpoint, &**volume)).transpose() {
            Ok(Some(Opened::Stale(why @ Stale::OtherVolume))) => bail!("the journal {name}: {why}"),
            Ok(Some(Opened::Stale(why))) if !why.is_damage() => {
                eprintln!("segno: note: the journal {name} has no effect: {why}")
            }
            Ok(_) => {}
            Err(e) => return Err(e).with_context(|| format!("cannot use the journal {name}")),
        }
        Ok(found)
    }

    fn area(&self) -> Option<Area> {
        self.0.clone().map(Area::whole)
    }

    /// The journal for a replay that is written.
    pub fn in_place(&self) -> Option<Area> {
        self.area()
    }

    /// The journal for a replay in memory: the file stays as it is.
    pub fn in_memory(&self) -> Option<Area> {
        self.area().map(|area| area.in_memory())
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    id(one).is_some_and(|one| Some(one) == id(other))
}

/// State beyond the checkpoint, as a mount finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// A chain or a journal to replay.
    Pending,
    /// A journal that is ahead of the volume, which is evidence of damage.
    Ahead(Stale),
}

/// Looks for state beyond the checkpoint.
pub fn left(device: &Arc<dyn BlockDevice>, report: &Report, journal: &External) -> Result<Left> {
    let found = of_journal(device, journal)?;
    if found == Left::Nothing && report.complete && report.summary.roll_forward.fsynced > 0 {
        let can = !inspect::superblock(&**device)?.features.contains(Features::RO);
        return Ok(if can { Left::Pending } else { Left::Nothing });
    }
    Ok(found)
}

fn of_journal(device: &Arc<dyn BlockDevice>, journal: &External) -> Result<Left> {
    if let Some(area) = journal.area() {
        return of_area(area, device, &inspect::superblock(&**device)?);
    }
    // The journal is where the volume ends, about which a damaged copy may be wrong.
    for copy in SUPERBLOCK_COPIES {
        let mut one = [Block::zeroed()];
        device.read(copy.0.into(), &mut one).with_context(|| format!("cannot read block {copy}"))?;
        let [block] = &one;
        if let Ok(sb) = RawSuperblock::from_block(&block.0).parse(copy.0.into()) {
            let found = of_tail(device, &sb)?;
            if found != Left::Nothing {
                return Ok(found);
            }
        }
    }
    Ok(Left::Nothing)
}

/// Of a journal after the volume.
fn of_tail(device: &Arc<dyn BlockDevice>, sb: &Superblock) -> Result<Left> {
    if sb.features.intersects(Features::BLKZONED | Features::RO) {
        return Ok(Left::Nothing);
    }
    let Some(area) = Area::tail(device.clone(), sb.geo.block_count) else { return Ok(Left::Nothing) };
    of_area(area, device, sb)
}

fn of_area(area: Area, device: &Arc<dyn BlockDevice>, sb: &Superblock) -> Result<Left> {
    // Without a checkpoint there is nothing that a journal could belong to.
    let Ok(checkpoint) = inspect::journaled_checkpoint(&**device, sb) else { return Ok(Left::Nothing) };
    match Journal::open(area, &checkpoint, &**device) {
        Ok(Opened::Usable(replay)) if !replay.accepted().is_empty() => Ok(Left::Pending),
        Ok(Opened::Stale(why)) if why.is_damage() => Ok(Left::Ahead(why)),
        Ok(_) | Err(segno_journal::Error::Absent { .. } | segno_journal::Error::TooSmall { .. }) => {
            Ok(Left::Nothing)
        }
        Err(e) => Err(e).context("cannot read the journal"),
    }
}

/// A volume with the journal behind it replayed in memory; as it is if there is nothing to replay. On a damaged volume a replay
/// might overwrite blocks in use, so what it holds is left out.
pub fn with_journal(device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    let Ok(sb) = inspect::superblock(&*device) else { return device };
    match of_tail(&device, &sb) {
        Ok(Left::Pending) => {}
        Ok(Left::Ahead(why)) => {
            eprintln!("segno: note: what the journal has is left out: {why}");
            return device;
        }
        Ok(Left::Nothing) | Err(_) => return device,
    }
    let options = CheckOptions { max_problems: 0, ..CheckOptions::default() };
    if !check(&*device, &options, &mut |_| {}).is_ok_and(|report| report.is_clean()) {
        eprintln!("segno: note: the volume is damaged, so what its journal has is left out");
        return device;
    }
    let overlay = Arc::new(Overlay::new(device.clone()));
    match replay(overlay.clone(), None) {
        Ok(()) => {
            eprintln!("segno: note: the journal was replayed in memory");
            overlay
        }
        Err(e) => {
            eprintln!("segno: note: what the journal has is left out, as it cannot be replayed: {e}");
            device
        }
    }
}

/// Replays by mounting and unmounting; the device may be an overlay.
pub fn replay(device: Arc<dyn BlockDevice>, journal: Option<Area>) -> Result<(), Error> {
    let options = MountOptions {
        journal: journal.map_or(JournalMode::Auto, JournalMode::External),
        background: false,
        discard: Discard::Never,
        observer: image::observer(),
        ..MountOptions::default()
    };
    Volume::mount(device, options)?.unmount()
}
