//! Lost inodes with an older version: a block that the SIT has as free, in a segment of nodes.
//!
//! The slots of such an inode are taken from the summaries alone: blocks that the older version names may
//! have other owners now.
use crate::error::Result;
use crate::names::Dirs;
use crate::state::{Node, State};
use segno_format::dentry::FileType;
use segno_format::inode::{Inline, RawInode, verify_checksum};
use segno_format::node::RawNode;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, BlockAddr, Ino, NAME_MAX, Nid, SegNo};
use segno_layout::Reader;
use std::collections::BTreeMap;

const SAID: &str =
    "the newest version of the inode is lost; an older one is used, with the blocks of the newest";

/// Takes older versions of the inodes that the NAT has and that have no block.
pub(crate) fn run(state: &mut State<'_>) -> Result<()> {
    let is_lost = |nid: u32, owner: u32| nid == owner && !state.nodes.contains_key(&nid);
    let entries = state.vol.nat.in_use().map(|(nid, e)| (nid.0, e.owner().0));
    let mut lost: BTreeMap<u32, Option<Block>> =
        entries.filter(|&(nid, owner)| is_lost(nid, owner)).map(|(nid, _)| (nid, None)).collect();
    // The two virtual inodes have no block.
    lost.retain(|nid, _| *nid >= Nid::ROOT.0);
    if !state.nodes.contains_key(&Nid::ROOT.0) {
        lost.insert(Nid::ROOT.0, None);
    }
    if lost.is_empty() {
        return Ok(());
    }
    for seg in state.vol.geo.segments() {
        if state.vol.has_nodes(seg)? {
            search(state, seg, &mut lost)?;
        }
    }
    for (nid, block) in lost.into_iter().filter_map(|(nid, block)| Some((nid, block?))) {
        take(state, nid, block)?;
    }
    Ok(())
}

/// Keeps the newest version of each lost inode in a segment.
fn search(state: &State<'_>, seg: SegNo, lost: &mut BTreeMap<u32, Option<Block>>) -> Result<()> {
    let blocks = state.vol.device.read_blocks(state.vol.geo.seg_start(seg), BLOCKS_PER_SEG)?;
    for (off, block) in (0..BLOCKS_PER_SEG).zip(blocks.iter().flatten()) {
        let nid = block.view::<RawNode>().footer.nid.get();
        let Some(best) = lost.get_mut(&nid) else { continue };
        if state.vol.sit.has(seg, off) || !is_version(state, nid, block) {
            continue;
        }
        let version = |block: &Block| block.view::<RawNode>().footer.cp_ver.get() as u32;
        if best.as_ref().is_none_or(|b| version(block).wrapping_sub(version(b)).cast_signed() >= 0) {
            *best = Some(block.clone());
        }
    }
    Ok(())
}

/// Whether a block is an inode that the checkpoint once had.
fn is_version(state: &State<'_>, nid: u32, block: &Block) -> bool {
    let (raw, footer): (&RawInode, _) = (block.view(), block.view::<RawNode>().footer);
    let checkpoint = state.vol.pack.cp().checkpoint_ver.get() as u32;
    let before = checkpoint.wrapping_sub(footer.cp_ver.get() as u32).cast_signed() > 0;
    let (features, seed) = (state.vol.sb.features, state.vol.sb.inode_checksum_seed());
    before
        && (footer.ino.get(), footer.node_offset()) == (nid, 0)
        && FileType::of_mode(raw.i_mode.get()) != FileType::Unknown
        && raw.i_namelen.get() as usize <= NAME_MAX
        && (nid == Nid::ROOT.0) == (raw.i_namelen.get() == 0)
        && raw.i_links.get() > 0
        && !raw.is_compressed()
        && raw.layout(features).is_ok()
        && verify_checksum(block, features, seed).is_ok()
}

fn take(state: &mut State<'_>, nid: u32, mut block: Block) -> Result<()> {
    let slots = state.slots_of_lost(nid)?;
    let raw: &mut RawInode = block.view_mut();
    let layout = state.layout(raw);
    let kind = FileType::of_mode(raw.i_mode.get());
    let has_content = matches!(kind, FileType::Regular | FileType::Directory | FileType::Symlink);
    let was_inline = raw.inline().intersects(Inline::DATA | Inline::DENTRY);
    if has_content && !(was_inline && slots.is_empty()) {
        raw.i_inline &= !(Inline::DATA | Inline::DENTRY | Inline::DATA_EXIST).bits();
        (0..layout.slots).for_each(|i| raw.set_slot(&layout, i, BlockAddr::NULL));
        for (&i, &addr) in slots.iter().filter(|(i, _)| **i < layout.slots) {
            raw.set_slot(&layout, i, addr);
        }
        let last = slots.keys().next_back().map_or(0, |i| u64::from(*i) * BLOCK_SIZE as u64);
        if !slots.is_empty() && raw.i_size.get() <= last {
            raw.i_size.set(last + BLOCK_SIZE as u64);
        }
        raw.i_ext.len.set(0);
    }
    let version = state.vol.nat.entry(Nid(nid)).version;
    let cp_ver = block.view::<RawNode>().footer.cp_ver.get() as u32;
    let node = Node { addr: BlockAddr::NULL, owner: nid, ino: nid, ofs: 0, version, cp_ver, reached: false };
    state.nodes.insert(nid, node);
    state.edits.insert(nid, block);
    state.older.insert(nid);
    Ok(())
}

/// Gives up older versions to which no name leads that is also in the inode: the number had another file then.
pub(crate) fn confirm(state: &mut State<'_>, dirs: &mut Dirs) -> Result<()> {
    for ino in std::mem::take(&mut state.older) {
        let raw: RawInode = *state.block(ino)?.view();
        let kind = FileType::of_mode(raw.i_mode.get()) as u8;
        let parent = dirs.get(&raw.i_pino.get()).filter(|_| ino != Ino::ROOT.0);
        let named = parent.is_some_and(|dir| {
            dir.names.iter().any(|n| n.ino == ino && n.name == raw.name() && n.file_type == kind)
        });
        if named || ino == Ino::ROOT.0 {
            state.lose(ino, SAID);
            continue;
        }
        state.inodes.remove(&ino);
        state.nodes.remove(&ino);
        state.edits.remove(&ino);
        dirs.remove(&ino);
    }
    Ok(())
}
