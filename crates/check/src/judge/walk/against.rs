//! The walk's reference for nodes, data blocks and names: the summaries or the ledger.
use super::named;
use crate::CheckError;
use crate::evidence::{Bitmap, Item, Ledger};
use crate::judge::summaries::{Expected, Summaries};
use crate::report::Sink;

pub(super) enum Against<'v> {
    /// The summaries, compared one by one to report each error.
    Summaries(Summaries<'v>),
    /// The ledger, which only shows whether there is an error.
    Ledger {
        ledger: Ledger,
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
            Self::Ledger { ledger, .. } if want.is_node => {
                ledger.find(Item::node(want.owner.nid(), want.ino, want.addr));
            }
            Self::Ledger { ledger, .. } => ledger.find_owner(want.addr, want.owner),
        }
        Ok(())
    }

    /// Whether only the name of an inode is left to be found.
    pub(super) fn is_settled(&self, ino: u32) -> bool {
        matches!(self, Self::Ledger { settled, .. } if settled.contains(ino.into()))
    }

    /// Notes the name of a settled inode.
    pub(super) fn name(&mut self, ino: u32, parent: u32, file_type: u8) {
        if let Self::Ledger { ledger, .. } = self {
            ledger.find(named::name(ino, parent, file_type));
        }
    }
}
