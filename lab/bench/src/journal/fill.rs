//! Volumes in memory that crash with changes after the last checkpoint.
use super::Scale;
use super::arm::mkfs;
use super::mode::Mode;
use anyhow::{Result, ensure};
use segno_device::{MemDevice, Snapshot};
use segno_engine::lab::Probe;
use segno_engine::{Owner, RenameMode, SetAttr, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files in a directory.
const WIDTH: usize = 100;
/// One in this many changes of a file writes data as well.
const DATA: usize = 20;

/// The device after the crash, and the size of the journal to be replayed.
pub struct Crashed {
    pub device: Snapshot,
    pub log_bytes: u64,
    pub changes: u64,
}

/// Renames, mode changes and overwrites until the journal has this size, without a checkpoint.
pub fn fill(scale: &Scale, log_bytes: u64) -> Result<Crashed> {
    let (device, volume) = fresh(scale, Mode::Journal)?;
    let files = make(&volume, scale.recovery_files)?;
    Probe(&volume).checkpoint()?;
    let (mut changes, mut round) = (0, 0);
    while used(&volume) < log_bytes {
        changes += change(&volume, &files, round)?;
        volume.sync()?;
        round += 1;
    }
    Ok(Crashed { device: device.snapshot(), log_bytes: used(&volume), changes })
}

/// New files of a block, each synced by itself, without a checkpoint.
pub fn synced(scale: &Scale, mode: Mode, files: usize) -> Result<Snapshot> {
    let ring_bytes = scale.ring_bytes.max((files * 2 * BLOCK_SIZE) as u64);
    let (device, volume) = fresh(&Scale { ring_bytes, ..scale.clone() }, mode)?;
    let dirs = (0..files.div_ceil(WIDTH)).map(|n| directory(&volume, n));
    let dirs: Vec<Ino> = dirs.collect::<Result<_>>()?;
    Probe(&volume).checkpoint()?;
    let checkpoints = || volume.stats().checkpoints.load(Ordering::Relaxed);
    let before = checkpoints();
    for n in 0..files {
        let Some(&dir) = dirs.get(n / WIDTH) else { break };
        let ino = volume.mknod(dir, name(n, 0).as_bytes(), 0o100_644, (0, 0), Owner::default())?.ino;
        volume.write(ino, 0, &[1; BLOCK_SIZE])?;
        volume.fsync(ino)?;
    }
    ensure!(checkpoints() == before, "a checkpoint was written while {files} files were synced");
    Ok(device.snapshot())
}

/// Number of those files that a volume has.
pub fn count_synced(volume: &Volume, files: usize) -> usize {
    let size = |n: usize| {
        let dir = volume.lookup(Ino::ROOT, directory_name(n / WIDTH).as_bytes()).ok()?;
        Some(volume.lookup(dir.ino, name(n, 0).as_bytes()).ok()?.size)
    };
    (0..files).filter(|&n| size(n) == Some(BLOCK_SIZE as u64)).count()
}

/// Without a background thread the volume writes no checkpoint before the ring is nearly full.
fn fresh(scale: &Scale, mode: Mode) -> Result<(Arc<MemDevice>, Arc<Volume>)> {
    let device = Arc::new(MemDevice::new(scale.bytes / BLOCK_SIZE as u64));
    let member = segno_mkfs::Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &mkfs(scale))?;
    let volume = Volume::mount(device.clone(), mode.options(1 << 30))?;
    Ok((device, volume))
}

fn used(volume: &Volume) -> u64 {
    volume.report().into_iter().find(|(n, _)| *n == "journal_bytes_used").map_or(0, |(_, v)| v)
}

fn name(n: usize, round: u32) -> String {
    format!("file{n:06}{}", if round.is_multiple_of(2) { "a" } else { "b" })
}

fn directory_name(n: usize) -> String {
    format!("dir{n}")
}

fn directory(volume: &Volume, n: usize) -> Result<Ino> {
    Ok(volume.mkdir(Ino::ROOT, directory_name(n).as_bytes(), 0o755, Owner::default())?.ino)
}

/// Each with its directory.
fn make(volume: &Volume, files: usize) -> Result<Vec<(Ino, Ino)>> {
    let mut dir = Ino::ROOT;
    (0..files)
        .map(|n| {
            if n.is_multiple_of(WIDTH) {
                dir = directory(volume, n / WIDTH)?;
            }
            let made = volume.mknod(dir, name(n, 0).as_bytes(), 0o100_644, (0, 0), Owner::default())?;
            volume.write(made.ino, 0, &[1; 2 * BLOCK_SIZE])?;
            Ok((dir, made.ino))
        })
        .collect()
}

fn change(volume: &Volume, files: &[(Ino, Ino)], round: u32) -> Result<u64> {
    let mut changes = 0;
    for (n, &(dir, ino)) in files.iter().enumerate() {
        let (from, to) = (name(n, round), name(n, round + 1));
        volume.rename(dir, from.as_bytes(), dir, to.as_bytes(), RenameMode::default(), Owner::default())?;
        let mode = Some(if round.is_multiple_of(2) { 0o600 } else { 0o644 });
        volume.setattr(ino, &SetAttr { mode, ..SetAttr::default() })?;
        changes += 2;
        if (n + round as usize).is_multiple_of(DATA) {
            volume.write(ino, 0, &[round as u8; BLOCK_SIZE])?;
            changes += 1;
        }
    }
    Ok(changes)
}
