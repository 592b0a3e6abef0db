//! Data of an inode.
use super::index::Runs;
use crate::options::Compression;

/// An inode's data outside its own block.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) runs: Runs,
    /// Blocks of a directory from the first to the last, and levels of its hash table; zeros if it is in the inode.
    pub(crate) dir: (u32, u32),
    /// How the clusters among the runs are compressed.
    pub(crate) compression: Option<Compression>,
}
