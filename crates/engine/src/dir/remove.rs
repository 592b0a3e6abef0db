//! Removing a name, or pointing it at another inode.
use super::chunk::Home;
use super::find::Found;
use super::name::DirName;
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::volume::Volume;
use segno_format::Ino;
use segno_format::dentry::{FileType, slots_for};
use std::sync::Arc;

impl Volume {
    /// Removes an entry that a search found. A block left without names is punched out.
    pub(crate) fn dir_remove_found(&self, op: &Op<'_>, dir: &Arc<Inode>, found: &Found) -> Result<()> {
        if let Home::Block(fblk) = found.home
            && fblk > 0
            && self.is_alone(dir, fblk, found)?
        {
            return self.free_block(op, dir, fblk);
        }
        self.change_chunk(op, dir, found.home, |shape, area| shape.remove(area, found.slot, found.name_len))
    }

    /// Whether the entry is the only one of its block.
    fn is_alone(&self, dir: &Arc<Inode>, fblk: u64, found: &Found) -> Result<bool> {
        let Some(chunk) = self.block_chunk(dir, fblk)? else { return Ok(false) };
        let own = found.slot..found.slot + slots_for(found.name_len);
        Ok((0..chunk.shape.slots).all(|i| own.contains(&i) || !chunk.shape.in_use(chunk.area(), i)))
    }

    /// Points an entry that a search found at another inode.
    pub(crate) fn dir_retarget_found(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        found: &Found,
        ino: Ino,
        kind: FileType,
    ) -> Result<()> {
        self.change_chunk(op, dir, found.home, |shape, area| shape.set_target(area, found.slot, ino, kind))
    }

    /// Points `..` at a new parent.
    pub(crate) fn dir_set_parent(&self, op: &Op<'_>, dir: &Arc<Inode>, parent: Ino) -> Result<()> {
        let dotdot = self.dir_find(dir, &DirName::plain(b".."))?.ok_or(Error::NotFound)?;
        self.dir_retarget_found(op, dir, &dotdot, parent, FileType::Directory)
    }
}
