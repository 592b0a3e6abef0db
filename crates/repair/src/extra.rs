//! The size of an inode's extra attributes, which determines the offset of everything after them.
use crate::error::Result;
use crate::node::inline_dots;
use crate::state::State;
use segno_format::inode::{Inline, RawInode, verify_checksum};
use segno_format::summary::SummaryType;
use segno_format::{Block, Features};
use segno_layout::Owner;
use std::collections::BTreeMap;
use zerocopy::little_endian::U16;

/// Where the checksum ends in the extra attributes.
const CHECKSUM_END: u16 = 12;
/// Inodes that share a size for it to be common.
const COMMON: u32 = 2;

/// Sizes that several inodes have, the most frequent one first. Formatter and kernels may differ in the size
/// of theirs.
pub(crate) fn common_sizes(state: &State<'_>) -> Result<Vec<u16>> {
    let mut counts: BTreeMap<u16, u32> = BTreeMap::new();
    for &ino in &state.inodes {
        let block = state.block(ino)?;
        let raw: &RawInode = block.view();
        let size = raw.extra().i_extra_isize.get();
        if raw.inline().contains(Inline::EXTRA_ATTR) && is_size(size) {
            *counts.entry(size).or_default() += 1;
        }
    }
    let mut sizes: Vec<(u32, u16)> = counts.into_iter().map(|(size, inodes)| (inodes, size)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    if sizes.first().is_some_and(|(inodes, _)| *inodes >= COMMON) {
        sizes.retain(|(inodes, _)| *inodes >= COMMON);
    }
    Ok(sizes.into_iter().map(|(_, size)| size).collect())
}

fn is_size(size: u16) -> bool {
    size.is_multiple_of(4) && (4..=36).contains(&size)
}

/// Makes flag and size right: as stored if the content fits, else another size with which it does.
pub(crate) fn run(state: &mut State<'_>, ino: u32) -> Result<bool> {
    if !state.vol.sb.features.contains(Features::EXTRA_ATTR) {
        return state.inode(ino, |raw| raw.i_inline &= !Inline::EXTRA_ATTR.bits());
    }
    let Some(&usual) = state.extra_sizes.first() else { return Ok(false) };
    let block = state.block(ino)?;
    let own = block.view::<RawInode>().extra().i_extra_isize.get();
    let mut size = if state.extra_sizes.contains(&own) { own } else { usual };
    if own != usual || state.extra_sizes.len() > 1 {
        // On a volume with inode checksums, a stored size is tried last if with it there is no checksum or a
        // wrong one.
        let proven = !state.vol.sb.features.contains(Features::INODE_CHKSUM)
            || block.view::<RawInode>().has_extra(CHECKSUM_END) && is_summed(state, &block);
        let own = Some(own).filter(|own| is_size(*own));
        let (first, last) = if proven { (own, None) } else { (None, own) };
        for candidate in first.into_iter().chain(state.extra_sizes.clone()).chain(last) {
            let mut block = block.clone();
            set(block.view_mut(), candidate);
            if fits(state, ino, &block)? {
                size = candidate;
                break;
            }
        }
    }
    state.inode(ino, |raw| set(raw, size))
}

fn is_summed(state: &State<'_>, block: &Block) -> bool {
    verify_checksum(block, state.vol.sb.features, state.vol.sb.inode_checksum_seed()).is_ok()
}

fn set(raw: &mut RawInode, size: u16) {
    raw.i_inline |= Inline::EXTRA_ATTR.bits();
    let mut extra = raw.extra();
    extra.i_extra_isize = U16::new(size);
    raw.set_extra(&extra);
}

/// Whether the content is where this size puts it: inline, or in blocks whose summaries name their slots.
fn fits(state: &State<'_>, ino: u32, block: &Block) -> Result<bool> {
    let raw: &RawInode = block.view();
    let Ok(layout) = raw.layout(state.vol.sb.features) else { return Ok(false) };
    if raw.inline().contains(Inline::DENTRY) {
        return Ok(inline_dots(ino, block, state.vol.sb.features));
    }
    if raw.inline().contains(Inline::DATA) {
        return Ok(block.u32_at(layout.base()) == 0);
    }
    let first = (0..layout.slots).map(|i| (i, raw.slot(&layout, i))).find(|(_, addr)| addr.is_real());
    let Some((i, addr)) = first.filter(|_| raw.has_index()) else { return Ok(true) };
    let owner = state.vol.ssa.owner(addr)?;
    Ok(owner.is_some_and(|Owner { kind, entry: o }| {
        kind == SummaryType::Data && o.nid.get() == ino && u32::from(o.ofs_in_node.get()) == i
    }))
}
