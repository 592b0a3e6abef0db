//! mknod(2), mkdir(2), symlink(2), and files without a name (`O_TMPFILE`).
use super::new::{Content, Plan};
use super::perm::{check_key, check_not_immutable};
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::names::dir::{DirName, Probe, Room};
use crate::names::{Names, Renamed};
use crate::sync::atomic::Ordering;
use crate::transaction::Op;
use crate::types::{Attr, Owner};
use segno_format::Ino;
use segno_format::dentry::FileType;
use std::sync::Arc;

const S_IFMT: u16 = 0o170_000;
const S_IFREG: u16 = 0o100_000;
const S_IFDIR: u16 = 0o040_000;
const S_IFLNK: u16 = 0o120_000;
/// Longest target of a symbolic link.
const TARGET_MAX: usize = 4095;

/// A request to create an inode.
struct Request<'a> {
    dir: Ino,
    name: &'a [u8],
    mode: u16,
    content: Content<'a>,
    owner: Owner,
    /// The new inode starts with one open handle.
    opened: bool,
}

impl Names {
    /// Creates a regular file, device, FIFO or socket, by the format bits of `mode`; none mean a regular file.
    pub fn mknod(
        &self,
        dir: Ino,
        name: &[u8],
        mode: u16,
        rdev: (u32, u32),
        owner: Owner,
    ) -> Result<(Attr, Renamed)> {
        let mode = if mode & S_IFMT == 0 { mode | S_IFREG } else { mode };
        let content = match FileType::of_mode(mode) {
            FileType::Regular | FileType::Fifo | FileType::Socket => Content::Empty,
            FileType::CharDevice | FileType::BlockDevice => Content::Device(rdev.0, rdev.1),
            FileType::Directory => return Err(Error::NotPermitted("directories are made by mkdir")),
            FileType::Symlink | FileType::Unknown => return Err(Error::Invalid("file type of mknod")),
        };
        self.make(Request { dir, name, mode, content, owner, opened: false })
    }

    /// Creates a regular file and opens it, atomically.
    pub fn create(&self, dir: Ino, name: &[u8], mode: u16, owner: Owner) -> Result<(Attr, Renamed)> {
        let mode = mode & !S_IFMT | S_IFREG;
        self.make(Request { dir, name, mode, content: Content::Empty, owner, opened: true })
    }

    /// Creates a directory.
    pub fn mkdir(&self, dir: Ino, name: &[u8], mode: u16, owner: Owner) -> Result<(Attr, Renamed)> {
        let mode = mode & !S_IFMT | S_IFDIR;
        self.make(Request { dir, name, mode, content: Content::Directory, owner, opened: false })
    }

    /// Creates a symbolic link.
    pub fn symlink(&self, dir: Ino, name: &[u8], target: &[u8], owner: Owner) -> Result<(Attr, Renamed)> {
        if target.is_empty() {
            return Err(Error::NotFound);
        }
        if target.len() > TARGET_MAX {
            return Err(Error::NameTooLong);
        }
        let mode = S_IFLNK | 0o777;
        self.make(Request { dir, name, mode, content: Content::Target(target), owner, opened: false })
    }

    fn make(&self, request: Request<'_>) -> Result<(Attr, Renamed)> {
        let dir = self.files.inode(request.dir)?;
        let inode = self.make_named(&dir, &request)?;
        let attr = self.attr_of(&inode);
        if inode.pages.lock().dirty() > 0 && !inode.is_dir() {
            // A long target is flushed at once, so that no checkpoint has the link without it.
            self.writeback
                .flush_inode(&inode, 0..1)
                .or_else(|e| self.take_back(&request, &inode).and(Err(e)))?;
        }
        Ok((attr?, Renamed::one(dir, None)))
    }

    /// Removes the name of an inode whose creation failed.
    fn take_back(&self, request: &Request<'_>, inode: &Inode) -> Result<()> {
        match self.lookup(request.dir, request.name) {
            Ok(found) if found.ino == inode.ino => {
                let removed = self.unlink(request.dir, request.name)?;
                removed.unnamed.map_or(Ok(()), |child| self.free_if_unnamed(&child))
            }
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn make_named(&self, dir: &Arc<Inode>, request: &Request<'_>) -> Result<Arc<Inode>> {
        let _lock = dir.lock.write();
        let (name, room) = self.room_for_name(dir, request.name)?;
        let plan = self.plan_inode(dir, request.name, request.mode, request.content, request.owner)?;
        let is_dir = plan.kind() == FileType::Directory;
        if is_dir && dir.get(|i| i.i_links.get()) == u32::MAX {
            return Err(Error::TooManyLinks);
        }
        let op = self.base.tx.begin();
        let inode = self.make_in(&op, dir, &name, room, &plan)?;
        inode.opens.store(u32::from(request.opened), Ordering::Release);
        self.settle_parent(&op, dir, i64::from(is_dir), self.base.now());
        Ok(inode)
    }

    /// Finds room for a new name in a directory whose lock is held exclusively.
    pub(super) fn room_for_name<'a>(&self, dir: &Arc<Inode>, name: &'a [u8]) -> Result<(DirName<'a>, Room)> {
        self.check_dir_alive(dir)?;
        check_key(dir)?;
        let name = self.dirs.name(dir, name)?;
        let Probe::Missing(room) = self.dirs.probe(dir, &name)? else { return Err(Error::Exists) };
        check_not_immutable(dir)?;
        Ok((name, room))
    }

    /// Creates an inode and its name; leaves neither on failure.
    fn make_in(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        name: &DirName<'_>,
        room: Room,
        plan: &Plan<'_>,
    ) -> Result<Arc<Inode>> {
        let inode = self.make_inode(op, plan)?;
        let inserted = self.dirs.insert_at(op, dir, name, room, inode.ino, plan.kind());
        self.or_discard(op, &inode, inserted).map(|()| inode)
    }

    /// Creates a regular file without a name. It starts with one open handle and is freed with the last one unless
    /// linked.
    pub fn tmpfile(&self, dir: Ino, mode: u16, owner: Owner) -> Result<Attr> {
        let dir = self.files.inode(dir)?;
        let _lock = dir.lock.read();
        self.check_dir_alive(&dir)?;
        check_key(&dir)?;
        check_not_immutable(&dir)?;
        let mode = mode & !S_IFMT | S_IFREG;
        let mut plan = self.plan_inode(&dir, b"", mode, Content::Empty, owner)?;
        plan.links = 0;
        let op = self.base.tx.begin();
        let inode = self.make_inode(&op, &plan)?;
        self.or_discard(&op, &inode, self.reserve_orphan(inode.ino))?;
        inode.opens.store(1, Ordering::Release);
        self.attr_of(&inode)
    }
}
