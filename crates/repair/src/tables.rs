//! The tables of the repaired volume, computed from its nodes, and their differences from the tables on the
//! device.
use crate::blocks::BlockSet;
use crate::error::Result;
use crate::state::State;
use crate::volume::Volume;
use segno_format::bits::msb;
use segno_format::checkpoint::LogPosition;
use segno_format::nat::RawNatEntry;
use segno_format::sit::{LogType, RawSitEntry, SIT_MAP_BYTES};
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{Block, BlockAddr, Ino, Nid, SegNo};
use segno_layout::{Owner, nat_block, sit_block};
use std::collections::{BTreeMap, BTreeSet};
use zerocopy::FromZeros;

/// Everything that is allocated after the repair.
pub(crate) struct Allocated {
    pub nodes: BlockSet,
    pub data: BlockSet,
    pub nids: BTreeSet<u32>,
    /// Summary entries that differ from those stored, and all of the segments of logs.
    pub summaries: BTreeMap<SegNo, BTreeMap<u32, RawSummary>>,
}

impl Allocated {
    /// What all inodes have allocated; of the segments in `whole` every summary entry is kept.
    pub(crate) fn of(state: &State<'_>, whole: &BTreeSet<SegNo>) -> Result<Self> {
        let geo = state.vol.geo;
        let mut allocated = Self {
            nodes: BlockSet::new(&geo),
            data: BlockSet::new(&geo),
            nids: BTreeSet::new(),
            summaries: BTreeMap::new(),
        };
        for &ino in &state.inodes {
            for nid in state.nodes_of(ino)? {
                let Some(addr) = state.nodes.get(&nid).map(|n| n.addr) else { continue };
                allocated.nids.insert(nid);
                allocated.nodes.insert(addr);
                allocated.summary(state, addr, RawSummary::node(Nid(nid)), SummaryType::Node, whole)?;
            }
            for slot in state.slots(ino)?.into_iter().filter(|s| s.addr.is_real()) {
                allocated.data.insert(slot.addr);
                let version = state.nodes.get(&slot.nid).map_or(0, |n| n.version);
                // A node has fewer than 2^16 slots.
                let owner = RawSummary::data(Nid(slot.nid), version, slot.i as u16);
                allocated.summary(state, slot.addr, owner, SummaryType::Data, whole)?;
            }
        }
        Ok(allocated)
    }

    fn summary(
        &mut self,
        state: &State<'_>,
        addr: BlockAddr,
        want: RawSummary,
        kind: SummaryType,
        whole: &BTreeSet<SegNo>,
    ) -> Result<()> {
        let Some((seg, off)) = state.vol.geo.seg_of(addr) else { return Ok(()) };
        let same = state.vol.ssa.owner(addr)?.is_some_and(|Owner { entry: found, kind: stored }| {
            let same = if kind == SummaryType::Node { found.nid == want.nid } else { found == want };
            same && stored == kind
        });
        if !same || whole.contains(&seg) {
            self.summaries.entry(seg).or_default().insert(off, want);
        }
        Ok(())
    }

    pub(crate) fn contains(&self, addr: BlockAddr) -> bool {
        self.nodes.contains(addr) || self.data.contains(addr)
    }

    pub(crate) fn is_empty_in(&self, seg: SegNo) -> bool {
        self.nodes.is_empty_in(seg) && self.data.is_empty_in(seg)
    }

    /// The summary block of a segment.
    pub(crate) fn summary_block(&self, state: &State<'_>, seg: SegNo) -> Result<RawSummaryBlock> {
        let kind = if self.nodes.is_empty_in(seg) { SummaryType::Data } else { SummaryType::Node };
        let stored = state.vol.ssa.segment(seg, |summary| *summary)?;
        let mut block = stored.unwrap_or_else(|| RawSummaryBlock::empty(kind));
        if !self.is_empty_in(seg) {
            block.entry_type = kind as u8;
        }
        for (&off, entry) in self.summaries.get(&seg).into_iter().flatten() {
            if let Some(e) = block.entries.get_mut(off as usize) {
                *e = *entry;
            }
        }
        Ok(block)
    }
}

/// Positions of the logs after the repair.
pub(crate) struct Logs {
    pub positions: Vec<LogPosition>,
}

impl Logs {
    /// The log that a segment belongs to.
    pub(crate) fn log_of(&self, seg: SegNo) -> Option<LogType> {
        self.positions.iter().find(|p| p.seg == seg).map(|p| p.log)
    }
}

/// The copy of a table's block that is not in force, and its new contents.
pub(crate) struct Flip {
    pub b: u32,
    pub addr: BlockAddr,
    pub block: Block,
}

/// Blocks of a table that change: `copy` returns the copy in force, `place` the address of a copy, `make` the
/// new content.
fn flips(
    original: &Volume<'_>,
    blocks: u32,
    copy: impl Fn(u32) -> bool,
    place: impl Fn(u32, bool) -> BlockAddr,
    make: impl Fn(u32) -> Block,
) -> Result<Vec<Flip>> {
    let mut out = Vec::new();
    for b in 0..blocks {
        let (copy, block) = (copy(b), make(b));
        if original.device.block(place(b, copy))?.0 != block.0 {
            out.push(Flip { b, addr: place(b, !copy), block });
        }
    }
    Ok(out)
}

/// SIT blocks that change.
pub(crate) fn sit(
    state: &State<'_>,
    original: &Volume<'_>,
    allocated: &Allocated,
    logs: &Logs,
) -> Result<Vec<Flip>> {
    let (geo, pack) = (&original.geo, &original.pack);
    let entry = |seg| {
        let old = state.vol.sit.get(seg).unwrap_or_else(RawSitEntry::new_zeroed);
        sit_entry(seg, &old, allocated, logs)
    };
    let place = |b, copy| geo.sit_addr(b, copy);
    flips(
        original,
        geo.sit_blocks(),
        |b| pack.sit_copy(b),
        place,
        |b| sit_block(Block::zeroed(), geo, b, entry),
    )
}

fn sit_entry(seg: SegNo, old: &RawSitEntry, allocated: &Allocated, logs: &Logs) -> RawSitEntry {
    let mut map = [0; SIT_MAP_BYTES];
    let offsets = allocated.nodes.of_segment(seg).chain(allocated.data.of_segment(seg));
    let mut count = 0;
    for off in offsets {
        msb::put(&mut map, off as usize, true);
        count += 1;
    }
    let stored = u8::try_from(old.vblocks.get() >> 10).ok().and_then(LogType::from_disk);
    let is_node = !allocated.nodes.is_empty_in(seg);
    let fallback = if is_node { LogType::WarmNode } else { LogType::WarmData };
    let kept = stored.filter(|t| count == 0 || t.is_node() == is_node).unwrap_or(fallback);
    let log = logs.log_of(seg).unwrap_or(kept);
    RawSitEntry::new(log, count, &map, old.mtime.get())
}

/// NAT blocks that change.
pub(crate) fn nat(state: &State<'_>, original: &Volume<'_>, allocated: &Allocated) -> Result<Vec<Flip>> {
    let (geo, pack) = (&original.geo, &original.pack);
    let (entry, place) = (|nid| nat_entry(state, allocated, nid), |b, copy| geo.nat_addr(b, copy));
    flips(original, geo.nat_blocks(), |b| pack.nat_copy(b), place, |b| nat_block(Block::zeroed(), b, entry))
}

fn nat_entry(state: &State<'_>, allocated: &Allocated, nid: Nid) -> RawNatEntry {
    let old = state.vol.nat.entry(nid);
    match state.nodes.get(&nid.0).filter(|_| allocated.nids.contains(&nid.0)) {
        Some(node) => RawNatEntry::new(node.version, Ino(node.owner), node.addr),
        None if nid < Nid::ROOT => RawNatEntry { version: old.version, ..RawNatEntry::without_node(nid) },
        None if old.block_addr.get() == 0 => old,
        None => RawNatEntry { version: old.version.wrapping_add(1), ..RawNatEntry::default() },
    }
}
