//! The journal: committed changes survive a crash without a checkpoint.
mod checksums;
mod failures;
mod full;
mod guard;
mod scenarios;
mod steps;
mod threads;

use crate::common::{assert_clean, quiet};
use segno_device::MemDevice;
use segno_engine::options::JournalMode;
use segno_engine::{MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_mkfs::{Member, MkfsOptions};
use std::sync::Arc;

const MIB: u64 = 256;
const FILE: u16 = 0o100_644;

struct Rig {
    dev: Arc<MemDevice>,
    v: Arc<Volume>,
    opts: MountOptions,
}

/// A volume of 96 MiB followed by a gap of 16 MiB.
fn format() -> Arc<MemDevice> {
    format_with(96, &MkfsOptions::default())
}

fn journaled() -> MountOptions {
    MountOptions { journal: JournalMode::On, ..quiet() }
}

fn format_with(mib: u64, options: &MkfsOptions) -> Arc<MemDevice> {
    let dev = Arc::new(MemDevice::new((mib + 16) * MIB));
    let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
    let options = MkfsOptions { blocks: Some(mib * MIB), ..options.clone() };
    segno_mkfs::format(&[member], &options).unwrap();
    dev
}

impl Rig {
    fn new() -> Self {
        Self::on(format())
    }
    fn with(opts: MountOptions) -> Self {
        let dev = format();
        Self { v: Volume::mount(dev.clone(), opts.clone()).unwrap(), dev, opts }
    }
    fn on(dev: Arc<MemDevice>) -> Self {
        let opts = journaled();
        Self { v: Volume::mount(dev.clone(), opts.clone()).unwrap(), dev, opts }
    }
    /// Cuts the power and mounts the device content.
    fn crash(&mut self) {
        self.crash_into(self.opts.clone());
    }
    fn crash_into(&mut self, opts: MountOptions) {
        self.dev = Arc::new(MemDevice::from_snapshot(&self.dev.snapshot()));
        self.v = Volume::mount(self.dev.clone(), opts).unwrap();
    }
    fn judge(&mut self) {
        self.v.unmount().unwrap();
        assert_clean(&*self.dev);
        self.v = Volume::mount(self.dev.clone(), self.opts.clone()).unwrap();
    }
    fn stat(&self, name: &str) -> u64 {
        self.v.report().into_iter().find(|(n, _)| *n == name).unwrap().1
    }
    fn create(&self, name: &str) -> Ino {
        self.v.mknod(Ino::ROOT, name.as_bytes(), FILE, (0, 0), Owner::default()).unwrap().ino
    }
    fn file(&self, name: &str, content: &[u8]) -> Ino {
        let ino = self.create(name);
        assert_eq!(self.v.write(ino, 0, content).unwrap(), content.len());
        ino
    }
    fn has(&self, name: &str) -> bool {
        self.v.lookup(Ino::ROOT, name.as_bytes()).is_ok()
    }
    fn content(&self, name: &str) -> Vec<u8> {
        let ino = self.v.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
        let mut buf = vec![0xEE; self.v.getattr(ino).unwrap().size as usize];
        assert_eq!(self.v.read(ino, 0, &mut buf).unwrap(), buf.len());
        buf
    }
}

/// Copies as many blocks as fit.
fn copy(from: &dyn segno_device::BlockDevice, to: &dyn segno_device::BlockDevice) {
    let mut one = [segno_format::Block::zeroed()];
    for at in 0..from.block_count().min(to.block_count()) {
        from.read(at, &mut one).unwrap();
        to.write(at, &[&one[0]]).unwrap();
    }
}
