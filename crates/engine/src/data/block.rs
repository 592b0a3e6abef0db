//! Single blocks of a file or directory: read, change, free.
use super::index::Place;
use crate::error::Result;
use crate::gate::Op;
use crate::inode::Inode;
use crate::node::NodeFrame;
use crate::volume::Volume;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Structure};
use std::sync::Arc;

impl Volume {
    /// A block's content, from its page or from the device; `None` for a hole or a block that was only reserved. Blocks
    /// of directories stay cached. The caller holds the inode's lock, or is alone with the inode.
    pub(crate) fn read_block(&self, inode: &Arc<Inode>, fblk: u64) -> Result<Option<Arc<Block>>> {
        loop {
            if let Some(block) = inode.pages.lock().get(fblk) {
                return Ok(Some(block));
            }
            let Place::Span(span) = self.find_span(inode, fblk)? else { return Ok(None) };
            let slot = span.slot(fblk);
            let addr = self.slot_addr(&span.frame, slot)?;
            if addr == BlockAddr::NULL || addr == BlockAddr::NEW {
                // A flush that ended between the two looks has left the page and filled the slot, never neither.
                return Ok(None);
            }
            let block = self.dev.read_main(addr);
            if self.slot_addr(&span.frame, slot)? != addr {
                continue;
            }
            self.noted(self.check_in_use(addr))?;
            let block = Arc::new(self.noted(block)?);
            if inode.is_dir() {
                return Ok(Some(inode.pages.lock().insert_clean(fblk, block, &self.mem)));
            }
            return Ok(Some(block));
        }
    }

    /// A block that the index names must be in use.
    fn check_in_use(&self, addr: BlockAddr) -> Result<()> {
        if self.segs.is_valid(addr) {
            return Ok(());
        }
        Err(unused_block(addr).into())
    }

    /// Changes a block: reserves it if there is none yet, loads it if it is not cached, and makes it dirty. Call
    /// [`Volume::read_block`] before entering the gate so that nothing is read from the device inside.
    pub(crate) fn modify_block(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        fblk: u64,
        f: impl FnOnce(&mut Block),
    ) -> Result<()> {
        let loaded = self.read_block(inode, fblk)?;
        let (frame, slot) = self.dnode_for_write(op, inode, fblk)?;
        self.reserve_slot(op, inode, &frame, slot)?;
        let fill = || loaded.unwrap_or_else(|| Arc::new(Block::zeroed()));
        inode.pages.lock().modify(fblk, &self.mem, fill, f);
        self.mark_dirty(inode);
        Ok(())
    }

    /// Replaces whole blocks: all of them or, without room for them, none.
    pub(crate) fn replace_blocks(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        blocks: &[(u64, &[u8; BLOCK_SIZE])],
    ) -> Result<()> {
        for &(fblk, _) in blocks {
            let (frame, slot) = self.dnode_for_write(op, inode, fblk)?;
            self.reserve_slot(op, inode, &frame, slot)?;
        }
        let mut pages = inode.pages.lock();
        blocks.iter().for_each(|&(fblk, content)| pages.put(fblk, content, &self.mem));
        drop(pages);
        self.mark_dirty(inode);
        Ok(())
    }

    /// Makes an empty slot a reserved one.
    fn reserve_slot(&self, op: &Op<'_>, inode: &Inode, frame: &Arc<NodeFrame>, slot: u32) -> Result<()> {
        if self.slot_addr(frame, slot)? != BlockAddr::NULL {
            return Ok(());
        }
        self.counts.reserve_blocks(1)?;
        self.set_slot(op, inode, frame, slot, BlockAddr::NEW)?;
        self.add_blocks(op, inode, 1);
        Ok(())
    }

    /// Makes a hole of one block.
    pub(crate) fn free_block(&self, op: &Op<'_>, inode: &Arc<Inode>, fblk: u64) -> Result<()> {
        self.free_range(op, inode, fblk..fblk.saturating_add(1))
    }
}

/// The index names a block that the SIT says is free.
pub(super) fn unused_block(addr: BlockAddr) -> Corrupt {
    Corrupt::block(Structure::SitBlock, addr.0.into(), "block of a file is not in use", 0, 1)
}
