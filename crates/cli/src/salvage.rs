//! What `rescue` and `undelete` share: the source, its scan, interruption.
use crate::document::Schema;
use crate::exit::Outcome;
use crate::image;
use crate::new_file::refuse_source;
use crate::out::stdout;
use crate::progress::Progress;
use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use segno::find::{Part, find};
use segno::inspect;
use segno_device::{
    BlockDevice, Contents, DeviceError, Location, open_volume, open_without_superblock, table,
};
use segno_format::superblock::SUPERBLOCK_OFFSET;
use segno_format::{BLOCK_SIZE, size};
use segno_host::write_file;
use segno_rescue::output::Item;
use segno_rescue::scan::BadBlocks;
use segno_rescue::{Found, RescueError, ScanOptions, Shifted, scan};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Sectors in a block, which a partition may start at any of.
const SECTORS: u64 = 8;
const SECTOR: u64 = 512;

/// Set by one of these signals.
pub fn set_by(signals: [i32; 2]) -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot handle signals")?;
    }
    Ok(flag)
}

/// Opens the source for reading, with all devices that are named. Without a volume at its start, and unless the byte is known at which
/// one begins, it has one partition with a volume or none.
pub fn open(paths: &[PathBuf], offset: Option<u64>) -> Result<Arc<dyn BlockDevice>> {
    let opened = match image::patiently(|| open_volume(paths, image::READ_ONLY)) {
        Err(DeviceError::NoSuperblock { .. } | DeviceError::TooSmall { .. }) => {
            if let ([image], None) = (paths, offset) {
                refuse_several(image, &partitions(image)?)?;
            }
            open_without_superblock(paths, image::READ_ONLY)
        }
        opened => opened,
    };
    opened.map_err(image::explain)
}

/// The target must not be one of the sources or on it.
pub fn refuse_inside(sources: &[PathBuf], target: &Path) -> Result<()> {
    sources.iter().try_for_each(|source| refuse_inside_one(source, target))
}

fn refuse_inside_one(source: &Path, target: &Path) -> Result<()> {
    let source_meta = std::fs::metadata(Location::of(source).file())
        .with_context(|| format!("cannot open {}", source.display()))?;
    refuse_source(source, target)?;
    let above = target
        .ancestors()
        .find_map(|p| std::fs::metadata(if p.as_os_str().is_empty() { Path::new(".") } else { p }).ok());
    if source_meta.rdev() != 0 && above.is_some_and(|m| m.dev() == source_meta.rdev()) {
        bail!(
            "{} is on {}, and writing there would destroy what is to be found",
            target.display(),
            source.display()
        );
    }
    Ok(())
}

/// Partitions that have a volume, where a table names them.
fn partitions(image: &Path) -> Result<Vec<PathBuf>> {
    if Location::of(image).is_part() || !table(image).is_ok_and(|table| table.is_ok()) {
        return Ok(Vec::new());
    }
    let found = find(image, &mut |_| {})?;
    Ok(found.parts.into_iter().filter(Part::is_volume).map(|part| part.location).collect())
}

/// The volume that was found and all others of which a superblock and a checkpoint are left, but for those inside another one. Nothing if
/// its own superblock is lost: then it is not known where it ends.
fn volumes(image: &Path, device: &dyn BlockDevice, found: &Found, offset: u64) -> Vec<PathBuf> {
    let (mut starts, mut end) = (Vec::new(), 0);
    let at =
        |mark: &u64| mark.saturating_mul(SECTOR).saturating_add(offset).checked_sub(SUPERBLOCK_OFFSET as u64);
    for start in found.marks.iter().filter_map(at) {
        let volume = Shifted::new(device, start);
        if start >= end
            && let Ok(superblock) = inspect::superblock(&volume)
            && inspect::checkpoint(&volume, &superblock).is_ok()
        {
            let bytes = superblock.device_blocks().0.saturating_mul(BLOCK_SIZE as u64);
            end = start.saturating_add(bytes);
            starts.push(start);
        }
    }
    let base =
        u64::try_from(found.base).map(|base| base.saturating_mul(BLOCK_SIZE as u64).saturating_add(offset));
    if !base.is_ok_and(|base| starts.contains(&base)) {
        return Vec::new();
    }
    starts.into_iter().map(|start| Location::bytes(image, start, None).path()).collect()
}

/// None of several volumes is taken for the one that is meant.
fn refuse_several(image: &Path, volumes: &[PathBuf]) -> Result<()> {
    let list = volumes.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let image = image.display();
    ensure!(
        volumes.len() < 2,
        "{image} has several volumes, {list}: name one of them; `segno find {image}` describes them"
    );
    Ok(())
}

/// How to find the volume.
pub struct Search<'a> {
    /// All devices of the volume.
    pub sources: &'a [PathBuf],
    /// Byte that it starts at.
    pub offset: Option<u64>,
    pub known_bad: &'a BadBlocks,
    /// File that keeps what is found, and replaces the search if it exists.
    pub kept: Option<&'a Path>,
    pub stop: &'a AtomicBool,
}

/// Finds the volume on a device, and calls `then` with it.
pub fn with_volume(
    device: &dyn BlockDevice,
    search: &Search<'_>,
    then: impl FnOnce(&dyn BlockDevice, Found) -> Outcome,
) -> Outcome {
    if let Some(path) = search.kept.filter(|path| path.exists()) {
        let (found, offset) = load(device, search, path)?;
        return then(&Shifted::new(device, offset), found);
    }
    let known = search.offset;
    let offsets = known.map_or_else(|| (0..SECTORS).map(|s| s * SECTOR).collect(), |o| vec![o]);
    for offset in offsets {
        let shifted = Shifted::new(device, offset);
        match scan_shown(&shifted, search.known_bad, known.map(|_| 0), search.stop) {
            Ok(found) => {
                if let ([image], None) = (search.sources, known)
                    && !Location::of(image).is_part()
                {
                    refuse_several(image, &volumes(image, device, &found, offset))?;
                }
                if let Some(path) = search.kept {
                    keep(
                        path,
                        image::copy_mode(search.sources),
                        &found.to_bytes(device.block_count(), offset),
                    )?;
                }
                return then(&shifted, found);
            }
            Err(RescueError::NothingFound) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let name = search.sources.first().map(|path| path.display().to_string()).unwrap_or_default();
    let contents = Contents::of(device).with_context(|| format!("cannot read {name}"))?;
    bail!("{name} {contents}, and no node of an F2FS volume was found")
}

fn load(device: &dyn BlockDevice, search: &Search<'_>, path: &Path) -> Result<(Found, u64)> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (found, offset) = Found::from_bytes(&bytes, device.block_count(), path)?;
    let same = search.offset.is_none_or(|o| o == offset) && found.is_of(&Shifted::new(device, offset));
    if !same {
        let why = "is of another volume, or of this one before it was written to";
        return Err(RescueError::BadScan { path: path.to_owned(), why }.into());
    }
    eprintln!("segno: the source is not searched again: {} has what was found", path.display());
    Ok((found, offset))
}

/// A file under its final name is whole.
fn keep(path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = write_file(&part, mode, bytes).and_then(|()| std::fs::rename(&part, path));
    written.with_context(|| format!("cannot write {}", path.display())).inspect_err(|_| {
        // The error of the write is the one to report.
        let _gone = std::fs::remove_file(&part);
    })
}

fn scan_shown(
    device: &dyn BlockDevice,
    known_bad: &BadBlocks,
    base: Option<i64>,
    stop: &AtomicBool,
) -> Result<Found, RescueError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let progress = Mutex::new(Progress::default());
    let bytes = |blocks: u64| size::human(blocks.saturating_mul(4096));
    let total = bytes(device.block_count());
    scan(device, &ScanOptions { threads, known_bad, base, stop }, &|done| {
        progress.lock().show(|| format!("searching for nodes: {} of {total}", bytes(done)));
    })
}

/// Prints files as they come, or collects them for JSON.
pub struct Listing {
    json: Option<Schema>,
    items: Vec<Value>,
    classes: [u64; 3],
    failed: u64,
    /// Names whose inode was not found.
    lost: u64,
}

impl Listing {
    pub fn new(json: bool, schema: Schema) -> Self {
        Self { json: json.then_some(schema), items: Vec::new(), classes: [0; 3], failed: 0, lost: 0 }
    }

    /// Names of which nothing but the name is left.
    pub fn lose(&mut self, names: usize) {
        self.lost += names as u64;
    }

    /// With `quiet`, only what failed or is doubtful is printed.
    pub fn add(&mut self, item: &Item, quiet: bool) -> Result<()> {
        if let Some(n) = self.classes.get_mut(item.class as usize) {
            *n += 1;
        }
        if item.failed.is_some() {
            self.failed += 1;
        }
        if self.json.is_some() {
            self.items.push(json!(item));
            return Ok(());
        }
        let reasons = item.reasons.join("; ");
        let doubtful = item.class == segno_rescue::Class::C || item.failed.is_some();
        if quiet && !doubtful {
            return Ok(());
        }
        let mut out = stdout();
        write!(out, "{:?} {:>12} {}", item.class, item.size, item.shown())?;
        if item.kind == "directory" {
            write!(out, "/")?;
        }
        if doubtful && !reasons.is_empty() {
            write!(out, "  ({reasons})")?;
        }
        if let Some(why) = &item.failed {
            write!(out, "  not copied: {why}")?;
        }
        Ok(writeln!(out)?)
    }

    /// Reports, and fails unless everything was found and nothing is doubtful.
    pub fn finish(self, what: &str, mut more: Value) -> Outcome {
        let [a, b, c] = self.classes;
        let mut out = stdout();
        if let Some(schema) = self.json {
            if let Some(object) = more.as_object_mut() {
                object.insert("classes".into(), json!({ "A": a, "B": b, "C": c }));
                object.insert("failed".into(), json!(self.failed));
                object.insert("files".into(), Value::from(self.items));
            }
            schema.print(&mut out, &more)?;
        } else {
            writeln!(
                out,
                "{} {what}: {a} proven (A), {b} without contradiction (B), {c} doubtful (C)",
                a + b + c
            )?;
            if self.failed > 0 {
                writeln!(out, "{} could not be copied", self.failed)?;
            }
            if self.lost > 0 {
                writeln!(out, "{} more are lost: their names were found, but not their inodes", self.lost)?;
            }
        }
        if a + b + c == 0 && self.lost > 0 {
            bail!(
                "no {what} were found, only {} names; if the device cannot be read everywhere, copy it with ddrescue and try again",
                self.lost
            );
        }
        Ok(if self.failed + self.lost + c > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
