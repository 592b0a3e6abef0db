//! Places for changed nodes and blocks: where neither the volume as it was nor the repaired one has anything.
use crate::blocks::BlockSet;
use crate::error::{RepairError, Result};
use crate::state::State;
use crate::volume::Volume;
use crate::zones::Zones;
use segno_format::inode::RawInode;
use segno_format::node::RawNode;
use segno_format::{ADDRS_PER_BLOCK, BLOCKS_PER_SEG, Block, BlockAddr, SecNo, SegNo};
use segno_layout::Chain;
use std::collections::BTreeSet;

/// Blocks that must not be written: in use before, in use now, or waiting to be replayed.
pub(crate) fn taken(state: &State<'_>, original: &Volume<'_>) -> Result<BlockSet> {
    let mut taken = BlockSet::new(&original.geo);
    for vol in [original, state.vol] {
        for seg in vol.segments_in_use() {
            let start = original.geo.seg_start(seg);
            (0..BLOCKS_PER_SEG).filter(|&off| vol.sit.has(seg, off)).for_each(|off| {
                taken.insert(start.offset(off));
            });
        }
    }
    for (addr, block) in chain(original)? {
        taken.insert(addr);
        named(original, &block).into_iter().for_each(|a| {
            taken.insert(a);
        });
    }
    state.nodes.values().for_each(|node| {
        taken.insert(node.addr);
    });
    for &ino in &state.inodes {
        for slot in state.slots(ino)? {
            taken.insert(slot.addr);
        }
    }
    Ok(taken)
}

/// Nodes of the roll-forward chain, with their addresses.
pub(crate) fn chain(vol: &Volume<'_>) -> Result<Vec<(BlockAddr, Block)>> {
    let (mut chain, mut out) = (Chain::after(&vol.pack, &vol.geo), Vec::new());
    while let Ok(node) = chain.next(vol.device)? {
        out.push(node);
    }
    Ok(out)
}

/// Blocks that a node of the chain names.
fn named(vol: &Volume<'_>, block: &Block) -> Vec<BlockAddr> {
    let node: &RawNode = block.view();
    if node.footer.node_offset() != 0 {
        return (0..ADDRS_PER_BLOCK).map(|i| node.addr(i)).collect();
    }
    let raw: &RawInode = block.view();
    let layout = raw.layout(vol.sb.features).ok();
    layout.map(|l| (0..l.slots).map(|i| raw.slot(&l, i)).collect()).unwrap_or_default()
}

/// Hands out free blocks.
pub(crate) struct Places<'t> {
    taken: &'t mut BlockSet,
    zones: &'t Zones,
    /// Sections of the logs, before the repair.
    logs: BTreeSet<SecNo>,
    /// Segments in use by each kind: data, nodes.
    open: [Option<SegNo>; 2],
}

impl<'t> Places<'t> {
    pub(crate) fn new(
        state: &State<'_>,
        original: &Volume<'_>,
        taken: &'t mut BlockSet,
        zones: &'t Zones,
    ) -> Self {
        let segments = original.log_segments().chain(state.vol.log_segments());
        let logs = segments.map(|seg| original.geo.sec_of(seg)).collect();
        Self { taken, zones, logs, open: [None; 2] }
    }

    /// A place for a block of data or of nodes.
    pub(crate) fn next(&mut self, state: &State<'_>, is_node: bool) -> Result<BlockAddr> {
        let kind = usize::from(is_node);
        if let Some(addr) = self.open.get(kind).copied().flatten().and_then(|seg| self.free_in(state, seg)) {
            return Ok(addr);
        }
        let fresh = self.fresh(state).or_else(|| self.holes(state, is_node));
        let addr = fresh.and_then(|seg| Some((seg, self.free_in(state, seg)?)));
        let Some((seg, addr)) = addr else {
            return Err(RepairError::refused(
                "not enough free space for the repair: no segment is free, and none in use has room",
            ));
        };
        if let Some(open) = self.open.get_mut(kind) {
            *open = Some(seg);
        }
        Ok(addr)
    }

    fn free_in(&mut self, state: &State<'_>, seg: SegNo) -> Option<BlockAddr> {
        let start = state.vol.geo.seg_start(seg);
        let addr = (0..BLOCKS_PER_SEG).map(|off| start.offset(off)).find(|a| !self.taken.contains(*a))?;
        self.taken.insert(addr);
        Some(addr)
    }

    /// The first segment of an empty section.
    fn fresh(&self, state: &State<'_>) -> Option<SegNo> {
        let geo = &state.vol.geo;
        let opened = |sec: SecNo| self.open.iter().flatten().any(|seg| geo.sec_of(*seg) == sec);
        // From the end: logs and streams of data that a journal has yet to name begin at the front.
        let free = |sec: &SecNo| !self.logs.contains(sec) && !opened(*sec) && self.zones.may_begin(*sec);
        geo.sections().rev().filter(free).find_map(|sec| {
            geo.segments_of(sec).all(|seg| self.taken.is_empty_in(seg)).then(|| geo.sec_start(sec))
        })
    }

    /// A segment of the kind that has room.
    fn holes(&self, state: &State<'_>, is_node: bool) -> Option<SegNo> {
        if self.zones.has_pointers {
            return None;
        }
        let geo = &state.vol.geo;
        let fits = |seg: &SegNo| {
            !self.logs.contains(&geo.sec_of(*seg))
                && state.vol.sit.stored_log(*seg).is_some_and(|t| t.is_node() == is_node)
                && !self.taken.is_empty_in(*seg)
                && self.taken.of_segment(*seg).count() < BLOCKS_PER_SEG as usize
        };
        geo.segments().find(fits)
    }
}

/// Gives changed blocks, then changed nodes, their places. Slots follow, so more nodes may change.
pub(crate) fn run(state: &mut State<'_>, places: &mut Places<'_>) -> Result<Vec<(BlockAddr, Block)>> {
    let mut out = Vec::new();
    for ((ino, b), block) in std::mem::take(&mut state.data) {
        if !state.inodes.contains(&ino) {
            continue;
        }
        let addr = places.next(state, false)?;
        let Some((nid, i)) = state.place_for(ino, b)? else { continue };
        state.set_slot(ino, nid, i, addr)?;
        out.push((addr, block));
    }
    crate::finish::seal(state);
    let mut live = BTreeSet::new();
    for &ino in &state.inodes {
        live.extend(state.nodes_of(ino)?);
    }
    state.edits.retain(|nid, _| live.contains(nid));
    let changed: Vec<u32> = state.edits.keys().copied().collect();
    // Neither of the chain that a crash may have left, nor of one after the repair.
    let version = state.vol.pack.cp().checkpoint_ver.get().wrapping_sub(1);
    for nid in changed {
        let addr = places.next(state, true)?;
        if let Some(node) = state.nodes.get_mut(&nid) {
            node.addr = addr;
        }
        if let Some(block) = state.edits.get_mut(&nid) {
            let footer = &mut block.view_mut::<RawNode>().footer;
            footer.set_marks(false, false);
            footer.cp_ver.set(version);
            footer.next_blkaddr.set(addr.0 + 1);
        }
    }
    crate::finish::seal(state);
    let written =
        state.edits.iter().filter_map(|(nid, block)| Some((state.nodes.get(nid)?.addr, block.clone())));
    out.extend(written);
    Ok(out)
}
