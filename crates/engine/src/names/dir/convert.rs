//! Conversion of a full inline directory to blocks. It is never reversed.
use super::Dirs;
use super::chunk::Chunk;
use super::find::Probe;
use super::name::DirName;
use crate::error::Result;
use crate::files::Inode;
use crate::transaction::Op;
use segno_format::BLOCK_SIZE;
use segno_format::dentry::{DentryShape, FileType};
use segno_format::inode::{Inline, RawInode};
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

impl Dirs {
    /// Moves the names of an inline directory to blocks; nothing changes if space runs out.
    pub(super) fn convert(&self, op: &Op<'_>, dir: &Arc<Inode>) -> Result<()> {
        let inline = self.inline_chunk(dir)?;
        if dir.get(|i| i.i_dir_level) == 0 {
            self.copy_slots(op, dir, &inline)
        } else {
            self.insert_anew(op, dir, &inline)
        }
    }

    /// With one bucket at level 0, names keep their slots, so positions of open listings stay valid.
    fn copy_slots(&self, op: &Op<'_>, dir: &Arc<Inode>, inline: &Chunk) -> Result<()> {
        let entries = inline.entries(0).collect::<Result<Vec<_>>>()?;
        // Slot 0 of the inode precedes the inline area, so the block can be reserved before the names are moved.
        self.files.modify_block(op, dir, 0, |block| {
            for e in &entries {
                let kind = FileType::from_disk(e.file_type).unwrap_or(FileType::Unknown);
                DentryShape::BLOCK.insert(&mut block.0, e.slot, e.hash, e.ino, e.name, kind);
            }
        })?;
        self.leave_inode(op, dir)
    }

    /// Clears the inline area: the directory now consists of its first block.
    fn leave_inode(&self, op: &Op<'_>, dir: &Inode) -> Result<()> {
        let layout = dir.layout(self.base.features)?;
        self.nodes.cache.modify(op, &dir.frame, |block| {
            layout.inline_mut(block).fill(0);
            let i: &mut RawInode = block.view_mut();
            i.i_inline = (i.inline() - Inline::DENTRY).bits();
            i.i_size = U64::new(BLOCK_SIZE as u64);
            i.i_current_depth = U32::new(1);
        });
        Ok(())
    }

    /// With several buckets at level 0, each name is inserted by its hash.
    fn insert_anew(&self, op: &Op<'_>, dir: &Arc<Inode>, inline: &Chunk) -> Result<()> {
        let before = dir.frame.snapshot();
        self.leave_inode(op, dir)?;
        let done = self.insert_all(op, dir, inline);
        if done.is_err() {
            self.files.truncate_blocks(op, dir, 0, usize::MAX)?;
            self.nodes.cache.modify(op, &dir.frame, |block| *block = (**before).clone());
        }
        done
    }

    fn insert_all(&self, op: &Op<'_>, dir: &Arc<Inode>, inline: &Chunk) -> Result<()> {
        for e in inline.entries(0) {
            let e = e?;
            let kind = FileType::from_disk(e.file_type).unwrap_or(FileType::Unknown);
            let name = DirName::exact(e.name, e.hash);
            if let Probe::Missing(room) = self.probe(dir, &name)? {
                self.place_name(op, dir, &name, room, e.ino, kind)?;
            }
        }
        Ok(())
    }
}
