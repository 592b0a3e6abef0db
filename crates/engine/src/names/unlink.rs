//! unlink(2) and rmdir(2).
use super::perm::check_may_remove;
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::names::dir::{DirName, Found};
use crate::names::{Names, Renamed};
use crate::nodes::Change;
use crate::times::set_ctime;
use crate::transaction::Op;
use crate::types::Time;
use segno_format::Ino;
use std::sync::Arc;
use zerocopy::little_endian::U32;

impl Names {
    /// Removes a name of an inode that is not a directory.
    pub fn unlink(&self, dir: Ino, name: &[u8]) -> Result<Renamed> {
        self.remove(dir, name, false)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<Renamed> {
        match name {
            b"." => Err(Error::Invalid("a directory cannot be removed by the name '.'")),
            b".." => Err(Error::NotEmpty),
            _ => self.remove(dir, name, true),
        }
    }

    fn remove(&self, dir: Ino, name: &[u8], is_dir: bool) -> Result<Renamed> {
        let dir = self.files.inode(dir)?;
        if !dir.is_dir() {
            return Err(Error::NotDir);
        }
        let name = self.dirs.name(&dir, name)?;
        let child = self.with_child(&dir, &name, |child, found| {
            // Checked before kind and content of the child, as in Linux.
            check_may_remove(&dir, child)?;
            match (child.is_dir(), is_dir) {
                (true, false) => return Err(Error::IsDir),
                (false, true) => return Err(Error::NotDir),
                _ => {}
            }
            if is_dir && !self.dirs.is_empty(child)? {
                return Err(Error::NotEmpty);
            }
            let op = self.base.tx.begin();
            self.remove_entry(&op, &dir, &name, child, found)?;
            Ok(child.clone())
        })?;
        Ok(Renamed::one(dir, Some(child)))
    }

    /// Removes a name and its link.
    pub fn remove_entry(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        name: &DirName<'_>,
        child: &Arc<Inode>,
        found: &Found,
    ) -> Result<()> {
        let last = loses_last_name(child);
        self.unname(child, || self.dirs.remove(op, dir, found))?;
        let now = self.base.now();
        self.drop_link(op, child, now);
        self.settle_parent(op, dir, -i64::from(child.is_dir()), now);
        self.nodes.since.add(dir.ino, Change::Directory);
        if !last || child.is_dir() {
            self.nodes.since.name_vacated(dir.ino, name.hash());
        }
        Ok(())
    }

    /// Takes a name from an inode, which is an orphan before it loses the last one.
    pub(super) fn unname(&self, inode: &Inode, change: impl FnOnce() -> Result<()>) -> Result<()> {
        if !loses_last_name(inode) {
            return change();
        }
        self.reserve_orphan(inode.ino)?;
        change().inspect_err(|_| self.nodes.since.remove_orphan(inode.ino))
    }

    /// Drops a link. A directory has only one name, so it loses all links.
    pub(super) fn drop_link(&self, op: &Op<'_>, inode: &Inode, now: Time) {
        self.nodes.cache.modify_inode(op, &inode.frame, |i| {
            let links = if i.is_dir() { 0 } else { i.i_links.get().saturating_sub(1) };
            i.i_links = U32::new(links);
            set_ctime(i, now);
        });
        self.nodes.since.add(inode.ino, Change::Unlinked);
    }

    /// Frees an inode without names, unless it is open. The caller holds no lock.
    pub fn free_if_unnamed(&self, inode: &Arc<Inode>) -> Result<()> {
        if inode.get(|i| i.i_links.get()) == 0 { self.free_inode(inode) } else { Ok(()) }
    }
}

/// Whether removing one more name leaves the inode without any.
fn loses_last_name(inode: &Inode) -> bool {
    inode.is_dir() || inode.get(|i| i.i_links.get()) <= 1
}
