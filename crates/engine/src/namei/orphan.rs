//! Inodes without a name: kept while open, then freed.
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_format::inode::{Inline, RawInode};
use segno_format::orphan::ORPHANS_PER_BLOCK;
use segno_format::{BLOCKS_PER_SEG, Ino};
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// Blocks freed in one gate section, so that freeing a big file does not keep a checkpoint waiting.
const FREE_BATCH: usize = 4096;
/// Blocks of a pack that are never orphan blocks: its two ends, and the summaries of six logs.
const PACK_FIXED_BLOCKS: u32 = 2 + 6;

impl Volume {
    /// Registers an inode that is about to lose its last name, while there is room for it in a checkpoint.
    pub(super) fn reserve_orphan(&self, ino: Ino) -> Result<()> {
        let blocks = BLOCKS_PER_SEG.saturating_sub(PACK_FIXED_BLOCKS + self.geo.cp_payload) as usize;
        let added = self.since.try_add_orphan(ino, blocks * ORPHANS_PER_BLOCK);
        if added { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Frees an inode if it has no name, nobody has it open and nobody refers to it. No lock may be held.
    pub(crate) fn free_inode(&self, inode: &Arc<Inode>) -> Result<()> {
        self.free_unnamed(inode, false)
    }

    /// Frees every orphan, open or not: at unmount the handles are gone, and at mount those of a crashed one. A damaged
    /// orphan stays listed for a check to repair.
    pub(crate) fn free_orphans(&self) -> Result<()> {
        for ino in self.since.orphans() {
            match self.free_orphan(ino) {
                Err(Error::NotFound) => self.since.remove_orphan(ino),
                Ok(()) | Err(Error::Corrupt(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Frees an inode whatever its block says of links.
    pub(crate) fn free_orphan(&self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        self.clear_links(&inode);
        self.free_unnamed(&inode, true)
    }

    /// An orphan has no links, whatever its block says.
    fn clear_links(&self, inode: &Inode) {
        let _lock = inode.lock.write();
        if inode.get(|i| i.i_links.get()) != 0 {
            let op = self.gate.enter();
            self.nodes.modify(&op, &inode.frame, |b| b.view_mut::<RawInode>().i_links = U32::new(0));
        }
    }

    fn free_unnamed(&self, inode: &Arc<Inode>, open_too: bool) -> Result<()> {
        let _lock = inode.lock.write();
        let in_use = !open_too && (inode.opens.load(Ordering::Acquire) > 0 || self.holds.has(inode.ino));
        if in_use || inode.is_gone() || inode.get(|i| i.i_links.get()) > 0 {
            return Ok(());
        }
        // The orphan list keeps an inode that a cut finds half freed.
        while !self.free_content(&self.gate.enter(), inode, FREE_BATCH)? {}
        let op = self.gate.enter();
        self.free_nodes(&op, inode)?;
        self.since.remove_orphan(inode.ino);
        Ok(())
    }

    /// Undoes the making of an inode to which no name leads.
    pub(super) fn discard_inode(&self, op: &Op<'_>, inode: &Arc<Inode>) -> Result<()> {
        while !self.free_content(op, inode, usize::MAX)? {}
        self.free_nodes(op, inode)
    }

    /// Frees blocks and index nodes; true when none is left.
    fn free_content(&self, op: &Op<'_>, inode: &Arc<Inode>, budget: usize) -> Result<bool> {
        let in_blocks = inode.get(|i| {
            let has_slots = i.is_dir() || i.is_reg() || i.is_symlink();
            has_slots && !i.inline().intersects(Inline::DATA | Inline::DENTRY)
        });
        if in_blocks { self.truncate_blocks(op, inode, 0, budget) } else { Ok(true) }
    }

    fn free_nodes(&self, op: &Op<'_>, inode: &Inode) -> Result<()> {
        self.free_xattr_node(op, inode)?;
        inode.gone.store(true, Ordering::Release);
        inode.forget_growth();
        self.end_stream(inode);
        self.notes.inode_freed(op, inode.ino);
        self.free_node(op, inode.ino, inode.ino)?;
        self.inodes.remove(inode.ino);
        Ok(())
    }
}
