//! Crashes: synced data survives, whatever was being written.
mod ahead;
mod cuts;
mod faults;
mod hostile;
mod links;
mod names;
mod refused;
mod repeated;
mod scenarios;

use crate::common::{assert_clean, fresh, quiet};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::options::FsyncMode;
use segno_engine::{Error, MountOptions, Owner, SetAttr, Volume};
use segno_format::Ino;
use segno_mkfs::MkfsOptions;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const BLOCK: usize = 4096;
const FILE: u16 = 0o100_644;

/// A mounted volume that can crash.
struct Rig {
    dev: Arc<MemDevice>,
    v: Arc<Volume>,
    opts: MountOptions,
}

impl Rig {
    fn new(mode: FsyncMode) -> Self {
        Self::formatted(mode, &MkfsOptions::default())
    }
    fn formatted(mode: FsyncMode, format: &MkfsOptions) -> Self {
        let dev = fresh(96, format);
        let opts = MountOptions { fsync_mode: mode, ..quiet() };
        Self { v: Volume::mount(dev.clone(), opts.clone()).unwrap(), dev, opts }
    }
    /// Cuts the power with all writes so far on the device, and mounts the content.
    fn crash(&mut self) {
        self.dev = Arc::new(MemDevice::from_snapshot(&self.dev.snapshot()));
        self.v = Volume::mount(self.dev.clone(), self.opts.clone()).unwrap();
    }
    /// Unmounts, runs the checker, and mounts again.
    fn judge(&mut self) {
        self.v.unmount().unwrap();
        assert_clean(&*self.dev);
        self.v = Volume::mount(self.dev.clone(), self.opts.clone()).unwrap();
    }
    fn checkpoints(&self) -> u64 {
        self.v.stats().checkpoints.load(Ordering::Relaxed)
    }
    fn create(&self, name: &str) -> Ino {
        create_in(&self.v, Ino::ROOT, name)
    }
    /// A file with content.
    fn file(&self, name: &str, content: &[u8]) -> Ino {
        let ino = self.create(name);
        assert_eq!(self.v.write(ino, 0, content).unwrap(), content.len());
        ino
    }
    fn ino(&self, name: &str) -> Ino {
        self.v.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino
    }
    fn names(&self) -> Vec<String> {
        names_in(&self.v, Ino::ROOT)
    }
    fn content(&self, name: &str) -> Vec<u8> {
        content_of(&self.v, self.ino(name))
    }
    fn resize(&self, ino: Ino, size: u64) {
        self.v.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
    }
    fn fsync(&self, ino: Ino) {
        self.v.fsync(ino).unwrap();
    }
}

fn create_in(v: &Volume, dir: Ino, name: &str) -> Ino {
    v.mknod(dir, name.as_bytes(), FILE, (0, 0), Owner::default()).unwrap().ino
}

/// Names without `.` and `..`, sorted.
fn names_in(v: &Volume, dir: Ino) -> Vec<String> {
    let mut names = Vec::new();
    v.readdir(dir, 0, &mut |e| {
        names.push(String::from_utf8_lossy(e.name).into_owned());
        true
    })
    .unwrap();
    names.retain(|n| n != "." && n != "..");
    names.sort();
    names
}

fn content_of(v: &Volume, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; v.getattr(ino).unwrap().size as usize];
    let n = v.read(ino, 0, &mut bytes).unwrap();
    assert_eq!(n, bytes.len());
    bytes
}

/// Content that identifies file and version in every block.
fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / BLOCK) as u8 ^ (i as u8).wrapping_mul(31) ^ seed).collect()
}
