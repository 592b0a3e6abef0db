//! Footers of nodes.
use segno_format::node::RawNodeFooter;
use segno_format::{Ino, Nid};
use zerocopy::little_endian::{U32, U64};

/// Checkpoint version of nodes written before the first checkpoint.
pub(crate) const CP_VER: u64 = 1;

/// The footer of a node at a block of the volume.
pub(crate) fn footer(nid: Nid, ino: Ino, offset: u32, is_dir: bool, at: u32) -> RawNodeFooter {
    let mut footer = RawNodeFooter::new(nid, ino, offset, !is_dir);
    footer.cp_ver = U64::new(CP_VER);
    footer.next_blkaddr = U32::new(at.saturating_add(1));
    footer
}
