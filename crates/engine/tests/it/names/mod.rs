//! Names and attributes: every operation with its errors, before and after remounting, and the checker finds nothing.
mod acl;
mod basic;
mod big;
mod casefold;
mod cold;
mod damage;
mod edit;
mod encrypted;
mod flags;
mod full;
mod handles;
mod levels;
mod model;
mod orphans;
mod rename;
mod storm;
mod times;
mod xattr;

use crate::common::{assert_clean, fresh, mount, quiet};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::lab;
use segno_engine::{Attr, Clock, MountOptions, Owner, RenameMode, Result, Time, Volume};
use segno_format::superblock::RawSuperblock;
use segno_format::{Block, Features, Ino};
use segno_mkfs::MkfsOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use zerocopy::little_endian::U32;

const REG: u16 = 0o100_000;
const ROOT: Ino = Ino::ROOT;
/// All features that Segno can write.
const ALL: Features = Features::EXTRA_ATTR
    .union(Features::INODE_CHKSUM)
    .union(Features::INODE_CRTIME)
    .union(Features::FLEXIBLE_INLINE_XATTR)
    .union(Features::SB_CHKSUM)
    .union(Features::CASEFOLD)
    .union(Features::COMPRESSION);

/// A clock that advances by a second per call.
#[derive(Debug, Default)]
struct Ticks(AtomicI64);

impl Clock for Ticks {
    fn now(&self) -> Time {
        Time { secs: self.0.fetch_add(1, Ordering::Relaxed), nsec: 5 }
    }
}

/// A mounted volume that can be remounted.
struct Rig {
    dev: Arc<MemDevice>,
    opts: MountOptions,
    v: Arc<Volume>,
}

impl Rig {
    fn new(features: Features) -> Self {
        Self::with(128, features, quiet())
    }
    fn with(mib: u64, features: Features, opts: MountOptions) -> Self {
        let dev = fresh(mib, &MkfsOptions { features, ..MkfsOptions::default() });
        let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
        Self { dev, opts, v }
    }
    /// Uses a ticking clock.
    fn ticking() -> Self {
        let dev = fresh(128, &MkfsOptions { features: ALL, ..MkfsOptions::default() });
        let v = lab::mount(dev.clone(), quiet(), Arc::new(Ticks::default())).unwrap();
        Self { dev, opts: quiet(), v }
    }
    /// With project ids, but without the quota files that mkfs creates for them.
    fn with_projects() -> Self {
        let dev = fresh(128, &MkfsOptions { features: ALL, ..MkfsOptions::default() });
        for copy in [0, 1] {
            let mut one = [Block::zeroed()];
            dev.read(copy, &mut one).unwrap();
            let [block] = &mut one;
            let mut sb = RawSuperblock::from_block(&block.0);
            sb.feature = U32::new(sb.feature.get() | Features::PRJQUOTA.bits());
            sb.seal();
            sb.store(&mut block.0);
            dev.write(copy, &[block]).unwrap();
        }
        Self { v: mount(&dev), dev, opts: quiet() }
    }
    /// Unmounts, runs the checker, and mounts again.
    fn remount(&mut self) {
        self.v.unmount().unwrap();
        assert_clean(&*self.dev);
        self.v = Volume::mount(self.dev.clone(), self.opts.clone()).unwrap();
    }
    /// Unmounts and runs the checker.
    fn finish(self) {
        self.v.unmount().unwrap();
        assert_clean(&*self.dev);
    }
    fn file(&self, dir: Ino, name: &str) -> Ino {
        self.v.mknod(dir, name.as_bytes(), REG | 0o644, (0, 0), Owner::default()).unwrap().ino
    }
    fn dir(&self, dir: Ino, name: &str) -> Ino {
        self.v.mkdir(dir, name.as_bytes(), 0o755, Owner::default()).unwrap().ino
    }
    fn attr(&self, ino: Ino) -> Attr {
        self.v.getattr(ino).unwrap()
    }
    fn lookup(&self, dir: Ino, name: &str) -> Ino {
        self.v.lookup(dir, name.as_bytes()).unwrap().ino
    }
    fn mv(&self, from: (Ino, &str), to: (Ino, &str), mode: RenameMode) -> Result<()> {
        self.v.rename(from.0, from.1.as_bytes(), to.0, to.1.as_bytes(), mode, Owner::default())
    }
    /// Names and inode numbers of a directory without `.` and `..`, sorted.
    fn list(&self, dir: Ino) -> Vec<(String, Ino)> {
        let mut out = Vec::new();
        self.v
            .readdir(dir, 0, &mut |e| {
                if e.name != b"." && e.name != b".." {
                    out.push((String::from_utf8(e.name.to_vec()).unwrap(), e.ino));
                }
                true
            })
            .unwrap();
        out.sort();
        out
    }
    fn names(&self, dir: Ino) -> Vec<String> {
        self.list(dir).into_iter().map(|(n, _)| n).collect()
    }
}

/// The errno of an expected failure.
#[track_caller]
fn errno<T>(r: Result<T>) -> i32 {
    match r {
        Ok(_) => panic!("succeeded"),
        Err(e) => e.errno(),
    }
}
