//! New inodes in place of lost ones: of directories, from their blocks, which summaries name, and from the
//! parents in inodes; of the root; of quota files.
use crate::error::{RepairError, Result};
use crate::names::Name;
use crate::state::{Node, State};
use segno_format::dentry::{DentryShape, FileType};
use segno_format::inode::{Inline, InodeFlags, RawInode};
use segno_format::node::RawNodeFooter;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Ino, Nid};
use std::collections::BTreeMap;
use zerocopy::little_endian::U32;

const ROOT: u32 = Ino::ROOT.0;

/// Makes the inode of a directory that a name leads to, if anything of the directory is left; whether it is
/// there now.
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
    fill(state, ino, &blocks)?;
    state.inode(ino, |raw| raw.set_name(Ino(parent), &name.name))?;
    state.lose(
        ino,
        "the inode of the directory was lost; it is made anew, with mode 0700 and the owner of the root",
    );
    Ok(true)
}

/// Blocks of directory entries that the summaries give to slots of the inode.
fn blocks(state: &mut State<'_>, ino: u32) -> Result<BTreeMap<u32, BlockAddr>> {
    let mut out = BTreeMap::new();
    for (slot, addr) in state.slots_of_lost(ino)? {
        if is_readable(&state.vol.device.block(addr)?) {
            out.insert(slot, addr);
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

/// Makes the root and the quota files of which no version is left.
pub(crate) fn fixed(state: &mut State<'_>) -> Result<()> {
    if !state.inodes.contains(&ROOT) {
        let blocks = blocks(state, ROOT)?;
        make(state, ROOT, 0o040_755)?;
        fill(state, ROOT, &blocks)?;
        state.inode(ROOT, |raw| (raw.i_uid, raw.i_gid) = (U32::ZERO, U32::ZERO))?;
        state.lose(ROOT, "the root directory was lost; it is made anew, with mode 0755, owned by root");
    }
    for ino in state.quota_inos() {
        if state.inodes.contains(&ino) {
            continue;
        }
        if state.nodes.contains_key(&ino) {
            return Err(RepairError::refused(format!("another node has the number {ino} of a quota file")));
        }
        let blocks = state.slots_of_lost(ino)?;
        make(state, ino, 0o100_600)?;
        fill(state, ino, &blocks)?;
        state.inode(ino, |raw| {
            raw.i_flags.set(InodeFlags::IMMUTABLE.bits());
            raw.i_current_depth.set(0);
        })?;
        state.lose(ino, "the inode of the quota file was lost, and is made anew");
    }
    Ok(())
}

/// Gives a new inode its blocks, and no name.
fn fill(state: &mut State<'_>, ino: u32, blocks: &BTreeMap<u32, BlockAddr>) -> Result<()> {
    let layout = state.layout(state.block(ino)?.view());
    let end = blocks.keys().next_back().map_or(0, |b| u64::from(*b) + 1);
    state.inode(ino, |raw| {
        raw.set_name(Ino(0), b"");
        raw.i_size.set(end * BLOCK_SIZE as u64);
        blocks.iter().for_each(|(&b, &addr)| raw.set_slot(&layout, b, addr));
    })?;
    Ok(())
}

/// An inode to copy sizes, times and owner from: the root, else the first.
fn template(state: &State<'_>) -> Result<Block> {
    for ino in std::iter::once(&ROOT).filter(|ino| state.inodes.contains(ino)).chain(&state.inodes) {
        let block = state.block(*ino)?;
        if block.view::<RawInode>().layout(state.vol.sb.features).is_ok() {
            return Ok(block);
        }
    }
    Err(RepairError::refused("no inode is left: `segno rescue` searches for files"))
}

/// An inode without blocks, owned as the root is.
pub(crate) fn make(state: &mut State<'_>, ino: u32, mode: u16) -> Result<()> {
    let mut block = template(state)?;
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
    raw.footer = RawNodeFooter::new(Nid(ino), Ino(ino), 0, false);
    let version = state.vol.nat.entry(Nid(ino)).version;
    let node = Node { addr: BlockAddr::NULL, owner: ino, ino, ofs: 0, version, cp_ver: 0, reached: true };
    state.nodes.insert(ino, node);
    state.edits.insert(ino, block);
    state.inodes.insert(ino);
    Ok(())
}
