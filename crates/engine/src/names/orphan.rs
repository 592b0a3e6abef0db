//! Inodes without a name: kept while open, then freed.
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::names::Names;
use crate::sync::atomic::Ordering;
use crate::transaction::{InodeRecords, Op};
use segno_format::inode::RawInode;
use segno_format::orphan::ORPHANS_PER_BLOCK;
use segno_format::{BLOCKS_PER_SEG, Ino};
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// Blocks freed in one gate section, so that freeing a big file does not delay a checkpoint.
const FREE_BATCH: usize = 4096;
/// Blocks of a pack that never hold orphans: its two ends and the summaries of six logs.
const PACK_FIXED_BLOCKS: u32 = 2 + 6;

impl Names {
    /// Registers an inode about to lose its last name, if the pack has room for another orphan.
    pub(super) fn reserve_orphan(&self, ino: Ino) -> Result<()> {
        let blocks = BLOCKS_PER_SEG.saturating_sub(PACK_FIXED_BLOCKS + self.base.geo.cp_payload) as usize;
        let added = self.nodes.since.try_add_orphan(ino, blocks * ORPHANS_PER_BLOCK);
        if added { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Frees an inode without name, handle or reference. The caller holds no lock.
    pub fn free_inode(&self, inode: &Arc<Inode>) -> Result<()> {
        self.free_unnamed(inode, false)
    }

    /// Frees every orphan, open or not: at unmount all handles are closed, and at mount the handles of the
    /// crashed mount are void. A damaged orphan stays listed for repair.
    pub fn free_orphans(&self) -> Result<()> {
        for ino in self.nodes.since.orphans() {
            match self.free_orphan(ino) {
                Err(Error::NotFound) => self.nodes.since.remove_orphan(ino),
                Ok(()) | Err(Error::Corrupt(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Frees an inode regardless of its link count.
    pub fn free_orphan(&self, ino: Ino) -> Result<()> {
        let inode = self.files.inode(ino)?;
        self.clear_links(&inode);
        self.free_unnamed(&inode, true)
    }

    /// Clears the link count of an orphan, which may be wrong on the device.
    fn clear_links(&self, inode: &Inode) {
        let _lock = inode.lock.write();
        if inode.get(|i| i.i_links.get()) != 0 {
            let op = self.base.tx.begin();
            self.nodes.cache.modify_inode(&op, &inode.frame, |i| i.i_links = U32::new(0));
        }
    }

    fn free_unnamed(&self, inode: &Arc<Inode>, open_too: bool) -> Result<()> {
        let _lock = inode.lock.write();
        let in_use = !open_too && (inode.opens.load(Ordering::Acquire) > 0 || self.references.has(inode.ino));
        if in_use || inode.is_gone() || inode.get(|i| i.i_links.get()) > 0 {
            return Ok(());
        }
        loop {
            let op = self.base.tx.begin();
            if self.free_content(&op, inode, FREE_BATCH)? {
                self.free_nodes(&op, inode)?;
                self.nodes.since.remove_orphan(inode.ino);
                return Ok(());
            }
            // The orphan list keeps a partly freed inode across a power cut.
        }
    }

    /// Reverts the creation of an inode without a name.
    pub(super) fn discard_inode(&self, op: &Op<'_>, inode: &Arc<Inode>) -> Result<()> {
        while !self.free_content(op, inode, usize::MAX)? {}
        self.free_nodes(op, inode)
    }

    /// Discards a new inode if what makes it complete failed.
    pub(super) fn or_discard(&self, op: &Op<'_>, inode: &Arc<Inode>, done: Result<()>) -> Result<()> {
        done.or_else(|e| self.discard_inode(op, inode).and(Err(e)))
    }

    /// Frees blocks and index nodes; returns true when none is left.
    fn free_content(&self, op: &Op<'_>, inode: &Arc<Inode>, budget: usize) -> Result<bool> {
        let has_index = inode.get(RawInode::has_index);
        if has_index { self.files.truncate_blocks(op, inode, 0, budget) } else { Ok(true) }
    }

    fn free_nodes(&self, op: &Op<'_>, inode: &Arc<Inode>) -> Result<()> {
        self.xattrs.free_node(op, inode)?;
        inode.gone.store(true, Ordering::Release);
        inode.forget_growth();
        self.writeback.forget(inode);
        op.record(inode.ino, InodeRecords::freed);
        self.nodes.free_node(op, inode.frame.nid, inode.ino)?;
        self.files.inodes.remove(inode.ino);
        Ok(())
    }
}
