//! Adding a name.
use super::chunk::Home;
use super::find::{Probe, Room};
use super::name::{DirName, special_hash};
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::journal::Target;
use crate::volume::Volume;
use segno_format::dentry::FileType;
use segno_format::inode::RawInode;
use segno_format::{BLOCK_SIZE, Ino};
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

impl Volume {
    /// Adds a name where a search found room. Either the name is there afterwards or nothing can be seen of the attempt.
    pub(crate) fn dir_insert_at(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        name: &DirName<'_>,
        room: Room,
        ino: Ino,
        kind: FileType,
    ) -> Result<()> {
        self.place_name(op, dir, name, room, ino, kind)?;
        let target = Target { ino, file_type: kind as u8 };
        self.notes.name(op, dir.ino, (name.raw(), special_hash(dir, name.hash)), None, Some(target));
        Ok(())
    }

    /// The same for a name that the directory has already, elsewhere.
    pub(super) fn place_name(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        name: &DirName<'_>,
        room: Room,
        ino: Ino,
        kind: FileType,
    ) -> Result<()> {
        let (home, slot, depth) = match room {
            Room::Gap { home, slot, depth } => (home, slot, depth),
            Room::None => return Err(Error::NoSpace),
            Room::Convert => {
                self.convert_dir(op, dir)?;
                let Probe::Missing(room) = self.dir_probe(dir, name)? else { return Err(Error::Exists) };
                return self.place_name(op, dir, name, room, ino, kind);
            }
        };
        self.change_chunk(op, dir, home, |shape, area| {
            shape.insert(area, slot, name.hash, ino, name.raw(), kind);
        })?;
        if let Home::Block(fblk) = home {
            self.cover_block(op, dir, fblk, depth);
        }
        Ok(())
    }

    /// Lets size and depth cover a block that is in use now.
    fn cover_block(&self, op: &Op<'_>, dir: &Inode, fblk: u64, depth: u32) {
        let size = (fblk + 1) * BLOCK_SIZE as u64;
        if dir.get(|i| i.i_size.get() >= size && i.i_current_depth.get() == depth) {
            return;
        }
        self.nodes.modify(op, &dir.frame, |block| {
            let i: &mut RawInode = block.view_mut();
            i.i_size = U64::new(i.i_size.get().max(size));
            i.i_current_depth = U32::new(depth);
        });
    }
}
