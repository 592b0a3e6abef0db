//! A volume in memory that crashes with a partly filled journal.
use super::Scale;
use super::arm::{Mode, mkfs};
use anyhow::Result;
use segno_device::MemDevice;
use segno_engine::lab::Probe;
use segno_engine::{Owner, RenameMode, SetAttr, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use std::sync::Arc;

/// Files in a directory.
const WIDTH: usize = 100;
/// One in this many changes of a file writes data as well.
const DATA: usize = 20;

/// The device after the crash, and the size of the journal to be replayed.
pub struct Crashed {
    pub device: Arc<MemDevice>,
    pub log_bytes: u64,
    pub changes: u64,
}

/// Renames, mode changes and overwrites until the journal has this size, without a checkpoint.
pub fn fill(scale: &Scale, log_bytes: u64) -> Result<Crashed> {
    let device = Arc::new(MemDevice::new(scale.bytes / BLOCK_SIZE as u64));
    let member = segno_mkfs::Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &mkfs(scale))?;
    // Without a background thread the volume writes no checkpoint before the ring is nearly full.
    let volume = Volume::mount(device.clone(), Mode::Journal.options(1 << 30))?;
    let files = make(&volume, scale.recovery_files)?;
    Probe(&volume).checkpoint()?;
    let (mut changes, mut round) = (0, 0);
    while used(&volume) < log_bytes {
        changes += change(&volume, &files, round)?;
        volume.sync()?;
        round += 1;
    }
    let log_bytes = used(&volume);
    drop(volume);
    Ok(Crashed { device, log_bytes, changes })
}

fn used(volume: &Volume) -> u64 {
    volume.report().into_iter().find(|(n, _)| *n == "journal_bytes_used").map_or(0, |(_, v)| v)
}

fn name(n: usize, round: u32) -> String {
    format!("file{n:06}{}", if round.is_multiple_of(2) { "a" } else { "b" })
}

/// Each with its directory.
fn make(volume: &Volume, files: usize) -> Result<Vec<(Ino, Ino)>> {
    let mut dir = Ino::ROOT;
    (0..files)
        .map(|n| {
            if n.is_multiple_of(WIDTH) {
                let name = format!("dir{n}");
                dir = volume.mkdir(Ino::ROOT, name.as_bytes(), 0o755, Owner::default())?.ino;
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
