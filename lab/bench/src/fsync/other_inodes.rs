//! Cost of fsync while other files have dirty nodes: one file is synced repeatedly with an increasing number of dirty inodes of
//! other files.
use super::arm::options;
use super::row::{Counters, Once};
use crate::Histogram;
use crate::place::Place;
use crate::progress::Progress;
use anyhow::Result;
use segno_engine::options::{FsyncLookup, FsyncMode};
use segno_engine::{MountOptions, Owner, SetAttr, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use segno_mkfs::MkfsOptions;
use std::sync::Arc;
use std::time::Instant;

/// Files in one directory.
const WIDTH: usize = 10_000;
/// Memory of a cached dirty inode, including its share of tables.
const NODE_BYTES: u64 = 10 << 10;

/// Figures with a number of dirty nodes of other files, one for each round.
pub struct OtherInodes {
    pub nodes: usize,
    pub lookup: FsyncLookup,
    pub runs: Vec<Once>,
}

/// Size of a volume that can have this many dirty inodes at the same time.
pub fn volume_bytes(nodes: usize) -> u64 {
    (nodes as u64 * BLOCK_SIZE as u64 * 3).max(1 << 30) + (2 << 30)
}

/// The number limited by available memory.
pub fn affordable(nodes: usize) -> usize {
    let free = crate::machine::available_memory().saturating_sub(2 << 30);
    nodes.min((free / NODE_BYTES) as usize)
}

/// Measures each number of nodes with the list and with the global search, in `turns` turns of `fsyncs` each.
pub fn measure(
    place: &Place,
    sizes: &[usize],
    turns: usize,
    fsyncs: usize,
    progress: &mut Progress,
) -> Result<Vec<OtherInodes>> {
    let most = sizes.iter().copied().max().unwrap_or(0);
    let (device, _) = place.format(&MkfsOptions::default())?;
    let cache_bytes = (most * 5 / 2 + 500_000) * BLOCK_SIZE;
    let opts =
        MountOptions { cache_bytes, background: false, ..options(FsyncMode::Posix, FsyncLookup::List) };
    let volume = Volume::mount(device, opts)?;
    let file = volume.mknod(Ino::ROOT, b"mine", 0o100_644, (0, 0), Owner::default())?.ino;
    volume.write(file, 0, &vec![1; 8 << 20])?;
    let others = make(&volume, most, progress)?;
    volume.sync()?;
    let modes = [FsyncLookup::List, FsyncLookup::Global];
    let mut all: Vec<OtherInodes> = Vec::new();
    for &nodes in sizes {
        all.extend(modes.map(|lookup| OtherInodes { nodes, lookup, runs: Vec::new() }));
    }
    for turn in 0..turns {
        // In ascending order: only a checkpoint cleans them.
        let mut dirty = 0;
        for &nodes in sizes {
            progress.detail(|| format!("turn {} of {turns}: {nodes} foreign dirty nodes", turn + 1));
            for &ino in others.get(dirty..nodes).unwrap_or_default() {
                volume
                    .setattr(ino, &SetAttr { mode: Some(0o600 + turn as u16 % 2), ..SetAttr::default() })?;
            }
            dirty = nodes;
            for lookup in modes {
                volume.set_fsync_lookup(lookup);
                let once = burst(&volume, file, fsyncs)?;
                let fits = |f: &&mut OtherInodes| f.nodes == nodes && f.lookup == lookup;
                if let Some(f) = all.iter_mut().find(fits) {
                    f.runs.push(once);
                }
            }
            volume.set_fsync_lookup(FsyncLookup::List);
        }
        volume.sync()?;
    }
    volume.unmount()?;
    Ok(all)
}

fn make(volume: &Arc<Volume>, count: usize, progress: &mut Progress) -> Result<Vec<Ino>> {
    let mut others = Vec::with_capacity(count);
    let mut dir = Ino::ROOT;
    for i in 0..count {
        if i % WIDTH == 0 {
            progress.detail(|| format!("making {count} files: {i}"));
            dir = volume.mkdir(Ino::ROOT, format!("d{i}").as_bytes(), 0o755, Owner::default())?.ino;
        }
        let name = format!("f{i}");
        others.push(volume.mknod(dir, name.as_bytes(), 0o100_644, (0, 0), Owner::default())?.ino);
    }
    Ok(others)
}

/// Rewrites a block and syncs repeatedly. Each time the inode and one direct node become dirty.
fn burst(volume: &Volume, file: Ino, fsyncs: usize) -> Result<Once> {
    let (before, begun) = (Counters::of(volume), Instant::now());
    let latency = Histogram::default();
    for i in 0..fsyncs {
        volume.write(file, (1000 + i as u64 % 900) * BLOCK_SIZE as u64, &[i as u8; BLOCK_SIZE])?;
        let one = Instant::now();
        volume.fsync(file)?;
        latency.record(one.elapsed().as_nanos() as u64);
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Once {
        ops_per_s: fsyncs as f64 / seconds,
        fsyncs_per_s: fsyncs as f64 / seconds,
        fsyncs: latency.recorded(),
        inside: Some(Counters::of(volume).since(&before)),
    })
}
