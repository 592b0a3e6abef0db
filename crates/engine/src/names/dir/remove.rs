//! Removal of a name, and changing the inode of an entry.
use super::Dirs;
use super::chunk::Location;
use super::find::Found;
use super::name::{DirName, special_hash};
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::transaction::{Op, Target};
use segno_format::Ino;
use segno_format::dentry::{FileType, slots_for};
use std::sync::Arc;

impl Dirs {
    /// Removes an entry that a search found. Punches out a block left without names.
    pub fn remove(&self, op: &Op<'_>, dir: &Arc<Inode>, found: &Found) -> Result<()> {
        self.note_change(op, dir, found, None, || self.clear_found(op, dir, found))
    }

    fn clear_found(&self, op: &Op<'_>, dir: &Arc<Inode>, found: &Found) -> Result<()> {
        if let Location::Block(fblk) = found.location
            && fblk > 0
            && self.is_alone(dir, fblk, found)?
        {
            return self.files.free_range(op, dir, fblk..fblk.saturating_add(1));
        }
        self.change_chunk(op, dir, found.location, |shape, area| {
            shape.remove(area, found.slot, found.name_len)
        })
    }

    /// Changes an entry, which the journal records with the name that it had.
    fn note_change(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        found: &Found,
        now: Option<Target>,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let name = if op.is_recorded() { Some(self.stored(dir, found)?) } else { None };
        change()?;
        if let Some((name, hash)) = name {
            op.name_changed(dir.ino, (&name, special_hash(dir, hash)), Some(found.ino), now);
        }
        Ok(())
    }

    /// Whether the entry is the only one in its block.
    fn is_alone(&self, dir: &Arc<Inode>, fblk: u64, found: &Found) -> Result<bool> {
        let Some(chunk) = self.block_chunk(dir, fblk)? else { return Ok(false) };
        let own = found.slot..found.slot + slots_for(found.name_len);
        Ok(chunk.shape.is_empty_but(chunk.area(), own))
    }

    /// Points an entry that a search found to another inode.
    pub fn retarget(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        found: &Found,
        ino: Ino,
        kind: FileType,
    ) -> Result<()> {
        let now = Some(Target { ino, file_type: kind as u8 });
        self.note_change(op, dir, found, now, || {
            self.change_chunk(op, dir, found.location, |shape, area| {
                shape.set_target(area, found.slot, ino, kind)
            })
        })
    }

    /// Points `..` to a new parent.
    pub fn set_parent(&self, op: &Op<'_>, dir: &Arc<Inode>, parent: Ino) -> Result<()> {
        let dotdot = self.find(dir, &DirName::plain(b".."))?.ok_or(Error::NotFound)?;
        self.retarget(op, dir, &dotdot, parent, FileType::Directory)
    }
}
