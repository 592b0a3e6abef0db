//! Restrictions by inode flags and state. Permission bits are checked by the front end.
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::names::Names;
use segno_format::inode::{Advise, InodeFlags, RawInode};
use segno_format::{Corrupt, Ino, Structure, Unit};
use std::sync::Arc;

const IMMUTABLE: Error = Error::NotPermitted("the inode is immutable");
const APPEND: Error = Error::NotPermitted("the inode is append-only");

/// Checks that the inode's metadata may change.
pub(super) fn check_mutable(inode: &Inode) -> Result<()> {
    let flags = inode.get(|i| i.flags());
    if flags.contains(InodeFlags::IMMUTABLE) {
        return Err(IMMUTABLE);
    }
    if flags.contains(InodeFlags::APPEND) { Err(APPEND) } else { Ok(()) }
}

/// Checks that the inode may change at all.
pub(super) fn check_not_immutable(inode: &Inode) -> Result<()> {
    if inode.get(|i| i.flags().contains(InodeFlags::IMMUTABLE)) { Err(IMMUTABLE) } else { Ok(()) }
}

/// Refuses to add names to an encrypted directory.
pub(super) fn check_key(dir: &Inode) -> Result<()> {
    if dir.get(|i| i.advise().contains(Advise::ENCRYPT)) {
        return Err(Error::NotPermitted("the directory is encrypted and there is no key"));
    }
    Ok(())
}

/// Checks that a child's name may be removed or replaced.
pub(super) fn check_may_remove(dir: &Inode, child: &Inode) -> Result<()> {
    check_mutable(dir)?;
    check_mutable(child)
}

/// Refuses to move an inode into a directory of another project, if the directory passes its project on.
pub(super) fn check_same_project(dir: &Inode, child: &Inode) -> Result<()> {
    let inherit = dir.get(|i| i.flags().contains(InodeFlags::PROJINHERIT));
    if inherit && dir.get(RawInode::projid) != child.get(RawInode::projid) {
        return Err(Error::CrossDevice);
    }
    Ok(())
}

impl Names {
    /// Checks that the inode is a directory and not removed.
    pub(super) fn check_dir_alive(&self, dir: &Inode) -> Result<()> {
        if !dir.is_dir() {
            return Err(Error::NotDir);
        }
        if dir.is_gone() || dir.get(|i| i.i_links.get()) == 0 {
            return Err(Error::NotFound);
        }
        Ok(())
    }

    /// The inode of a directory entry. The caller holds the directory's lock.
    pub(super) fn named_inode(&self, dir: &Inode, ino: Ino) -> Result<Arc<Inode>> {
        let dangling = |why| {
            let c = Corrupt::nid(Structure::DentryBlock, dir.ino.0, why, ino.0.into(), 0);
            Error::from(Corrupt { unit: Unit::Inode, ..c })
        };
        let inode = match self.files.inode(ino) {
            Err(Error::NotFound) => return Err(dangling("an entry names an inode that does not exist")),
            other => other?,
        };
        if inode.get(|i| i.i_links.get()) == 0 {
            return Err(dangling("an entry names an inode without links"));
        }
        Ok(inode)
    }
}
