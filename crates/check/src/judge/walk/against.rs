//! The walk's reference for nodes, data blocks and names: the summaries or the multiset hash.
use super::named;
use crate::CheckError;
use crate::evidence::{Bitmap, Item, MultisetHash};
use crate::judge::summaries::{Expected, Summaries};
use crate::report::Sink;

pub(super) enum Against<'v> {
    /// The summaries, compared one by one to report each error.
    Summaries(Summaries<'v>),
    /// The multiset hash, which only shows whether there is an error.
    Hash {
        hash: MultisetHash,
        /// Inodes of which only the name is left to be found.
        settled: Bitmap,
    },
}

impl Against<'_> {
    /// Notes the owner of a valid block: a node that was read where the NAT has it, or a slot that names a
    /// data block.
    pub(super) fn owner(&mut self, want: Expected, sink: &mut Sink) -> Result<(), CheckError> {
        match self {
            Self::Summaries(summaries) => return summaries.compare(want, sink),
            Self::Hash { hash, .. } if want.is_node => {
                hash.find(Item::node(want.owner.nid(), want.ino, want.addr));
            }
            Self::Hash { hash, .. } => hash.find_owner(want.addr, want.owner),
        }
        Ok(())
    }

    /// Whether only the name of an inode is left to be found.
    pub(super) fn is_settled(&self, ino: u32) -> bool {
        matches!(self, Self::Hash { settled, .. } if settled.contains(ino.into()))
    }

    /// Notes the name of a settled inode.
    pub(super) fn name(&mut self, ino: u32, parent: u32, file_type: u8) {
        if let Self::Hash { hash, .. } = self {
            hash.find(named::name(ino, parent, file_type));
        }
    }
}
