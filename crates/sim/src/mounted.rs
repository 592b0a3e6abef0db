//! The engine as a file system of this crate.
use crate::fs::{Attr, Entry, Fs, Node, Res, Seek, errno};
use crate::setup::MANY_CONTEXTS;
use segno_device::BlockDevice;
use segno_engine::{
    Clock, ContextSetting, Error, FallocMode, MountOptions, Owner, RenameMode, SetAttr, StatFs, Time, Volume,
    XattrMode,
};
use segno_format::dentry::FileType;
use segno_format::{Ino, Nid};
use segno_testkit::rng::mix;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A clock that changes only when set.
#[derive(Debug, Default)]
pub struct StillClock(AtomicI64);

impl Clock for StillClock {
    fn now(&self) -> Time {
        Time { secs: self.0.load(Ordering::Relaxed), nsec: 0 }
    }
}

/// A mounted volume.
pub struct Mounted {
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    clock: Arc<StillClock>,
    volume: Arc<Volume>,
}

/// Identifies inodes over the lifetime of a volume, as numbers are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub ino: u32,
    pub generation: u32,
}

impl Mounted {
    /// Mounts a device; time starts at `now`.
    pub fn mount(device: Arc<dyn BlockDevice>, options: MountOptions, now: i64) -> Result<Self, Error> {
        let clock = Arc::new(StillClock::default());
        clock.0.store(now, Ordering::Relaxed);
        let volume = Volume::mount_with_clock(device.clone(), options.clone(), clock.clone())?;
        Ok(Self { device, options, clock, volume })
    }

    /// A handle of this mount for another thread.
    #[must_use]
    pub fn share(&self) -> Self {
        Self {
            device: self.device.clone(),
            options: self.options.clone(),
            clock: self.clock.clone(),
            volume: self.volume.clone(),
        }
    }

    pub fn unmount(&self) -> Result<(), Error> {
        self.volume.unmount()
    }

    #[must_use]
    pub fn statfs(&self) -> StatFs {
        self.volume.statfs()
    }

    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.volume.is_stopped()
    }

    /// First block of the main area.
    #[must_use]
    pub fn main_start(&self) -> u64 {
        self.volume.superblock().geo.main_blkaddr.into()
    }

    /// On setups with several writeback contexts, changes their number.
    pub fn draw_contexts(&self, moment: i64) {
        if self.options.contexts == ContextSetting::Fixed(MANY_CONTEXTS) {
            let count = 1 + mix(moment.unsigned_abs()) as u32 % MANY_CONTEXTS;
            self.volume.set_contexts(ContextSetting::Fixed(count));
        }
    }

    pub fn identity(&self, node: Node) -> Res<Identity> {
        let attr = self.volume.getattr(Nid(node)).map_err(|e| e.errno())?;
        Ok(Identity { ino: node, generation: attr.generation })
    }
}

fn done<T>(r: Result<T, Error>) -> Res<T> {
    r.map_err(|e| e.errno())
}

fn node<T>(r: Result<T, Error>, of: impl FnOnce(&T) -> Ino) -> Res<Node> {
    r.map(|a| of(&a).0).map_err(|e| e.errno())
}

impl Fs for Mounted {
    fn root(&self) -> Node {
        self.volume.root().0
    }
    fn set_time(&mut self, now: Time) {
        self.clock.0.store(now.secs, Ordering::Relaxed);
        self.draw_contexts(now.secs);
    }
    fn lookup(&mut self, dir: Node, name: &[u8]) -> Res<Node> {
        node(self.volume.lookup(Nid(dir), name), |a| a.ino)
    }
    fn getattr(&mut self, node: Node) -> Res<Attr> {
        let a = done(self.volume.getattr(Nid(node)))?;
        Ok(Attr {
            kind: a.kind,
            mode: a.mode & 0o7777,
            nlink: a.nlink,
            uid: a.uid,
            gid: a.gid,
            rdev: a.rdev,
            size: if a.kind == FileType::Directory { 0 } else { a.size },
            atime: a.atime,
            mtime: a.mtime,
            ctime: a.ctime,
        })
    }
    fn setattr(&mut self, node: Node, set: &SetAttr) -> Res<()> {
        done(self.volume.setattr(Nid(node), set)).map(drop)
    }
    fn mknod(&mut self, dir: Node, name: &[u8], mode: u16, rdev: (u32, u32), owner: Owner) -> Res<Node> {
        node(self.volume.mknod(Nid(dir), name, mode, rdev, owner), |a| a.ino)
    }
    fn mkdir(&mut self, dir: Node, name: &[u8], mode: u16, owner: Owner) -> Res<Node> {
        node(self.volume.mkdir(Nid(dir), name, mode, owner), |a| a.ino)
    }
    fn symlink(&mut self, dir: Node, name: &[u8], target: &[u8], owner: Owner) -> Res<Node> {
        node(self.volume.symlink(Nid(dir), name, target, owner), |a| a.ino)
    }
    fn tmpfile(&mut self, dir: Node, mode: u16, owner: Owner) -> Res<Node> {
        node(self.volume.tmpfile(Nid(dir), mode, owner), |a| a.ino)
    }
    fn link(&mut self, node: Node, dir: Node, name: &[u8]) -> Res<()> {
        done(self.volume.link(Nid(node), Nid(dir), name)).map(drop)
    }
    fn unlink(&mut self, dir: Node, name: &[u8]) -> Res<()> {
        done(self.volume.unlink(Nid(dir), name))
    }
    fn rmdir(&mut self, dir: Node, name: &[u8]) -> Res<()> {
        done(self.volume.rmdir(Nid(dir), name))
    }
    fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8]), mode: RenameMode) -> Res<()> {
        done(self.volume.rename(Nid(from.0), from.1, Nid(to.0), to.1, mode, Owner::default()))
    }
    fn open(&mut self, node: Node) -> Res<()> {
        done(self.volume.open(Nid(node)))
    }
    fn release(&mut self, node: Node) -> Res<()> {
        done(self.volume.release(Nid(node)))
    }
    fn readlink(&mut self, node: Node) -> Res<Vec<u8>> {
        done(self.volume.readlink(Nid(node)))
    }
    fn readdir(&mut self, dir: Node, chunk: usize) -> Res<BTreeSet<Entry>> {
        let mut all = BTreeSet::new();
        let mut pos = 0;
        loop {
            let mut left = chunk;
            let mut twice = false;
            done(self.volume.readdir(Nid(dir), pos, &mut |e| {
                if left == 0 {
                    return false;
                }
                left -= 1;
                pos = e.next;
                if e.name != b"." && e.name != b".." {
                    let entry = Entry { name: e.name.to_vec(), node: e.ino.0, kind: e.kind as u8 };
                    twice |= !all.insert(entry);
                }
                true
            }))?;
            if twice {
                // No file system answers that, so it differs from whatever the model says.
                return Err(errno::TWICE);
            }
            if left > 0 {
                return Ok(all);
            }
        }
    }
    fn getxattr(&mut self, node: Node, name: &[u8]) -> Res<Vec<u8>> {
        done(self.volume.getxattr(Nid(node), name))
    }
    fn setxattr(&mut self, node: Node, name: &[u8], value: &[u8], mode: XattrMode) -> Res<()> {
        done(self.volume.setxattr(Nid(node), name, value, mode))
    }
    fn removexattr(&mut self, node: Node, name: &[u8]) -> Res<()> {
        done(self.volume.removexattr(Nid(node), name))
    }
    fn listxattr(&mut self, node: Node) -> Res<BTreeSet<Vec<u8>>> {
        let list = done(self.volume.listxattr(Nid(node)))?;
        Ok(list.split(|&b| b == 0).filter(|n| !n.is_empty()).map(<[u8]>::to_vec).collect())
    }
    fn read(&mut self, node: Node, offset: u64, len: usize) -> Res<Vec<u8>> {
        let mut data = vec![0xEE; len];
        let n = done(self.volume.read(Nid(node), offset, &mut data))?;
        data.truncate(n);
        Ok(data)
    }
    fn write(&mut self, node: Node, offset: u64, data: &[u8]) -> Res<usize> {
        done(self.volume.write(Nid(node), offset, data))
    }
    fn fallocate(&mut self, node: Node, mode: FallocMode, offset: u64, len: u64) -> Res<()> {
        done(self.volume.fallocate(Nid(node), mode, offset, len))
    }
    fn seek(&mut self, node: Node, what: Seek, offset: u64) -> Res<u64> {
        done(match what {
            Seek::Data => self.volume.seek_data(Nid(node), offset),
            Seek::Hole => self.volume.seek_hole(Nid(node), offset),
        })
    }
    fn copy_range(&mut self, from: (Node, u64), to: (Node, u64), len: u64) -> Res<u64> {
        done(self.volume.copy_range(Nid(from.0), from.1, Nid(to.0), to.1, len))
    }
    fn fsync(&mut self, node: Node, datasync: bool) -> Res<()> {
        done(self.volume.fsync(Nid(node), datasync))
    }
    fn sync(&mut self) -> Res<()> {
        done(self.volume.sync())
    }
    fn remount(&mut self) -> Res<()> {
        done(self.volume.unmount())?;
        let clock: Arc<dyn Clock> = self.clock.clone();
        self.volume = done(Volume::mount_with_clock(self.device.clone(), self.options.clone(), clock))?;
        Ok(())
    }
    fn clean(&mut self) -> Res<()> {
        done(self.volume.clean_once().and_then(|_| self.volume.checkpoint_now()))
    }
}
