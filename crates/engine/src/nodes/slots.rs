//! The slots of an inode or a direct node.
use super::Nodes;
use super::{NodeFrame, Place, Span};
use crate::error::{Error, Result};
use crate::health::invariant;
use crate::transaction::Op;
use segno_format::inode::{Inline, RawInode};
use segno_format::node::{NodeKind, RawNode, kind_of_offset};
use segno_format::summary::RawSummary;
use segno_format::{ADDRS_PER_BLOCK, Block, BlockAddr, Corrupt, Features, Nid, Structure};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

impl Nodes {
    /// The address of each file block; `NULL` where the node does not exist.
    pub fn map_blocks(&self, inode: &Arc<NodeFrame>, blocks: Range<u64>) -> Result<Vec<BlockAddr>> {
        let mut addrs = Vec::with_capacity(blocks.end.saturating_sub(blocks.start) as usize);
        let mut at = blocks.start;
        while at < blocks.end {
            at = match self.find_span(inode, at)? {
                Place::Missing { next } => {
                    let next = next.min(blocks.end);
                    addrs.extend((at..next).map(|_| BlockAddr::NULL));
                    next
                }
                Place::Span(span) => {
                    let next = span.blocks.end.min(blocks.end);
                    addrs.extend(self.slot_addrs(&span.frame, span.slots(&(at..next)))?);
                    next
                }
            };
        }
        Ok(addrs)
    }

    /// The summary of a data block whose address is in a slot of a node.
    pub fn summary_of(&self, nid: Nid, slot: u32) -> Result<RawSummary> {
        Ok(RawSummary::data(nid, self.nat.get(nid)?.version, slot as u16))
    }

    /// The address in a slot of the inode or of a direct node: a marker, or a main-area address.
    pub fn slot_addr(&self, frame: &NodeFrame, slot: u32) -> Result<BlockAddr> {
        refuse_damaged(frame)?;
        self.look_at_slots(frame, |slots| self.addr_in(frame, slots, slot))?
    }

    fn addr_in(&self, frame: &NodeFrame, slots: &[U32], slot: u32) -> Result<BlockAddr> {
        let word = slots.get(slot as usize);
        let bad = || slot_error(frame, "slot number", slot, ADDRS_PER_BLOCK);
        self.checked_addr(frame, word.ok_or_else(bad)?.get())
    }

    /// Addresses of consecutive slots.
    pub fn slot_addrs(&self, frame: &NodeFrame, slots: Range<usize>) -> Result<Vec<BlockAddr>> {
        refuse_damaged(frame)?;
        let addrs = self.look_at_slots(frame, |words| {
            let words = words.get(slots)?;
            Some(words.iter().map(|w| self.checked_addr(frame, w.get())).collect())
        })?;
        self.base.health.present(addrs, "slots outside a node are read")?
    }

    /// Addresses of any slots of one node.
    pub fn slots_at(&self, frame: &NodeFrame, at: impl Iterator<Item = u32>) -> Result<Vec<BlockAddr>> {
        refuse_damaged(frame)?;
        self.look_at_slots(frame, |slots| at.map(|slot| self.addr_in(frame, slots, slot)).collect())?
    }

    /// The word of a slot as an address.
    pub(super) fn checked_addr(&self, frame: &NodeFrame, word: u32) -> Result<BlockAddr> {
        let addr = BlockAddr(word);
        if addr.is_real() && !self.base.geo.in_main(addr) {
            return Err(slot_error(frame, "address outside the main area", word, self.base.geo.main_end()));
        }
        Ok(addr)
    }

    /// Sets the address in a slot. The caller updates SIT and counters.
    pub fn set_slot(
        &self,
        op: &Op<'_>,
        inode: &Arc<NodeFrame>,
        frame: &Arc<NodeFrame>,
        slot: u32,
        addr: BlockAddr,
    ) -> Result<()> {
        self.edit_slots(op, frame, "a slot outside a node is set", |slots| {
            slots.get_mut(slot as usize).map(|word| *word = U32::new(addr.0))
        })?;
        self.forget_extent(op, inode);
        Ok(())
    }

    /// Reserves an empty slot.
    pub fn reserve_slot(
        &self,
        op: &Op<'_>,
        inode: &Arc<NodeFrame>,
        frame: &Arc<NodeFrame>,
        slot: u32,
    ) -> Result<()> {
        if self.slot_addr(frame, slot)? != BlockAddr::NULL {
            return Ok(());
        }
        self.space.counts.reserve_blocks(1)?;
        self.set_slot(op, inode, frame, slot, BlockAddr::NEW)?;
        self.add_blocks(op, inode, 1);
        Ok(())
    }

    /// Reserves the empty slots of a range inside one node, as far as space allows. Returns the first slot not
    /// reserved.
    pub fn reserve_slots(
        &self,
        op: &Op<'_>,
        inode: &Arc<NodeFrame>,
        span: &Span,
        blocks: Range<u64>,
    ) -> Result<u64> {
        let slots = span.slots(&blocks);
        let empty = |w: &U32| BlockAddr(w.get()) == BlockAddr::NULL;
        let wanted = self.look_at_slots(&span.frame, |all| {
            all.get(slots.clone()).map(|slots| slots.iter().filter(|w| empty(w)).count() as u64)
        })?;
        let wanted = self.base.health.present(wanted, "slots outside a node are reserved")?;
        if wanted == 0 {
            return Ok(blocks.end);
        }
        let got = self.space.counts.reserve_up_to(wanted);
        let (filled, stop) =
            self.edit_slots(op, &span.frame, "slots outside a node are reserved", |all| {
                let slots = all.get_mut(slots)?;
                let mut holes = (blocks.start..).zip(slots).filter(|(_, w)| empty(w));
                let filled =
                    holes.by_ref().take(got as usize).map(|(_, w)| *w = U32::new(BlockAddr::NEW.0)).count();
                Some((filled as u64, holes.next().map_or(blocks.end, |(block, _)| block)))
            })?;
        invariant!(self.base.health, filled == got, "blocks are reserved for slots that are not empty");
        self.forget_extent(op, inode);
        self.add_blocks(op, inode, got.cast_signed());
        Ok(stop)
    }

    /// Reads the slots of the inode or of a direct node.
    pub(super) fn look_at_slots<R>(&self, frame: &NodeFrame, f: impl FnOnce(&[U32]) -> R) -> Result<R> {
        let block = frame.read();
        Ok(f(slots_of(&block, frame.is_inode(), self.base.features)?))
    }

    /// Changes the slots of the inode or of a direct node. `outside` names the invariant that is violated if
    /// `f` finds a slot missing.
    pub fn edit_slots<R>(
        &self,
        op: &Op<'_>,
        frame: &Arc<NodeFrame>,
        outside: &'static str,
        f: impl FnOnce(&mut [U32]) -> Option<R>,
    ) -> Result<R> {
        let features = self.base.features;
        self.cache.modify(op, frame, |block| {
            let done = f(slots_of_mut(block, frame.is_inode(), features)?);
            if frame.named_twice() != BlockAddr::NULL {
                frame.set_named_twice(named_twice(block, features));
            }
            self.base.health.present(done, outside)
        })
    }
}

/// A block has one place in a file. If two slots named it, a read of both, or of one after the other was
/// freed, would return wrong content.
fn refuse_damaged(frame: &NodeFrame) -> Result<()> {
    match frame.named_twice() {
        BlockAddr::NULL => Ok(()),
        addr => Err(slot_error(frame, "address in two slots", addr.0, 0)),
    }
}

/// An address that two slots of a node name, or `NULL`. If the addresses ascend, as in a file that was written at once, each is only
/// compared with the next.
pub fn named_twice(block: &Block, features: Features) -> BlockAddr {
    let node: &RawNode = block.view();
    let is_inode = match kind_of_offset(node.footer.node_offset()) {
        Some(NodeKind::Inode) => true,
        Some(NodeKind::Direct { .. }) => false,
        _ => return BlockAddr::NULL,
    };
    let raw: &RawInode = block.view();
    let inline = || raw.inline().intersects(Inline::DATA | Inline::DENTRY);
    if is_inode && (inline() || !(raw.is_reg() || raw.is_dir() || raw.is_symlink())) {
        return BlockAddr::NULL;
    }
    // An inode without a layout is refused when it is used.
    let slots = slots_of(block, is_inode, features).unwrap_or_default();
    let real = || slots.iter().map(|w| w.get()).filter(|&w| BlockAddr(w).is_real());
    if real().is_sorted_by(|a, b| a < b) {
        return BlockAddr::NULL;
    }
    let mut all: Vec<u32> = real().collect();
    all.sort_unstable();
    let twice = all.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    });
    BlockAddr(twice.unwrap_or_default())
}

fn slot_error(frame: &NodeFrame, why: &'static str, found: u32, expected: u32) -> Error {
    let what = if frame.is_inode() { Structure::Inode } else { Structure::DirectNode };
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

#[cfg(test)]
mod tests {
    use super::*;
    use segno_format::Ino;
    use segno_format::node::RawNodeFooter;

    /// A direct node, or an inode of a regular file, with these slots.
    fn node(offset: u32, slots: &[u32]) -> Block {
        let mut block = Block::zeroed();
        let node: &mut RawNode = block.view_mut();
        let nid = if offset == 0 { 4 } else { 5 };
        node.footer = RawNodeFooter::new(Nid(nid), Ino(4), offset, true);
        if offset == 0 {
            let raw: &mut RawInode = block.view_mut();
            raw.i_mode.set(0o100_644);
            let layout = raw.layout(Features::empty()).unwrap();
            (0..).zip(slots).for_each(|(i, &addr)| raw.set_slot(&layout, i, BlockAddr(addr)));
        } else {
            (0..).zip(slots).for_each(|(i, &addr)| node.set(i, addr));
        }
        block
    }

    #[test]
    fn an_address_in_two_slots_is_found_and_markers_are_not() {
        let (null, new, packed) = (BlockAddr::NULL.0, BlockAddr::NEW.0, BlockAddr::COMPRESS.0);
        for offset in [0, 1] {
            for (slots, expected) in [
                (&[7, 8, 9][..], null),
                (&[9, 7, 8], null),
                (&[9, 7, 9], 9),
                (&[5, 5], 5),
                (&[null, new, packed, new, packed, 3, null, new], null),
                (&[packed, 8, new, packed, 6, 8], 8),
            ] {
                let found = named_twice(&node(offset, slots), Features::empty());
                assert_eq!(found, BlockAddr(expected), "node {offset}: {slots:?}");
            }
        }
        let mut inline = node(0, &[5, 5]);
        inline.view_mut::<RawInode>().i_inline = Inline::DATA.bits();
        assert_eq!(named_twice(&inline, Features::empty()), BlockAddr::NULL);
        let mut device = node(0, &[5, 5]);
        device.view_mut::<RawInode>().i_mode.set(0o020_644);
        assert_eq!(named_twice(&device, Features::empty()), BlockAddr::NULL);
    }
}
