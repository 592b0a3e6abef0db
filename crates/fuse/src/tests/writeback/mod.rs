//! Mounts with `writeback_cache`: contents, times, errors and durability are as on a local file system whose
//! page cache holds written data.
mod bdi;
mod counts;
mod durable;
mod flags;
mod full;
mod mix;
mod order;

use super::{Mount, format_and_mount};
use crate::options::Choice;
use crate::page_cache::PageCache;
use segno_device::MemDevice;
use segno_engine::{MountOptions, Volume};
use segno_mkfs::MkfsOptions;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

const TRANSPORTS: [Choice; 2] = [Choice::Classic, Choice::IoUring];
const PAGE: usize = 4096;

/// Mounts a volume with the writeback cache.
fn cached(volume: Arc<Volume>, choice: Choice, options: &[&str]) -> Option<Mount> {
    volume.set_cached_writes();
    let mount = Mount::of(volume, choice, options)?;
    assert_eq!(mount.session.page_cache, PageCache::Writeback);
    Some(mount)
}

/// Runs a test with the writeback cache on every transport.
fn each_cached(test: impl Fn(&Mount), options: &[&str]) {
    TRANSPORTS
        .into_iter()
        .filter_map(|choice| cached(super::volume(), choice, options))
        .for_each(|m| test(&m));
}

/// A volume and its device, without background steps.
fn quiet_volume(blocks: u64) -> (Arc<MemDevice>, Arc<Volume>) {
    let device = Arc::new(MemDevice::new(blocks));
    drop(format_and_mount(device.clone(), &MkfsOptions::default()));
    let options = MountOptions { background: false, ..MountOptions::default() };
    (device.clone(), Volume::mount(device, options).unwrap())
}

/// Size, mtime and ctime as stat(2) returns them.
fn stat(file: &File) -> (u64, [i64; 4]) {
    let m = file.metadata().unwrap();
    (m.size(), [m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()])
}
