//! unlink(2) and rmdir(2).
use super::perm::check_may_remove;
use super::times::{set_ctime, touch};
use crate::dir::{DirName, Found};
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::planted::{Bug, planted};
use crate::types::Time;
use crate::volume::Volume;
use segno_format::Ino;
use segno_format::inode::{InodeFlags, RawInode};
use std::sync::Arc;
use zerocopy::little_endian::U32;

impl Volume {
    /// Removes a name of anything but a directory.
    pub fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()> {
        self.remove(dir, name, false)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()> {
        match name {
            b"." => Err(Error::Invalid("a directory cannot be removed by the name '.'")),
            b".." => Err(Error::NotEmpty),
            _ => self.remove(dir, name, true),
        }
    }

    fn remove(&self, dir: Ino, name: &[u8], is_dir: bool) -> Result<()> {
        self.make_room()?;
        let dir = self.inode(dir)?;
        if !dir.is_dir() {
            return Err(Error::NotDir);
        }
        let name = self.dir_name(&dir, name)?;
        let child = self.with_child(&dir, &name, |child, found| {
            // Before the kind and the content of the child, as in Linux.
            check_may_remove(&dir, child)?;
            match (child.is_dir(), is_dir) {
                (true, false) => return Err(Error::IsDir),
                (false, true) => return Err(Error::NotDir),
                _ => {}
            }
            if is_dir && !self.dir_is_empty(child)? {
                return Err(Error::NotEmpty);
            }
            let op = self.gate.enter();
            self.remove_entry(&op, &dir, &name, child, found)?;
            Ok(child.clone())
        })?;
        self.sync_dirs(&[&dir])?;
        self.free_if_unnamed(&child)
    }

    /// Removes a name and what it counts for.
    pub(crate) fn remove_entry(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        name: &DirName<'_>,
        child: &Arc<Inode>,
        found: &Found,
    ) -> Result<()> {
        let last = self.loses_last_name(child);
        if last {
            self.reserve_orphan(child.ino)?;
        }
        self.dir_remove_found(op, dir, found).inspect_err(|_| {
            if last {
                self.since.remove_orphan(child.ino);
            }
        })?;
        let now = self.now();
        self.drop_link(op, child, now);
        self.nodes.modify(op, &dir.frame, |block| {
            let i: &mut RawInode = block.view_mut();
            i.i_links = U32::new(i.i_links.get().saturating_sub(u32::from(child.is_dir())));
            touch(i, now);
        });
        self.since.dir_changed(dir.ino);
        if !last || (child.is_dir() && !planted(Bug::UnrecordedRmdir)) {
            self.since.name_vacated(dir.ino, name.hash());
        }
        Ok(())
    }

    /// Whether removing one more name leaves an inode without any.
    pub(super) fn loses_last_name(&self, inode: &Inode) -> bool {
        inode.is_dir() || inode.get(|i| i.i_links.get()) <= 1
    }

    /// Counts a name less; a directory has no other.
    pub(super) fn drop_link(&self, op: &Op<'_>, inode: &Inode, now: Time) {
        self.nodes.modify(op, &inode.frame, |block| {
            let i: &mut RawInode = block.view_mut();
            let links = if i.is_dir() { 0 } else { i.i_links.get().saturating_sub(1) };
            i.i_links = U32::new(links);
            set_ctime(i, now);
        });
        self.since.unlinked(inode.ino);
    }

    /// Frees an inode that has lost its last name, unless it is open. Nothing may be held.
    pub(super) fn free_if_unnamed(&self, inode: &Arc<Inode>) -> Result<()> {
        if inode.get(|i| i.i_links.get()) == 0 { self.free_inode(inode) } else { Ok(()) }
    }

    /// Makes a change of names durable in directories that are flagged for it. Nothing may be held.
    pub(super) fn sync_dirs(&self, dirs: &[&Arc<Inode>]) -> Result<()> {
        let flags = InodeFlags::DIRSYNC | InodeFlags::SYNC;
        if dirs.iter().any(|d| d.get(|i| i.flags().intersects(flags))) {
            self.commit()?;
        }
        Ok(())
    }
}
