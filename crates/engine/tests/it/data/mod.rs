//! File data: reads return what was written, before and after remounting, and the checker finds nothing.
mod bounds;
mod cached;
mod compressed;
mod cuts;
mod errors;
mod flags;
mod grow;
mod in_flight;
mod model;
mod pinned;
mod threads;

use crate::common::{assert_clean, fresh, quiet};
use segno_device::MemDevice;
use segno_engine::{MountOptions, Owner, SetAttr, Volume};
use segno_format::{Features, Ino};
use segno_mkfs::MkfsOptions;
use segno_testkit::Rng;
use std::sync::Arc;

const BLOCK: u64 = 4096;

/// A mounted volume that can be remounted.
struct Rig {
    dev: Arc<MemDevice>,
    options: MountOptions,
    volume: Arc<Volume>,
}

impl Rig {
    fn new(mib: u64, opts: &MkfsOptions) -> Self {
        Self::with_options(mib, opts, quiet())
    }
    fn with_options(mib: u64, format: &MkfsOptions, options: MountOptions) -> Self {
        let dev = fresh(mib, format);
        let volume = Volume::mount(dev.clone(), options.clone()).unwrap();
        Self { dev, options, volume }
    }
    fn create(&self, name: &str) -> Ino {
        let root = self.volume.root();
        self.volume.mknod(root, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap().ino
    }
    /// Unmounts, runs the checker, and mounts again.
    fn remount(&mut self) {
        self.volume.unmount().unwrap();
        assert_clean(&*self.dev);
        self.volume = Volume::mount(self.dev.clone(), self.options.clone()).unwrap();
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) {
        assert_eq!(self.volume.write(ino, offset, data).unwrap(), data.len());
    }
    fn read(&self, ino: Ino, offset: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0xEE; len];
        let n = self.volume.read(ino, offset, &mut buf).unwrap();
        buf.truncate(n);
        buf
    }
    fn size(&self, ino: Ino) -> u64 {
        self.volume.getattr(ino).unwrap().size
    }
    /// Blocks without the inode's own.
    fn blocks(&self, ino: Ino) -> u64 {
        self.volume.getattr(ino).unwrap().blocks / 8
    }
    fn truncate(&self, ino: Ino, size: u64) {
        self.volume.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
    }
}

/// Bytes that depend on position and tag.
fn pattern(tag: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(tag);
    (0..len).map(|_| rng.draw() as u8).collect()
}

/// Formats with different inode layouts: 873, 864 and 873 slots.
fn formats() -> [MkfsOptions; 3] {
    let extra = Features::EXTRA_ATTR | Features::INODE_CRTIME | Features::INODE_CHKSUM;
    [Features::empty(), extra, extra | Features::FLEXIBLE_INLINE_XATTR]
        .map(|features| MkfsOptions { features, ..MkfsOptions::default() })
}
