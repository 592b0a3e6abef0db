//! Judging inode blocks alone: most are plain files without other nodes, and have no errors.
use super::file::File;
use super::named::Named;
use super::{fields, inline, node, special, symlink, xattr};
use crate::evidence::Volume;
use crate::judge::quota::payers;
use segno_format::dentry::FileType;
use segno_format::inode::{Inline, RawInode, verify_checksum};
use segno_format::quota::QUOTA_KINDS;
use segno_format::{Block, BlockAddr, Ino};

/// A consistent inode without other nodes.
pub(super) struct Simple {
    pub named: Named,
    /// Slots that count without a place.
    pub reserved: u32,
    pub payers: [u32; QUOTA_KINDS],
    /// Blocks that i_blocks counts.
    pub blocks: u64,
}

/// Judges an inode; its data blocks, with their slots, are added to `data`. `None` where the walk has to read
/// the block itself: for directories, files with more nodes, compressed ones, and wherever there may be
/// something to report.
pub(super) fn judge(
    volume: &Volume<'_>,
    ino: Ino,
    block: &Block,
    data: &mut Vec<(BlockAddr, u16)>,
) -> Option<Simple> {
    let raw: &RawInode = block.view();
    let (features, seed) = (volume.sb.features, volume.sb.inode_checksum_seed());
    let special_nodes = raw.i_xattr_nid.get() != 0 || raw.i_nid.iter().any(|n| n.get() != 0);
    if raw.is_dir() || special_nodes {
        return None;
    }
    raw.footer.check(ino.nid(), ino).ok()?;
    verify_checksum(block, features, seed).ok()?;
    let layout = raw.layout(features).ok()?;
    let mut file = File::new(ino.0, raw, layout, features);
    let clean = node::cold_bit(ino.nid(), block, false).is_none()
        && fields::check(&file, raw, &volume.sb).hold()
        && xattr::check(&file, block, None).hold();
    if !clean || file.cluster != 0 {
        return None;
    }
    let mut reserved = 0;
    let contents = match FileType::of_mode(raw.i_mode.get()) {
        FileType::Regular | FileType::Symlink if raw.inline().intersects(Inline::DATA | Inline::DENTRY) => {
            inline::check(&file, block).hold() && symlink::inline_problem(&file, block).is_none()
        }
        FileType::Regular => slots(&mut file, block, data).map(|n| reserved = n).is_some(),
        FileType::Symlink | FileType::Directory | FileType::Unknown => false,
        kind => special::check(&file, raw, kind).hold(),
    };
    let agrees = contents && file.counts(raw, features).hold();
    let (named, payers) = (Named::of(raw), payers(raw, features));
    agrees.then_some(Simple { named, reserved, payers, blocks: file.blocks })
}

/// Adds the data blocks of an inode; the number of its reserved slots, or `None` if it is part of a
/// compressed cluster.
fn slots(file: &mut File, block: &Block, data: &mut Vec<(BlockAddr, u16)>) -> Option<u32> {
    let area =
        block.0.get(file.layout.base()..file.layout.slot_offset(file.layout.slots)).unwrap_or_default();
    let mut reserved = 0u32;
    // An inode has fewer than 2^16 slots.
    for (i, word) in (0u16..).zip(area.as_chunks::<4>().0) {
        match BlockAddr(u32::from_le_bytes(*word)) {
            BlockAddr::NULL => continue,
            BlockAddr::COMPRESS => return None,
            BlockAddr::NEW => reserved = reserved.saturating_add(1),
            addr => {
                file.note(i.into(), addr);
                data.push((addr, i));
            }
        }
        file.blocks = file.blocks.saturating_add(1);
    }
    Some(reserved)
}
