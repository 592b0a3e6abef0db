//! The engine as a file system of this crate.
use crate::fs::{ADVISE, Attr, Entry, FLAGS, Fs, Node, Res, Seek, errno};
use crate::model::ADVISE_NAME;
use crate::page_cache::PageCache;
use crate::setup::MANY_CONTEXTS;
use segno_device::BlockDevice;
use segno_engine::lab::{self, Probe};
use segno_engine::{
    Clock, ContextSetting, Error, FallocMode, MountOptions, Owner, RenameMode, SetAttr, StatFs, Time, Volume,
    XattrMode,
};
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, InodeFlags};
use segno_format::{BlockAddr, Features, Ino, SegNo};
use segno_testkit::rng::mix;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A clock that changes only when set.
#[derive(Debug, Default)]
pub struct FixedClock(AtomicI64);

impl Clock for FixedClock {
    fn now(&self) -> Time {
        Time { secs: self.0.load(Ordering::Relaxed), nsec: 0 }
    }
}

/// A mounted volume.
pub struct Mounted {
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    clock: Arc<FixedClock>,
    volume: Arc<Volume>,
    /// The kernel's writeback cache, if the mount uses it.
    pages: Option<Arc<PageCache>>,
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
        let clock = Arc::new(FixedClock::default());
        clock.0.store(now, Ordering::Relaxed);
        let volume = lab::mount(device.clone(), options.clone(), clock.clone())?;
        Ok(Self { device, options, clock, volume, pages: None })
    }

    /// Puts the kernel's writeback cache above the volume.
    #[must_use]
    pub fn with_page_cache(self) -> Self {
        self.volume.set_cached_writes();
        Self { pages: Some(Arc::default()), ..self }
    }

    /// A handle of this mount for another thread.
    #[must_use]
    pub fn share(&self) -> Self {
        Self {
            device: self.device.clone(),
            options: self.options.clone(),
            clock: self.clock.clone(),
            volume: self.volume.clone(),
            pages: self.pages.clone(),
        }
    }

    /// The cache above the volume, if it has one and the inode is a regular file.
    fn pages_of(&self, node: Node) -> Option<&PageCache> {
        self.pages.as_deref().filter(|_| PageCache::is_regular(&self.volume, node))
    }

    /// A handle below the page cache: the view of the server.
    #[cfg(test)]
    pub(crate) fn without_page_cache(&self) -> Self {
        Self { pages: None, ..self.share() }
    }

    /// Whether written data and times may be above the volume.
    #[must_use]
    pub fn is_cached(&self) -> bool {
        self.pages.is_some()
    }

    fn changed(&self, node: Node) {
        self.pages.iter().for_each(|pages| pages.changed(&self.volume, node, self.clock.now()));
    }

    /// After an ioctl, whose ctime is the volume's.
    fn adopt_change(&self, node: Node) {
        self.pages.iter().for_each(|pages| pages.adopt_change(&self.volume, node));
    }

    fn send(&self, node: Node) -> Res<()> {
        self.pages.iter().try_for_each(|pages| pages.send(&self.volume, node))
    }

    fn send_all(&self) -> Res<()> {
        self.pages.iter().try_for_each(|pages| pages.send_all(&self.volume))
    }

    pub fn unmount(&self) -> Result<(), Error> {
        // Data that cannot be written is lost, as at any unmount.
        let _lost = self.send_all();
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

    /// Features of the volume.
    #[must_use]
    pub fn features(&self) -> Features {
        self.volume.superblock().features
    }

    /// The segment of the main area that a block is in.
    #[must_use]
    pub fn segment_of(&self, addr: u64) -> Option<SegNo> {
        let addr = u32::try_from(addr).ok()?;
        self.volume.superblock().geo.seg_of(BlockAddr(addr)).map(|(seg, _)| seg)
    }

    pub fn identity(&self, node: Node) -> Res<Identity> {
        let attr = self.volume.getattr(Ino(node)).map_err(|e| e.errno())?;
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
        node(self.volume.lookup(Ino(dir), name), |a| a.ino)
    }
    fn getattr(&mut self, node: Node) -> Res<Attr> {
        let a = done(self.volume.getattr(Ino(node)))?;
        let advise = done(self.volume.getxattr(Ino(node), ADVISE_NAME))?;
        let advise = Advise::from_bits_retain(advise.first().copied().unwrap_or(0));
        let mut attr = Attr {
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
            crtime: a.crtime,
            flags: a.flags & FLAGS,
            projid: a.projid,
            compression: self.volume.compress_option(Ino(node)).ok(),
            advise: advise & ADVISE,
        };
        self.pages.iter().for_each(|pages| pages.cover(node, &mut attr));
        Ok(attr)
    }
    fn setattr(&mut self, node: Node, set: &SetAttr) -> Res<()> {
        match self.pages_of(node) {
            Some(pages) => pages.setattr(&self.volume, node, set, self.clock.now()),
            None => done(self.volume.setattr(Ino(node), set)).map(drop),
        }
    }
    fn set_flags(&mut self, node: Node, flags: InodeFlags) -> Res<()> {
        done(self.volume.set_flags(Ino(node), flags))?;
        self.adopt_change(node);
        Ok(())
    }
    fn set_project(&mut self, node: Node, project: u32) -> Res<()> {
        done(self.volume.set_projid(Ino(node), project))?;
        self.adopt_change(node);
        Ok(())
    }
    fn set_compression(&mut self, node: Node, algorithm: u8, log_cluster: u8) -> Res<()> {
        done(self.volume.set_compress_option(Ino(node), algorithm, log_cluster))
    }
    fn set_released(&mut self, node: Node, released: bool) -> Res<()> {
        done(match released {
            true => self.volume.release_compress_blocks(Ino(node)),
            false => self.volume.reserve_compress_blocks(Ino(node)),
        })
        .map(drop)
    }
    fn mknod(&mut self, dir: Node, name: &[u8], mode: u16, rdev: (u32, u32), owner: Owner) -> Res<Node> {
        node(self.volume.mknod(Ino(dir), name, mode, rdev, owner), |a| a.ino)
    }
    fn mkdir(&mut self, dir: Node, name: &[u8], mode: u16, owner: Owner) -> Res<Node> {
        node(self.volume.mkdir(Ino(dir), name, mode, owner), |a| a.ino)
    }
    fn symlink(&mut self, dir: Node, name: &[u8], target: &[u8], owner: Owner) -> Res<Node> {
        node(self.volume.symlink(Ino(dir), name, target, owner), |a| a.ino)
    }
    fn tmpfile(&mut self, dir: Node, mode: u16, owner: Owner) -> Res<Node> {
        node(self.volume.tmpfile(Ino(dir), mode, owner), |a| a.ino)
    }
    fn link(&mut self, node: Node, dir: Node, name: &[u8]) -> Res<()> {
        done(self.volume.link(Ino(node), Ino(dir), name))?;
        self.changed(node);
        Ok(())
    }
    fn unlink(&mut self, dir: Node, name: &[u8]) -> Res<()> {
        let node = self.lookup(dir, name);
        done(self.volume.unlink(Ino(dir), name))?;
        node.into_iter().for_each(|node| self.changed(node));
        Ok(())
    }
    fn rmdir(&mut self, dir: Node, name: &[u8]) -> Res<()> {
        done(self.volume.rmdir(Ino(dir), name))
    }
    fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8]), mode: RenameMode) -> Res<()> {
        let nodes = [self.lookup(from.0, from.1), self.lookup(to.0, to.1)];
        // Closed before the rename, as a file should be that replaces another.
        nodes[0].iter().try_for_each(|&node| self.send(node))?;
        done(self.volume.rename(Ino(from.0), from.1, Ino(to.0), to.1, mode, Owner::default()))?;
        nodes.into_iter().flatten().for_each(|node| self.changed(node));
        Ok(())
    }
    fn open(&mut self, node: Node) -> Res<()> {
        done(self.volume.open(Ino(node)))
    }
    fn release(&mut self, node: Node) -> Res<()> {
        self.send(node)?;
        done(self.volume.release(Ino(node)))
    }
    fn readlink(&mut self, node: Node) -> Res<Vec<u8>> {
        done(self.volume.readlink(Ino(node)))
    }
    fn readdir(&mut self, dir: Node, chunk: usize) -> Res<BTreeSet<Entry>> {
        let mut all = BTreeSet::new();
        let mut pos = 0;
        loop {
            let mut left = chunk;
            let mut twice = false;
            done(self.volume.readdir(Ino(dir), pos, &mut |e| {
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
                // No file system returns that, so it differs from any result of the model.
                return Err(errno::TWICE);
            }
            if left > 0 {
                return Ok(all);
            }
        }
    }
    fn getxattr(&mut self, node: Node, name: &[u8]) -> Res<Vec<u8>> {
        done(self.volume.getxattr(Ino(node), name))
    }
    fn setxattr(&mut self, node: Node, name: &[u8], value: &[u8], mode: XattrMode) -> Res<()> {
        done(self.volume.setxattr(Ino(node), name, value, mode))?;
        self.changed(node);
        Ok(())
    }
    fn removexattr(&mut self, node: Node, name: &[u8]) -> Res<()> {
        done(self.volume.removexattr(Ino(node), name))?;
        self.changed(node);
        Ok(())
    }
    fn listxattr(&mut self, node: Node) -> Res<BTreeSet<Vec<u8>>> {
        let list = done(self.volume.listxattr(Ino(node)))?;
        Ok(list.split(|&b| b == 0).filter(|n| !n.is_empty()).map(<[u8]>::to_vec).collect())
    }
    fn read(&mut self, node: Node, offset: u64, len: usize) -> Res<Vec<u8>> {
        if let Some(pages) = &self.pages {
            return pages.read(&self.volume, node, offset, len);
        }
        let mut data = vec![0xEE; len];
        let n = done(self.volume.read(Ino(node), offset, &mut data))?;
        data.truncate(n);
        Ok(data)
    }
    fn write(&mut self, node: Node, offset: u64, data: &[u8]) -> Res<usize> {
        match &self.pages {
            Some(pages) => pages.write(&self.volume, node, offset, data, self.clock.now()),
            None => done(self.volume.write(Ino(node), offset, data)),
        }
    }
    fn fallocate(&mut self, node: Node, mode: FallocMode, offset: u64, len: u64) -> Res<()> {
        let behind_end = self.getattr(node).is_ok_and(|attr| offset >= attr.size);
        let call = || self.volume.fallocate(Ino(node), mode, offset, len);
        match self.pages_of(node) {
            // The kernel would set the times here too, unlike F2FS, whose behaviour the model has.
            Some(_) if mode == FallocMode::PunchHole && behind_end => done(call()),
            Some(pages) => pages.serve(&self.volume, node, self.clock.now(), || call().map(|()| 1)).map(drop),
            None => done(call()),
        }
    }
    fn seek(&mut self, node: Node, what: Seek, offset: u64) -> Res<u64> {
        // A server would call everything data; tests skip holes by this call.
        self.send(node)?;
        done(match what {
            Seek::Data => self.volume.seek_data(Ino(node), offset),
            Seek::Hole => self.volume.seek_hole(Ino(node), offset),
        })
    }
    fn copy_range(&mut self, from: (Node, u64), to: (Node, u64), len: u64) -> Res<u64> {
        let call = || self.volume.copy_range(Ino(from.0), from.1, Ino(to.0), to.1, len);
        self.send(from.0)?;
        match self.pages_of(to.0) {
            Some(pages) => pages.serve(&self.volume, to.0, self.clock.now(), call),
            None => done(call()),
        }
    }
    fn fsync(&mut self, node: Node, _datasync: bool) -> Res<()> {
        self.send(node)?;
        done(self.volume.fsync(Ino(node)))
    }
    fn sync(&mut self) -> Res<()> {
        self.send_all()?;
        done(self.volume.sync())
    }
    fn remount(&mut self) -> Res<()> {
        self.send_all()?;
        done(self.volume.unmount())?;
        let clock: Arc<dyn Clock> = self.clock.clone();
        self.volume = done(lab::mount(self.device.clone(), self.options.clone(), clock))?;
        self.pages.iter().for_each(|_| self.volume.set_cached_writes());
        Ok(())
    }
    fn clean(&mut self) -> Res<()> {
        done(Probe(&self.volume).clean_once().and_then(|_| Probe(&self.volume).checkpoint()))
    }
}
