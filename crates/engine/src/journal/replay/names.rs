//! Names in directories.
use super::misfit;
use crate::dir::{DirName, Found, Probe};
use crate::error::Result;
use crate::gate::Op;
use crate::inode::Inode;
use crate::volume::Volume;
use segno_format::Ino;
use segno_format::dentry::FileType;
use segno_format::inode::RawInode;
use std::sync::Arc;

/// A name as stored, and its hash where that does not follow.
type Logged<'a> = (&'a [u8], Option<u32>);

fn name((bytes, hash): Logged<'_>) -> DirName<'_> {
    DirName::encrypted(bytes, hash)
}

fn kind(ino: Ino, file_type: u8) -> Result<FileType> {
    FileType::from_disk(file_type).ok_or_else(|| misfit(ino, "file type of an entry", file_type.into()))
}

impl Volume {
    pub(super) fn replay_name_added(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        logged: Logged<'_>,
        (ino, file_type): (Ino, u8),
    ) -> Result<()> {
        let name = name(logged);
        let Probe::Missing(room) = self.dir_probe_in(dir, &name)? else {
            return Err(misfit(dir.ino, "a new name is there already", ino.0.into()));
        };
        self.dir_insert_at(op, dir, &name, room, ino, kind(ino, file_type)?)?;
        self.place_logged(op, dir, ino, logged.0)
    }

    pub(super) fn replay_name_gone(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        logged: Logged<'_>,
        ino: Ino,
    ) -> Result<()> {
        let found = self.logged_entry(dir, logged, ino)?;
        self.dir_remove_found(op, dir, &found)
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
        self.dir_retarget_found(op, dir, &found, new, kind(new, file_type)?)?;
        self.place_logged(op, dir, new, logged.0)
    }

    fn dir_probe_in(&self, dir: &Arc<Inode>, name: &DirName<'_>) -> Result<Probe> {
        if !dir.is_dir() {
            return Err(misfit(dir.ino, "a name in something that is no directory", 0));
        }
        self.dir_probe(dir, name)
    }

    fn logged_entry(&self, dir: &Arc<Inode>, logged: Logged<'_>, ino: Ino) -> Result<Found> {
        match self.dir_probe_in(dir, &name(logged))? {
            Probe::Found(found) if found.ino == ino => Ok(found),
            Probe::Found(found) => Err(misfit(dir.ino, "a name leads to another inode", found.ino.0.into())),
            Probe::Missing(_) => Err(misfit(dir.ino, "a name that goes is not there", ino.0.into())),
        }
    }

    /// Where the inode's name is.
    fn place_logged(&self, op: &Op<'_>, dir: &Inode, ino: Ino, name: &[u8]) -> Result<()> {
        let inode = self.inode(ino)?;
        self.nodes.modify(op, &inode.frame, |b| b.view_mut::<RawInode>().set_name(dir.ino, name));
        Ok(())
    }
}
