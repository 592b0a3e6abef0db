//! A directory whose inode is lost: made anew from its blocks, which summaries name, and from the parents in inodes.
use crate::error::Result;
use crate::names::Name;
use crate::state::{Node, State};
use segno_format::dentry::{DentryShape, FileType};
use segno_format::inode::{Inline, RawInode};
use segno_format::node::RawNodeFooter;
use segno_format::sit::LogType;
use segno_format::summary::SummaryType;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, BlockAddr, Nid};
use std::collections::BTreeMap;

/// Makes the inode of a directory that a name leads to, if anything of the directory is left; whether it is there now.
pub(crate) fn run(state: &mut State<'_>, parent: u32, name: &Name) -> Result<bool> {
    let ino = name.ino;
    if name.file_type != FileType::Directory as u8
        || !state.vol.geo.nid_ok(Nid(ino))
        || state.nodes.contains_key(&ino)
    {
        return Ok(false);
    }
    let blocks = blocks(state, ino)?;
    if blocks.is_empty() && !has_children(state, ino)? {
        return Ok(false);
    }
    make(state, ino, 0o040_700)?;
    let layout = state.layout(state.block(ino)?.view());
    let end = blocks.keys().next_back().map_or(0, |b| u64::from(*b) + 1);
    state.inode(ino, |raw| {
        raw.set_name(Nid(parent), &name.name);
        raw.i_size.set(end * BLOCK_SIZE as u64);
        blocks.iter().for_each(|(&b, &addr)| raw.set_slot(&layout, b, addr));
    })?;
    state.lose(
        ino,
        "the inode of the directory was lost; it is made anew, with mode 0700 and the owner of the root",
    );
    Ok(true)
}

/// Valid blocks of directory entries that the summaries give to slots of the inode.
fn blocks(state: &mut State<'_>, ino: u32) -> Result<BTreeMap<u32, BlockAddr>> {
    let slots = state.layout(state.block(Nid::ROOT.0)?.view()).slots;
    let mut out = BTreeMap::new();
    let used: Vec<_> = state.vol.sit.used().map(|(seg, _)| seg).collect();
    for seg in used {
        if state.vol.sit.log_type(seg).is_none_or(LogType::is_node) {
            continue;
        }
        let Some(summary) = state.owners.segment(state.vol, seg)? else { continue };
        if summary.parse_type(0) != Ok(SummaryType::Data) {
            continue;
        }
        let named: Vec<(u32, u32)> = (0..BLOCKS_PER_SEG)
            .zip(&summary.entries)
            .filter(|(_, e)| e.nid.get() == ino && u32::from(e.ofs_in_node.get()) < slots)
            .map(|(off, e)| (off, e.ofs_in_node.get().into()))
            .collect();
        for (off, slot) in named {
            let addr = state.vol.geo.seg_start(seg).offset(off);
            if state.vol.sit.is_valid(seg, off) && is_readable(&state.vol.reader.block(addr)?) {
                out.insert(slot, addr);
            }
        }
    }
    Ok(out)
}

/// Whether a block can be read as directory entries.
fn is_readable(block: &Block) -> bool {
    let mut pos = 0;
    loop {
        match DentryShape::BLOCK.next(&block.0, pos, 0) {
            Ok(Some(entry)) => pos = entry.next(),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Whether an inode names this one as its parent.
fn has_children(state: &State<'_>, ino: u32) -> Result<bool> {
    for &other in &state.inodes {
        if state.block(other)?.view::<RawInode>().i_pino.get() == ino {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A directory without blocks, owned as the root is.
pub(crate) fn make(state: &mut State<'_>, ino: u32, mode: u16) -> Result<()> {
    let mut block = state.block(Nid::ROOT.0)?;
    let layout = state.layout(block.view());
    if let Some(body) = block.0.get_mut(layout.base()..layout.xattr_range().end) {
        body.fill(0);
    }
    let raw: &mut RawInode = block.view_mut();
    raw.i_mode.set(mode);
    raw.i_inline &= !(Inline::DENTRY | Inline::XATTR | Inline::DOTS).bits();
    raw.i_advise = 0;
    raw.i_flags.set(0);
    raw.i_blocks.set(1);
    raw.i_size.set(0);
    raw.i_current_depth.set(1);
    raw.i_xattr_nid.set(0);
    raw.i_ext.len.set(0);
    raw.i_dir_level = 0;
    raw.i_nid.iter_mut().for_each(|n| n.set(0));
    raw.footer = RawNodeFooter::new(Nid(ino), Nid(ino), 0, false);
    let version = state.vol.nat.entry(Nid(ino)).version;
    let node = Node { addr: BlockAddr::NULL, owner: ino, ino, ofs: 0, version, cp_ver: 0, reached: true };
    state.nodes.insert(ino, node);
    state.edits.insert(ino, block);
    state.inodes.insert(ino);
    Ok(())
}
