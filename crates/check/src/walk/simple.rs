//! Judging an inode block by itself: most are plain files without nodes of their own, and nothing is wrong with them.
use super::file::{File, is_device_alias};
use super::kept::Kept;
use super::named::Named;
use super::{fields, inline, node, special, symlink, xattr};
use crate::quota::Owners;
use crate::ssa::Ssa;
use crate::volume::Volume;
use segno_format::dentry::FileType;
use segno_format::inode::{Inline, RawInode, verify_checksum};
use segno_format::summary::RawSummary;
use segno_format::{Block, BlockAddr, Nid};

/// What the walk needs of an inode with which nothing is wrong; `None` where the walk has to read the block itself: for
/// directories, files with more nodes, compressed ones, and wherever there may be something to report.
pub(super) fn judge(volume: &Volume<'_>, ssa: &mut Ssa<'_>, ino: Nid, block: &Block) -> Option<Kept> {
    let raw: &RawInode = block.view();
    let (features, seed) = (volume.sb.features, volume.sb.inode_checksum_seed());
    let special_nodes = raw.i_xattr_nid.get() != 0 || raw.i_nid.iter().any(|n| n.get() != 0);
    if raw.is_dir() || special_nodes || is_device_alias(raw, features) {
        return None;
    }
    raw.footer.check(ino, ino).ok()?;
    verify_checksum(block, features, seed).ok()?;
    let layout = raw.layout(features).ok()?;
    let mut file = File::new(ino.0, raw, layout, features);
    let clean = node::cold_bit(ino, block, false).is_none()
        && fields::check(ino.0, raw, &file.layout, &volume.sb).is_empty()
        && xattr::problems(&file, block, None).is_empty();
    if !clean || file.cluster != 0 {
        return None;
    }
    let mut kept = Kept { named: Named::of(raw), owners: Owners::of(raw, features), ..Kept::default() };
    let version = volume.nat.entry(ino).version;
    let contents = match FileType::of_mode(raw.i_mode.get()) {
        FileType::Regular | FileType::Symlink if raw.inline().intersects(Inline::DATA | Inline::DENTRY) => {
            inline::problems(&file, block).is_empty() && symlink::inline_problem(&file, block).is_none()
        }
        FileType::Regular => slots(&mut file, block, version, ssa, &mut kept),
        FileType::Symlink | FileType::Directory | FileType::Unknown => false,
        kind => special::problems(&file, raw, kind).is_empty(),
    };
    (contents && file.count_problems(raw, features).is_empty()).then_some(kept)
}

/// Notes the slots of the inode; whether each holds nothing, or a block whose summary names it.
fn slots(file: &mut File, block: &Block, version: u8, ssa: &mut Ssa<'_>, kept: &mut Kept) -> bool {
    let area =
        block.0.get(file.layout.base()..file.layout.slot_offset(file.layout.slots)).unwrap_or_default();
    // An inode has fewer than 2^16 slots.
    for (i, word) in (0u16..).zip(area.as_chunks::<4>().0) {
        let addr = BlockAddr(u32::from_le_bytes(*word));
        match addr {
            BlockAddr::NULL => continue,
            BlockAddr::COMPRESS => return false,
            BlockAddr::NEW => kept.reserved = kept.reserved.saturating_add(1),
            _ => {
                if !ssa.names(addr, RawSummary::data(Nid(file.ino), version, i)) {
                    return false;
                }
                file.note(i.into(), addr);
                match kept.runs.last_mut() {
                    Some((start, count)) if start.offset(*count) == addr => *count = count.saturating_add(1),
                    _ => kept.runs.push((addr, 1)),
                }
            }
        }
        file.blocks = file.blocks.saturating_add(1);
    }
    true
}
