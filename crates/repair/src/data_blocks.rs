//! Data blocks: each used slot must have a data block with this file's bytes that no other slot has.
use crate::blocks::BlockSet;
use crate::error::Result;
use crate::state::State;
use crate::tree::Slot;
use segno_format::BlockAddr;
use segno_format::inode::{Inline, RawInode};
use segno_format::sit::LogType;
use segno_format::summary::SummaryType;
use segno_layout::Owner;
use std::collections::{BTreeMap, BTreeSet};

/// A slot that refers to a block to which other slots refer, too.
#[derive(Clone, Copy)]
struct BlockRef {
    ino: u32,
    slot: Slot,
    /// The summary names this slot.
    named: bool,
    cp_ver: u32,
}

/// Gives up what cannot be a block of its file, and decides between several owners.
pub(crate) fn run(state: &mut State<'_>) -> Result<()> {
    let inos = state.inos();
    let nodes: BTreeSet<BlockAddr> = state.nodes.values().map(|n| n.addr).collect();
    let (mut referenced, mut shared) = (BlockSet::new(&state.vol.geo), BTreeSet::new());
    for &ino in &inos {
        let raw: RawInode = *state.block(ino)?.view();
        for slot in state.slots(ino)? {
            if !slot.addr.is_real() {
                marker(state, ino, &raw, slot)?;
            } else if nodes.contains(&slot.addr) || !is_own(state, &slot)? {
                give_up(state, ino, slot, "is not one of its blocks")?;
            } else if !referenced.insert(slot.addr) {
                shared.insert(slot.addr);
            }
        }
    }
    if !shared.is_empty() {
        decide(state, &inos, &shared)?;
    }
    inos.into_iter().try_for_each(|ino| clusters(state, ino))
}

/// A compressed cluster has a mark, then its blocks, then empty slots. Any other content becomes a hole.
fn clusters(state: &mut State<'_>, ino: u32) -> Result<()> {
    let raw: RawInode = *state.block(ino)?.view();
    if !raw.is_compressed() {
        return Ok(());
    }
    let size = 1u64 << raw.extra().i_log_cluster_size.min(8);
    let released = raw.inline().contains(Inline::COMPRESS_RELEASED);
    let rest = if released { BlockAddr::NULL } else { BlockAddr::NEW };
    let slots: BTreeMap<u64, Slot> = state.slots(ino)?.into_iter().map(|s| (s.b, s)).collect();
    for (&b, _) in slots.iter().filter(|(_, s)| s.addr == BlockAddr::COMPRESS) {
        let addr = |b: u64| slots.get(&b).map_or(BlockAddr::NULL, |s| s.addr);
        let stored = (b + 1..b + size).take_while(|&b| addr(b).is_real()).count() as u64;
        if stored > 0 && (b + 1 + stored..b + size).all(|b| addr(b) == rest) {
            continue;
        }
        for (_, slot) in slots.range(b..b + size) {
            state.set_slot(ino, slot.nid, slot.i, BlockAddr::NULL)?;
        }
        state
            .lose(ino, format!("the compressed cluster at block {b} of the file is damaged, and now a hole"));
    }
    Ok(())
}

/// Slots without a block: reserved, or the first of a compressed cluster.
fn marker(state: &mut State<'_>, ino: u32, raw: &RawInode, slot: Slot) -> Result<()> {
    let cluster = 1u32.checked_shl(raw.extra().i_log_cluster_size.into()).unwrap_or(1);
    let legal = match slot.addr {
        BlockAddr::COMPRESS => raw.is_compressed() && slot.i.is_multiple_of(cluster.max(1)),
        _ => !raw.is_dir(),
    };
    if !legal {
        state.set_slot(ino, slot.nid, slot.i, BlockAddr::NULL)?;
        state.note(ino, format!("block {} had a mark that it cannot have", slot.b));
    }
    Ok(())
}

/// Whether the block holds this file's bytes: the summary names the slot, or else the SIT has the block in
/// use.
fn is_own(state: &State<'_>, slot: &Slot) -> Result<bool> {
    let Some((seg, _)) = state.vol.geo.seg_of(slot.addr) else { return Ok(false) };
    if names(state, slot)? {
        return Ok(true);
    }
    // A summary that names another node is wrong if that node does not refer to the block, and that cannot be
    // seen of a lost one.
    let owner = state.vol.ssa.owner(slot.addr)?.map(|owner| owner.entry.nid());
    let of_lost =
        owner.is_some_and(|nid| state.vol.nat.used(nid).is_some() && !state.nodes.contains_key(&nid.0));
    if of_lost {
        return Ok(false);
    }
    let of_nodes = state.vol.sit.stored_log(seg).is_some_and(LogType::is_node);
    Ok(state.is_valid(slot.addr) && !of_nodes)
}

/// Whether the summary of a block names this slot, in a segment that the summary or the SIT marks as data.
fn names(state: &State<'_>, slot: &Slot) -> Result<bool> {
    let version = state.nodes.get(&slot.nid).map_or(0, |n| n.version);
    let owner = state.vol.ssa.owner(slot.addr)?;
    let log = state.vol.geo.seg_of(slot.addr).and_then(|(seg, _)| state.vol.sit.stored_log(seg));
    let of_data = log.is_some_and(|t| !t.is_node());
    Ok(owner.is_some_and(|Owner { kind, entry: owner }| {
        (kind == SummaryType::Data || of_data)
            && owner.nid.get() == slot.nid
            && u32::from(owner.ofs_in_node.get()) == slot.i
            && (owner.version == version || state.is_valid(slot.addr))
    }))
}

fn give_up(state: &mut State<'_>, ino: u32, slot: Slot, why: &str) -> Result<()> {
    state.set_slot(ino, slot.nid, slot.i, BlockAddr::NULL)?;
    state.lose(
        ino,
        format!("block {} of the volume {why}; block {} of the file is now a hole", slot.addr, slot.b),
    );
    Ok(())
}

/// The slot that the summary names keeps the block, else that of the node written last.
fn decide(state: &mut State<'_>, inos: &[u32], shared: &BTreeSet<BlockAddr>) -> Result<()> {
    let mut refs: BTreeMap<BlockAddr, Vec<BlockRef>> = BTreeMap::new();
    for &ino in inos {
        for slot in state.slots(ino)?.into_iter().filter(|s| shared.contains(&s.addr)) {
            let named = names(state, &slot)?;
            let cp_ver = state.nodes.get(&slot.nid).map_or(0, |n| n.cp_ver);
            refs.entry(slot.addr).or_default().push(BlockRef { ino, slot, named, cp_ver });
        }
    }
    for (addr, refs) in refs {
        let later = |a: &BlockRef, b: &BlockRef| {
            let versions = a.cp_ver.wrapping_sub(b.cp_ver).cast_signed().cmp(&0);
            a.named.cmp(&b.named).then(versions)
        };
        let Some(winner) = refs.iter().copied().max_by(later) else { continue };
        for loser in refs.iter().filter(|c| (c.slot.nid, c.slot.i) != (winner.slot.nid, winner.slot.i)) {
            state.set_slot(loser.ino, loser.slot.nid, loser.slot.i, BlockAddr::NULL)?;
            state.lose(
                loser.ino,
                format!(
                    "block {addr} of the volume is also claimed by inode {0}, and kept for that; block {1} of the file is now a hole",
                    winner.ino, loser.slot.b
                ),
            );
        }
    }
    Ok(())
}
