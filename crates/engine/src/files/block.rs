//! Reading, changing and freeing single blocks of a file or directory.
use super::Files;
use super::Inode;
use crate::block::{SharedBlock, shared};
use crate::error::Result;
use crate::nodes::Place;
use crate::transaction::Op;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Structure};
use std::sync::Arc;

impl Files {
    /// The content of a block, from its page or from the device; `None` for a hole or a reserved block. Blocks of
    /// directories stay cached. The caller holds the inode's lock or has exclusive use of the inode.
    pub fn read_block(&self, inode: &Arc<Inode>, fblk: u64) -> Result<Option<SharedBlock>> {
        loop {
            if let Some(block) = inode.pages.lock().get(fblk) {
                return Ok(Some(block));
            }
            let Place::Span(span) = self.nodes.find_span(&inode.frame, fblk)? else { return Ok(None) };
            let slot = span.slot(fblk);
            let addr = self.nodes.slot_addr(&span.frame, slot)?;
            if addr == BlockAddr::NULL || addr == BlockAddr::NEW {
                // A flush that ends between the two checks has dropped the page but set the slot, so no content is
                // missed.
                return Ok(None);
            }
            let block = self.base.dev.read_main(addr);
            if self.nodes.slot_addr(&span.frame, slot)? != addr {
                continue;
            }
            self.base.health.record_damage(self.check_in_use(addr))?;
            let block = shared(self.base.health.record_damage(block)?);
            if inode.is_dir() {
                return Ok(Some(inode.pages.lock().insert_clean(fblk, block, &self.base.mem)));
            }
            return Ok(Some(block));
        }
    }

    /// Checks that a block named by the index is valid.
    fn check_in_use(&self, addr: BlockAddr) -> Result<()> {
        if self.space.is_valid(addr) {
            return Ok(());
        }
        Err(unused_block(addr).into())
    }

    /// Changes a block: reserves it if it is a hole, loads it if it is not cached, and makes it dirty. Call
    /// [`Files::read_block`] before entering the gate so that no device read happens inside.
    pub fn modify_block(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        fblk: u64,
        f: impl FnOnce(&mut Block),
    ) -> Result<()> {
        let loaded = self.read_block(inode, fblk)?;
        let (frame, slot) = self.nodes.dnode_for_write(op, &inode.frame, fblk)?;
        self.nodes.reserve_slot(op, &inode.frame, &frame, slot)?;
        let fill = || loaded.unwrap_or_else(|| shared(Block::zeroed()));
        inode.pages.lock().modify(fblk, &self.base.mem, fill, f);
        self.mark_dirty(inode);
        Ok(())
    }

    /// Replaces whole blocks: all of them, or none if space does not allow it.
    pub(super) fn replace_blocks(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        blocks: &[(u64, &[u8; BLOCK_SIZE])],
    ) -> Result<()> {
        for &(fblk, _) in blocks {
            let (frame, slot) = self.nodes.dnode_for_write(op, &inode.frame, fblk)?;
            self.nodes.reserve_slot(op, &inode.frame, &frame, slot)?;
        }
        let mut pages = inode.pages.lock();
        blocks.iter().for_each(|&(fblk, content)| pages.put(fblk, content, &self.base.mem));
        drop(pages);
        self.mark_dirty(inode);
        Ok(())
    }
}

/// Error for a block that the index names but whose SIT bit is clear.
pub fn unused_block(addr: BlockAddr) -> Corrupt {
    Corrupt::block(Structure::SitBlock, addr.0.into(), "block of a file is not in use", 0, 1)
}

/// Stores bytes where they fit as a whole.
pub fn put_bytes(area: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(into) = area.get_mut(at..).and_then(|a| a.get_mut(..bytes.len())) {
        into.copy_from_slice(bytes);
    }
}
