//! Replay of directory entries.
use super::misfit;
use crate::error::Result;
use crate::files::Inode;
use crate::names::dir::{DirName, Found, Probe};
use crate::recovery::Recovery;
use crate::transaction::Op;
use segno_format::Ino;
use segno_format::dentry::FileType;
use std::sync::Arc;

/// A name as stored, and its hash unless it follows from the name.
type Logged<'a> = (&'a [u8], Option<u32>);

fn name((bytes, hash): Logged<'_>) -> DirName<'_> {
    DirName::encrypted(bytes, hash)
}

fn kind(ino: Ino, file_type: u8) -> Result<FileType> {
    FileType::from_disk(file_type).ok_or_else(|| misfit(ino, "file type of an entry", file_type.into()))
}

impl Recovery<'_> {
    pub(super) fn replay_name_added(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        logged: Logged<'_>,
        (ino, file_type): (Ino, u8),
    ) -> Result<()> {
        let name = name(logged);
        let Probe::Missing(room) = self.dir_probe_in(dir, &name)? else {
            return Err(misfit(dir.ino, "a new name exists already", ino.0.into()));
        };
        self.names.dirs.insert_at(op, dir, &name, room, ino, kind(ino, file_type)?)?;
        self.place_logged(op, dir, ino, logged.0)
    }

    pub(super) fn replay_name_set(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        logged: Logged<'_>,
        old: Ino,
        (new, file_type): (Ino, u8),
    ) -> Result<()> {
        let found = self.logged_entry(dir, logged, old)?;
        self.names.dirs.retarget(op, dir, &found, new, kind(new, file_type)?)?;
        self.place_logged(op, dir, new, logged.0)
    }

    fn dir_probe_in(&self, dir: &Arc<Inode>, name: &DirName<'_>) -> Result<Probe> {
        if !dir.is_dir() {
            return Err(misfit(dir.ino, "a name in an inode that is no directory", 0));
        }
        self.names.dirs.probe(dir, name)
    }

    pub(super) fn logged_entry(&self, dir: &Arc<Inode>, logged: Logged<'_>, ino: Ino) -> Result<Found> {
        match self.dir_probe_in(dir, &name(logged))? {
            Probe::Found(found) if found.ino == ino => Ok(found),
            Probe::Found(found) => Err(misfit(dir.ino, "a name leads to another inode", found.ino.0.into())),
            Probe::Missing(_) => Err(misfit(dir.ino, "a removed name does not exist", ino.0.into())),
        }
    }

    /// Stores the inode's parent and name.
    fn place_logged(&self, op: &Op<'_>, dir: &Inode, ino: Ino, name: &[u8]) -> Result<()> {
        let inode = self.files.inode(ino)?;
        self.files.nodes.cache.modify_inode(op, &inode.frame, |i| i.set_name(dir.ino, name));
        Ok(())
    }
}
