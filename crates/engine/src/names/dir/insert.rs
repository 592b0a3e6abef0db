//! Insertion of a name.
use super::Dirs;
use super::chunk::Location;
use super::find::{Probe, Room};
use super::name::{DirName, special_hash};
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::transaction::{Op, Target};
use segno_format::dentry::FileType;
use segno_format::{BLOCK_SIZE, Ino};
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

impl Dirs {
    /// Inserts a name where a search found room. On failure the directory is unchanged.
    pub fn insert_at(
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
        op.name_changed(dir.ino, (name.raw(), special_hash(dir, name.hash)), None, Some(target));
        Ok(())
    }

    /// Places a name that the directory already has elsewhere.
    pub(super) fn place_name(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        name: &DirName<'_>,
        room: Room,
        ino: Ino,
        kind: FileType,
    ) -> Result<()> {
        let (location, slot, depth) = match room {
            Room::Gap { location, slot, depth } => (location, slot, depth),
            Room::None => return Err(Error::NoSpace),
            Room::Convert => {
                self.convert(op, dir)?;
                let Probe::Missing(room) = self.probe(dir, name)? else { return Err(Error::Exists) };
                return self.place_name(op, dir, name, room, ino, kind);
            }
        };
        self.change_chunk(op, dir, location, |shape, area| {
            shape.insert(area, slot, name.hash, ino, name.raw(), kind);
        })?;
        if let Location::Block(fblk) = location {
            self.cover_block(op, dir, fblk, depth);
        }
        Ok(())
    }

    /// Extends size and depth to cover a newly used block.
    fn cover_block(&self, op: &Op<'_>, dir: &Inode, fblk: u64, depth: u32) {
        let size = (fblk + 1) * BLOCK_SIZE as u64;
        if dir.get(|i| i.i_size.get() >= size && i.i_current_depth.get() == depth) {
            return;
        }
        self.nodes.cache.modify_inode(op, &dir.frame, |i| {
            i.i_size = U64::new(i.i_size.get().max(size));
            i.i_current_depth = U32::new(depth);
        });
    }
}
