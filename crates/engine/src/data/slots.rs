//! The slots of an inode or a direct node.
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::node::NodeFrame;
use crate::volume::Volume;
use segno_format::inode::RawInode;
use segno_format::node::RawNode;
use segno_format::{ADDRS_PER_BLOCK, Block, BlockAddr, Corrupt, Features, Structure};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

impl Volume {
    /// The address in a slot of the inode or of a direct node: a marker, or in the main area.
    pub(crate) fn slot_addr(&self, frame: &NodeFrame, slot: u32) -> Result<BlockAddr> {
        let word = self.look_at_slots(frame, |slots| slots.get(slot as usize).map(|w| w.get()))?;
        let bad = |found: u32, expected| slot_error(frame, "slot number", found, expected);
        self.checked_addr(frame, word.ok_or_else(|| bad(slot, ADDRS_PER_BLOCK))?)
    }

    /// Addresses of consecutive slots.
    pub(super) fn slot_addrs(&self, frame: &NodeFrame, slots: Range<usize>) -> Result<Vec<BlockAddr>> {
        self.look_at_slots(frame, |words| {
            let words = words.get(slots).unwrap_or_default();
            words.iter().map(|w| self.checked_addr(frame, w.get())).collect()
        })?
    }

    /// The word of a slot as an address.
    pub(super) fn checked_addr(&self, frame: &NodeFrame, word: u32) -> Result<BlockAddr> {
        let addr = BlockAddr(word);
        if addr.is_real() && !self.geo.in_main(addr) {
            return Err(slot_error(frame, "address outside the main area", word, self.geo.main_end()));
        }
        Ok(addr)
    }

    /// Points a slot elsewhere. The caller settles SIT and counters.
    pub(crate) fn set_slot(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        frame: &Arc<NodeFrame>,
        slot: u32,
        addr: BlockAddr,
    ) -> Result<()> {
        self.edit_slots(op, frame, |slots| {
            if let Some(word) = slots.get_mut(slot as usize) {
                *word = U32::new(addr.0);
            }
        })?;
        self.forget_extent(op, inode);
        Ok(())
    }

    /// Reads the slots of the inode or of a direct node.
    pub(super) fn look_at_slots<R>(&self, frame: &NodeFrame, f: impl FnOnce(&[U32]) -> R) -> Result<R> {
        let block = frame.read();
        Ok(f(slots_of(&block, is_inode(frame), self.features)?))
    }

    /// Changes them.
    pub(super) fn edit_slots<R>(
        &self,
        op: &Op<'_>,
        frame: &Arc<NodeFrame>,
        f: impl FnOnce(&mut [U32]) -> R,
    ) -> Result<R> {
        let features = self.features;
        self.nodes.modify(op, frame, |block| Ok(f(slots_of_mut(block, is_inode(frame), features)?)))
    }
}

fn is_inode(frame: &NodeFrame) -> bool {
    frame.nid == frame.ino
}

fn slot_error(frame: &NodeFrame, why: &'static str, found: u32, expected: u32) -> Error {
    let what = if is_inode(frame) { Structure::Inode } else { Structure::DirectNode };
    Corrupt::nid(what, frame.nid.0, why, found.into(), expected.into()).into()
}

/// Byte range of the slots in the body of an inode.
fn inode_slots(raw: &RawInode, features: Features) -> Result<Range<usize>> {
    let layout = raw.layout(features)?;
    let start = layout.extra_words as usize * 4;
    Ok(start..start + layout.slots as usize * 4)
}

fn slots_of(block: &Block, is_inode: bool, features: Features) -> Result<&[U32]> {
    if !is_inode {
        return Ok(&block.view::<RawNode>().words);
    }
    let raw: &RawInode = block.view();
    let range = inode_slots(raw, features)?;
    Ok(raw.body.get(range).and_then(|bytes| <[U32]>::ref_from_bytes(bytes).ok()).unwrap_or_default())
}

fn slots_of_mut(block: &mut Block, is_inode: bool, features: Features) -> Result<&mut [U32]> {
    if !is_inode {
        return Ok(&mut block.view_mut::<RawNode>().words);
    }
    let raw: &mut RawInode = block.view_mut();
    let range = inode_slots(raw, features)?;
    Ok(raw.body.get_mut(range).and_then(|bytes| <[U32]>::mut_from_bytes(bytes).ok()).unwrap_or_default())
}
