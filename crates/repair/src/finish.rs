//! Derived fields of inodes: counts, sizes, links and checksums.
use crate::error::Result;
use crate::fields::size_limit;
use crate::resolve::Tree;
use crate::state::State;
use crate::tree::Slot;
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, Inline, InodeLayout, RawExtraAttr, RawInode, seal_checksum};
use segno_format::{BLOCK_SIZE, BlockAddr, Features};

/// Counts of the whole volume.
#[derive(Default)]
pub(crate) struct Totals {
    /// Slots that count without a block.
    pub reserved: u64,
    /// Blocks of each inode, by number, for quotas.
    pub blocks: Vec<(u32, u64)>,
}

/// Makes the counts of all inodes right.
pub(crate) fn run(state: &mut State<'_>, tree: &Tree) -> Result<Totals> {
    let mut totals = Totals::default();
    for ino in state.inos() {
        one(state, tree, ino, &mut totals)?;
    }
    Ok(totals)
}

#[derive(Default)]
struct Counted {
    blocks: u64,
    reserved: u64,
    saved: u64,
    hits: u64,
    end: u64,
}

fn one(state: &mut State<'_>, tree: &Tree, ino: u32, totals: &mut Totals) -> Result<()> {
    let block = state.block(ino)?;
    let raw: RawInode = *block.view();
    let slots = state.slots(ino)?;
    let counted = count(state, ino, &raw, &slots)?;
    totals.reserved += counted.reserved;
    totals.blocks.push((ino, counted.blocks));
    let layout = state.layout(&raw);
    let limit = size_limit(&raw, state);
    let links = tree.links.get(&ino).copied().unwrap_or(1);
    let parent = parent(tree, ino, &raw, links);
    let compresses = state.vol.sb.features.contains(Features::COMPRESSION);
    let mut cut = false;
    let changed = state.inode(ino, |raw| {
        raw.i_blocks.set(counted.blocks);
        raw.i_links.set(links);
        if u64::from(raw.i_ext.len.get()) != counted.hits {
            raw.i_ext.len.set(0);
        }
        if raw.i_size.get() > limit && raw.has_index() {
            raw.i_size.set(counted.end * BLOCK_SIZE as u64);
            cut = true;
        }
        if raw.is_compressed() {
            let mut extra = raw.extra();
            let released = raw.inline().contains(Inline::COMPRESS_RELEASED);
            extra.i_compr_blocks.set(if released { 0 } else { counted.saved });
            raw.set_extra(&extra);
        } else if compresses && raw.has_extra(size_of::<RawExtraAttr>() as u16) {
            // Only files are compressed, whatever the flag says.
            let mut extra = raw.extra();
            extra.i_compr_blocks.set(0);
            raw.set_extra(&extra);
        }
        if let Some((parent, name)) = &parent {
            raw.set_name(segno_format::Ino(*parent), name);
        }
        special(raw, &layout);
    })?;
    if cut {
        state.lose(ino, "the size was impossible; it is now that of the blocks there are");
    } else if changed {
        state.note(ino, "counts of the inode were wrong");
    }
    dirs(state, ino, counted.end)
}

/// Parent and name for recovery, if those stored are not the inode's.
fn parent(tree: &Tree, ino: u32, raw: &RawInode, links: u32) -> Option<(u32, Vec<u8>)> {
    let lost = raw.advise().contains(Advise::LOST_PINO);
    let keeps = raw.is_dir() || raw.is_reg() && links == 1 && !lost;
    let pino = raw.i_pino.get();
    let names = tree.names.get(&ino)?;
    if !keeps || names.iter().any(|(parent, _)| *parent == pino) {
        return None;
    }
    let (found, i) = names.first().copied()?;
    let name = tree.dirs.get(&found)?.names.get(i)?;
    Some((found, name.name.clone()))
}

fn count(state: &State<'_>, ino: u32, raw: &RawInode, slots: &[Slot]) -> Result<Counted> {
    let mut out = Counted { blocks: state.nodes_of(ino)?.len() as u64, ..Counted::default() };
    let released = raw.inline().contains(Inline::COMPRESS_RELEASED);
    let (ext, first) = (raw.i_ext, u64::from(raw.i_ext.fofs.get()));
    for slot in slots {
        out.end = slot.b + 1;
        match slot.addr {
            BlockAddr::COMPRESS if released => {}
            BlockAddr::COMPRESS | BlockAddr::NEW => {
                out.blocks += 1;
                // A new block is about to get its place.
                out.reserved += u64::from(!state.data.contains_key(&(ino, slot.b)));
            }
            addr => {
                out.blocks += 1;
                let at = slot.b.wrapping_sub(first);
                if at < ext.len.get().into() && u64::from(addr.0) == u64::from(ext.blk.get()) + at {
                    out.hits += 1;
                }
            }
        }
    }
    if raw.is_compressed() {
        out.saved = saved(raw, slots);
    }
    if FileType::of_mode(raw.i_mode.get()) == FileType::Directory
        && state.data.range((ino, 0)..=(ino, u64::MAX)).next().is_some()
    {
        // Its blocks move.
        out.hits = u64::MAX;
    }
    Ok(out)
}

/// Blocks saved by compression: the slots of each compressed cluster that hold no data.
fn saved(raw: &RawInode, slots: &[Slot]) -> u64 {
    let cluster = 1u64 << raw.extra().i_log_cluster_size.min(8);
    let starts = slots.iter().enumerate().filter(|(_, s)| s.addr == BlockAddr::COMPRESS);
    let stored = |(at, start): (usize, &Slot)| {
        let rest = slots.get(at + 1..).unwrap_or_default().iter();
        let next = (start.b + 1..start.b + cluster).zip(rest);
        next.take_while(|(b, s)| s.b == *b && s.addr.is_real()).count() as u64
    };
    starts.map(|found| cluster - stored(found)).sum()
}

/// Device files, pipes and sockets have only a device number.
fn special(raw: &mut RawInode, layout: &InodeLayout) {
    let kind = FileType::of_mode(raw.i_mode.get());
    if matches!(kind, FileType::Regular | FileType::Directory | FileType::Symlink | FileType::Unknown) {
        return;
    }
    raw.i_size.set(0);
    raw.i_nid.iter_mut().for_each(|n| n.set(0));
    let numbered = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
    let (old, new) = (raw.slot(layout, 0), raw.slot(layout, 1));
    if !numbered || old.0 > u16::MAX.into() {
        raw.set_slot(layout, 0, BlockAddr::NULL);
    }
    if !numbered || old.0 <= u16::MAX.into() && old != BlockAddr::NULL && new != BlockAddr::NULL {
        raw.set_slot(layout, 1, BlockAddr::NULL);
    }
    (2..layout.slots).for_each(|i| raw.set_slot(layout, i, BlockAddr::NULL));
}

/// Levels and size of a directory.
fn dirs(state: &mut State<'_>, ino: u32, end: u64) -> Result<()> {
    let size = end * BLOCK_SIZE as u64;
    state.inode(ino, |raw| {
        let blocks = raw.is_dir() && raw.has_index();
        let old = raw.i_size.get();
        if blocks && (old < size || !old.is_multiple_of(BLOCK_SIZE as u64)) {
            raw.i_size.set(size);
        }
    })?;
    Ok(())
}

/// Stores the checksums of all changed inodes: after their slots have got their last values.
pub(crate) fn seal(state: &mut State<'_>) {
    let (features, seed) = (state.vol.sb.features, state.vol.sb.inode_checksum_seed());
    for (nid, block) in &mut state.edits {
        if state.inodes.contains(nid) {
            seal_checksum(block, features, seed);
        }
    }
}
