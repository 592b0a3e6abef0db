//! Removal of a name, and changing the inode of an entry.
use super::Dirs;
use super::chunk::Location;
use super::find::Found;
use super::name::{DirName, special_hash};
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::gate::Op;
use crate::record::Target;
use segno_format::Ino;
use segno_format::dentry::{FileType, slots_for};
use std::sync::Arc;

impl Dirs {
    /// Removes an entry that a search found. Punches out a block left without names.
    pub fn remove(&self, op: &Op<'_>, dir: &Arc<Inode>, found: &Found) -> Result<()> {
        let name = self.name_to_note(op, dir, found)?;
        self.clear_found(op, dir, found)?;
        self.note_name(op, dir, name, found, None);
        Ok(())
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

    /// What the journal records of an entry that is about to change.
    fn name_to_note(&self, op: &Op<'_>, dir: &Arc<Inode>, found: &Found) -> Result<Option<(Vec<u8>, u32)>> {
        if op.journal_epoch() == 0 { Ok(None) } else { self.stored(dir, found).map(Some) }
    }

    fn note_name(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        name: Option<(Vec<u8>, u32)>,
        was: &Found,
        now: Option<Target>,
    ) {
        if let Some((name, hash)) = name {
            self.nodes.notes.name(op, dir.ino, (&name, special_hash(dir, hash)), Some(was.ino), now);
        }
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
        let name = self.name_to_note(op, dir, found)?;
        self.change_chunk(op, dir, found.location, |shape, area| {
            shape.set_target(area, found.slot, ino, kind)
        })?;
        self.note_name(op, dir, name, found, Some(Target { ino, file_type: kind as u8 }));
        Ok(())
    }

    /// Points `..` to a new parent.
    pub fn set_parent(&self, op: &Op<'_>, dir: &Arc<Inode>, parent: Ino) -> Result<()> {
        let dotdot = self.find(dir, &DirName::plain(b".."))?.ok_or(Error::NotFound)?;
        self.retarget(op, dir, &dotdot, parent, FileType::Directory)
    }
}
