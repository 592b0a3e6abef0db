//! Locking of several inodes.
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::lock::{WriteGuard, rank};
use crate::names::Names;
use crate::names::dir::{DirName, Found};
use std::sync::Arc;

pub(super) type InodeGuard<'a> = WriteGuard<'a, (), { rank::INODE }>;

/// Locks inodes exclusively in ascending order, each once.
pub(super) fn lock_all<'a>(inodes: &[&'a Arc<Inode>]) -> Vec<InodeGuard<'a>> {
    let mut inodes = inodes.to_vec();
    inodes.sort_unstable_by_key(|i| i.ino);
    inodes.dedup_by_key(|i| i.ino);
    inodes.into_iter().map(|i| i.lock.write()).collect()
}

impl Names {
    /// Looks up a name, locks directory and child, and runs `f` once the name is confirmed.
    pub(super) fn with_child<R>(
        &self,
        dir: &Arc<Inode>,
        name: &DirName<'_>,
        f: impl FnOnce(&Arc<Inode>, &Found) -> Result<R>,
    ) -> Result<R> {
        loop {
            let (found, child) = self.find_child(dir, name)?.ok_or(Error::NotFound)?;
            let _locks = lock_all(&[dir, &child]);
            if !child.is_gone() && self.dirs.still_has(dir, name, &found)? {
                self.check_dir_alive(dir)?;
                return f(&child, &found);
            }
        }
    }

    /// Looks a name up under the directory's shared lock.
    pub(super) fn find_child(
        &self,
        dir: &Arc<Inode>,
        name: &DirName<'_>,
    ) -> Result<Option<(Found, Arc<Inode>)>> {
        let _lock = dir.lock.read();
        self.check_dir_alive(dir)?;
        let Some(found) = self.dirs.find(dir, name)? else { return Ok(None) };
        // The lock keeps the name, and so the inode, alive.
        let child = self.named_inode(dir, found.ino)?;
        Ok(Some((found, child)))
    }
}
