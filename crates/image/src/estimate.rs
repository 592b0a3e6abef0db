//! A first guess of the space that a tree takes. The build then measures.
use crate::tree::{Kind, Tree};
use segno_format::BLOCK_SIZE;

/// Content up to this size is in the inode.
const INLINE: u64 = 3_400;
/// Addresses in a direct node.
const SLOTS: u64 = 1_018;
/// Mean bytes of an entry in the dentry blocks of a directory, which are half full.
const DENTRY: u64 = 64;

/// Blocks of nodes and data.
pub(crate) fn blocks(tree: &Tree) -> u64 {
    let each = tree.entries.iter().map(|entry| match &entry.kind {
        Kind::File(source) if source.size > INLINE => {
            let data = source.size.div_ceil(BLOCK_SIZE as u64);
            data + data / SLOTS + 2
        }
        _ => 1,
    });
    each.sum::<u64>() + tree.entries.len() as u64 * DENTRY / BLOCK_SIZE as u64
}
