//! A mounted volume for tests with access to internals.
use crate::files::Inode;
use crate::options::{AllocMode, MountOptions};
use crate::types::{Owner, SetAttr};
use crate::volume::Volume;
use segno_device::{BlockDevice, MemDevice};
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES};
use segno_format::{Block, Features, Ino};
use segno_mkfs::{Member, MkfsOptions};
use std::sync::Arc;

pub const BLOCK: u64 = 4096;

pub struct Rig {
    dev: Arc<MemDevice>,
    pub volume: Arc<Volume>,
}

impl Rig {
    pub fn new(features: Features) -> Self {
        Self::with(features, AllocMode::default())
    }

    /// Where cleaning is paced.
    pub fn lfs(features: Features) -> Self {
        Self::with(features, AllocMode::Lfs)
    }

    fn with(features: Features, mode: AllocMode) -> Self {
        let dev = Arc::new(MemDevice::new(256 * 256));
        let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
        segno_mkfs::format(&[member], &MkfsOptions { features, ..MkfsOptions::default() }).unwrap();
        let volume = mount(&dev, mode);
        Self { dev, volume }
    }

    pub fn create(&self, name: &[u8]) -> Arc<Inode> {
        let ino = self.volume.mknod(Ino::ROOT, name, 0o100_644, (0, 0), Owner::default()).unwrap().ino;
        self.volume.files.inode(ino).unwrap()
    }

    /// The device as it is now.
    pub fn copy(&self) -> Arc<MemDevice> {
        Arc::new(MemDevice::from_snapshot(&self.dev.snapshot()))
    }

    /// Both copies of the superblock on the device.
    pub fn superblocks(&self) -> [RawSuperblock; 2] {
        SUPERBLOCK_COPIES.map(|copy| {
            let mut block = [Block::zeroed()];
            self.dev.read(copy.0.into(), &mut block).unwrap();
            RawSuperblock::from_block(&block[0].0)
        })
    }

    /// Unmounts, runs the checker, and mounts again.
    pub fn remount(&mut self) {
        self.volume.unmount().unwrap();
        let report =
            segno_check::check(&*self.dev, &segno_check::CheckOptions::default(), &mut |_| {}).unwrap();
        let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "the checker found:\n{}", found.join("\n"));
        self.volume = mount(&self.dev, self.volume.base.opts.mode);
    }

    pub fn read(&self, ino: Ino, offset: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0xEE; len];
        let n = self.volume.read(ino, offset, &mut buf).unwrap();
        buf.truncate(n);
        buf
    }

    pub fn truncate(&self, ino: Ino, size: u64) -> crate::Result<()> {
        self.volume.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }).map(drop)
    }
}

fn mount(dev: &Arc<MemDevice>, mode: AllocMode) -> Arc<Volume> {
    Volume::mount(dev.clone(), MountOptions { background: false, mode, ..MountOptions::default() }).unwrap()
}
