//! Compressed files. Data is compressed in clusters of 4 to 256 blocks (S); the slots of a cluster are in one
//! node.
//!
//! A *packed* cluster has `COMPRESS_ADDR` in its first slot, the addresses of its n < S stored blocks in the
//! next slots, and `NEW_ADDR` in the rest, so that S blocks stay counted and a change never lacks space. Any
//! other cluster is *plain*, like blocks of other files. Three rules hold for a packed cluster:
//! * Either none of its pages is cached, or all S are dirty or under writeback. So a change first loads the whole cluster
//!   (`open`), and reads take it from its pages or unpack it (`read`).
//! * Only a flush changes its form, and it changes all S slots inside one hold of their node (`flush`). The
//!   blocks written before are published only if none of the S pages was dropped meanwhile.
//! * Operations that drop a part of its pages exclude flushes (`Inode::exclude_flush`), since a flush may be about to pack it.
mod flush;
mod open;
mod parameters;
mod publish;
mod read;
mod space;

pub use flush::Cluster;
pub use open::Opened;
pub use parameters::Parameters;
pub use publish::PackedClusters;
pub use space::{check_compressed, check_release, saved_blocks};

use super::Inode;
use crate::error::Error;
use segno_format::inode::RawInode;
use segno_format::{BlockAddr, Corrupt, Structure};
use std::ops::Range;

/// Blocks in a cluster of a compressed file.
pub fn cluster_blocks(inode: &Inode) -> u64 {
    1 << inode.get(RawInode::extra).i_log_cluster_size.min(8)
}

/// The cluster that a block belongs to.
fn cluster_of(block: u64, len: u64) -> Range<u64> {
    let first = block - block % len;
    first..first.saturating_add(len)
}

/// Blocks that a cluster with these slots saves.
fn saved(slots: &[BlockAddr]) -> u64 {
    if slots.first() == Some(&BlockAddr::COMPRESS) {
        slots.iter().filter(|a| !a.is_real()).count() as u64
    } else {
        0
    }
}

fn bad_cluster(inode: &Inode, why: &'static str, found: usize, expected: usize) -> Error {
    Corrupt::nid(Structure::Cluster, inode.ino.0, why, found as u64, expected as u64).into()
}
