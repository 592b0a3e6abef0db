//! Attributes: lookup, stat(2), chmod(2), chown(2), utimensat(2), truncate(2).
use super::perm::{check_mutable, check_not_immutable};
use crate::error::{Error, Result};
use crate::files::{Inode, sanity};
use crate::names::Names;
use crate::times::time;
use crate::transaction::store_attr;
use crate::types::{Attr, SetAttr, Time};
use segno_format::dentry::FileType;
use segno_format::inode::{Inline, RawInode};
use segno_format::{Features, Ino, rdev};
use segno_journal::record;
use std::sync::Arc;

const S_IFMT: u16 = 0o170_000;
const S_ISUID: u16 = 0o4000;
const S_ISGID: u16 = 0o2000;
const S_IXGRP: u16 = 0o010;

impl Names {
    /// Looks up a name.
    pub fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let dir = self.files.inode(dir)?;
        if !dir.is_dir() {
            return Err(Error::NotDir);
        }
        let name = self.dirs.name(&dir, name)?;
        let _lock = dir.lock.read();
        self.check_dir_alive(&dir)?;
        let found = self.dirs.find(&dir, &name)?.ok_or(Error::NotFound)?;
        self.attr_of_any(found.ino, || self.named_inode(&dir, found.ino))
    }

    /// Attributes of an inode.
    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.attr_of_any(ino, || self.files.inode(ino))
    }

    /// Attributes of an inode named by a file handle. The number is untrusted: it may be free, a node that is no
    /// inode, out of range, or a hidden system file. All of these are [`Error::NotFound`], not damage.
    pub fn find(&self, ino: Ino) -> Result<Attr> {
        if self.nodes.quota.owns(ino) || !self.nodes.exists(ino)? {
            return Err(Error::NotFound);
        }
        let attr = self.getattr(ino)?;
        if attr.nlink == 0 { Err(Error::NotFound) } else { Ok(attr) }
    }

    /// Attributes read from the node block, without loading the inode if possible.
    fn attr_of_any(&self, ino: Ino, load: impl FnOnce() -> Result<Arc<Inode>>) -> Result<Attr> {
        let seen = match self.files.inodes.cached(ino).filter(|i| !i.is_gone()) {
            Some(inode) => Some(self.attr_of(&inode)?),
            None => self.nodes.cache.peek_inode(ino, |i| self.attr_of_block(ino, i)),
        };
        // Without links the inode may be deleted or damaged.
        seen.filter(|attr| attr.nlink > 0).map_or_else(|| self.attr_of(&*load()?), Ok)
    }

    /// `None` if the inode must be loaded: its block needs closer checks, or it is a directory, whose names are read
    /// next.
    fn attr_of_block(&self, ino: Ino, i: &RawInode) -> Option<Attr> {
        if i.is_dir() || sanity(i, self.base.features).is_err() {
            return None;
        }
        attr(ino, i, i.i_size.get(), self.base.features).ok()
    }

    pub(super) fn attr_of(&self, inode: &Inode) -> Result<Attr> {
        // Before the number of blocks is read, which changes while the pages are still there.
        let unsettled = inode.get(|i| i.is_reg() && i.is_compressed()) && inode.pages.lock().has_any();
        let attr = inode.get(|i| attr(inode.ino, i, inode.size_with(i), self.base.features))?;
        Ok(Attr { unsettled, ..attr })
    }

    /// Changes attributes, all or none.
    pub fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let inode = self.files.inode(ino)?;
        let _lock = inode.lock.write();
        if inode.is_gone() {
            return Err(Error::NotFound);
        }
        check_settable(&inode, set)?;
        let mode = new_mode(&inode, set);
        let attrs = match mode {
            Some(mode) if self.base.opts.acl && set.mode.is_some() => {
                self.xattrs.after_chmod(&inode, mode)?
            }
            _ => None,
        };
        let now = if inode.get(RawInode::is_reg) { self.base.content_time() } else { Some(self.base.now()) };
        let _excluded = set.size.and_then(|_| inode.exclude_flush());
        let op = self.base.tx.begin();
        if let Some(size) = set.size {
            self.files.set_size(&op, &inode, size)?;
        }
        if let Some(attrs) = attrs {
            self.xattrs.store(&op, &inode, &attrs)?;
        }
        self.nodes.cache.modify_inode(&op, &inode.frame, |i| store_attr(i, &changed(set, mode, now)));
        self.attr_of(&inode)
    }
}

/// Checks whether flags or kind of the inode forbid the request.
fn check_settable(inode: &Arc<Inode>, set: &SetAttr) -> Result<()> {
    let is_time = |t: &Time| t.nsec < 1_000_000_000;
    if ![set.atime, set.mtime, set.ctime].iter().flatten().all(is_time) {
        return Err(Error::Invalid("a time has less than a second of nanoseconds"));
    }
    let owner = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
    // A request with both mtime and ctime stores the time of writes made while the inode could still be
    // changed.
    let times = set.atime.is_some() || (set.mtime.is_some() && set.ctime.is_none());
    if owner || set.size.is_some() || (times && !set.touch) {
        check_mutable(inode)?;
    } else if times || set.kill_suidgid {
        check_not_immutable(inode)?;
    }
    if set.size.is_none() || inode.get(RawInode::is_reg) {
        return Ok(());
    }
    Err(if inode.is_dir() { Error::IsDir } else { Error::Invalid("only regular files have a size to set") })
}

/// The new mode, if the request changes it.
fn new_mode(inode: &Inode, set: &SetAttr) -> Option<u16> {
    let old = inode.get(|i| i.i_mode.get());
    let mut mode = set.mode.map_or(old, |m| old & S_IFMT | m & !S_IFMT);
    if set.kill_suidgid && old & S_IFMT != 0o040_000 {
        mode &= !S_ISUID;
        // Without group execution, members of the group keep it, as in Linux.
        if mode & S_IXGRP != 0 || set.kill_sgid {
            mode &= !S_ISGID;
        }
    }
    (mode != old || set.mode.is_some()).then_some(mode)
}

/// The attributes that change in the inode block, except the size.
fn changed(set: &SetAttr, mode: Option<u16>, now: Option<Time>) -> record::Attr {
    record::Attr {
        mode,
        uid: set.uid,
        gid: set.gid,
        atime: set.atime,
        mtime: set.mtime.or(now.filter(|_| set.size.is_some())),
        ctime: set.ctime.or(now),
        ..record::Attr::default()
    }
}

/// `st_blocks`: excludes the inode's own block, includes inline data.
fn attr(ino: Ino, i: &RawInode, size: u64, features: Features) -> Result<Attr> {
    let kind = FileType::of_mode(i.i_mode.get());
    let is_device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
    Ok(Attr {
        ino,
        generation: i.i_generation.get(),
        kind,
        mode: i.i_mode.get(),
        nlink: i.i_links.get(),
        uid: i.i_uid.get(),
        gid: i.i_gid.get(),
        rdev: if is_device { device(i, features)? } else { (0, 0) },
        size,
        blocks: sectors(i),
        unsettled: false,
        atime: time(i.i_atime, i.i_atime_nsec),
        mtime: time(i.i_mtime, i.i_mtime_nsec),
        ctime: time(i.i_ctime, i.i_ctime_nsec),
        crtime: crtime(i, features),
        flags: i.flags(),
        projid: i.projid(),
    })
}

fn sectors(i: &RawInode) -> u64 {
    let inline = i.inline();
    let counts = inline.contains(Inline::DENTRY) || (i.is_reg() && inline.contains(Inline::DATA));
    let inline = if counts { i.i_size.get().div_ceil(512) } else { 0 };
    i.i_blocks.get().saturating_sub(1).saturating_mul(8).saturating_add(inline)
}

fn device(i: &RawInode, features: Features) -> Result<(u32, u32)> {
    let layout = i.layout(features)?;
    Ok(rdev::decode(i.slot(&layout, 0).0, i.slot(&layout, 1).0))
}

fn crtime(i: &RawInode, features: Features) -> Option<Time> {
    let there = features.contains(Features::INODE_CRTIME) && i.has_extra(24);
    let extra = i.extra();
    there.then(|| time(extra.i_crtime, extra.i_crtime_nsec))
}
