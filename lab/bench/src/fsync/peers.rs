//! The same workload through mounts: segno, fuse2fs, and the kernel's ext4 and XFS on a loop device, each on an image at the
//! same place.
use super::row::Once;
use crate::mounts::{FileSystem, Site};
use crate::work::Prepared;
use crate::work::fs::Mounted;
use crate::work::job::Job;
use anyhow::Result;
use std::time::Duration;

/// A file system and how it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub name: &'static str,
    pub fsync_mode: &'static str,
    system: FileSystem,
    /// Options of `segno mount -o`.
    options: &'static str,
}

const ALL: [Peer; 5] = [
    Peer { name: "segno mount", fsync_mode: "strict", system: FileSystem::Segno, options: "commit=60" },
    // As in the kernel's F2FS.
    Peer {
        name: "segno mount, posix",
        fsync_mode: "posix",
        system: FileSystem::Segno,
        options: "commit=60,fsync_mode=posix",
    },
    Peer { name: "ext4, kernel, loop", fsync_mode: "default", system: FileSystem::Ext4, options: "" },
    Peer { name: "XFS, kernel, loop", fsync_mode: "default", system: FileSystem::Xfs, options: "" },
    Peer { name: "fuse2fs", fsync_mode: "default", system: FileSystem::Fuse2fs, options: "" },
];

impl Peer {
    pub fn is_segno(self) -> bool {
        self.system == FileSystem::Segno
    }

    /// Formats, mounts, prepares, runs and unmounts.
    pub fn run(self, bytes: u64, job: &Job, time: Duration, seed: u64) -> Result<Once> {
        let site = Site::new(None, bytes, self.options)?;
        site.format(self.system)?;
        site.mount(self.system)?;
        let done = work(&site, job, time, seed);
        let unmounted = site.unmount(self.system);
        let once = done?;
        unmounted?;
        Ok(once)
    }
}

fn work(site: &Site, job: &Job, time: Duration, seed: u64) -> Result<Once> {
    let fs = Mounted::new(site.dir());
    let done = Prepared::new(&fs, job, seed)?.run(&fs, time)?;
    Ok(Once {
        ops_per_s: done.ops as f64 / done.seconds,
        fsyncs_per_s: done.fsyncs.count() as f64 / done.seconds,
        fsyncs: done.fsyncs,
        inside: None,
    })
}

/// The available peers, and why the others are not.
pub fn available() -> (Vec<Peer>, Vec<String>) {
    let why = |p: &Peer| p.system.missing().map(|why| format!("{} is left out: {why}", p.name));
    (ALL.into_iter().filter(|p| p.system.missing().is_none()).collect(), ALL.iter().filter_map(why).collect())
}
