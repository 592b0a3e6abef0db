//! What the walk holds nodes, data blocks and names against.
use super::named;
use crate::CheckError;
use crate::evidence::{Bitmap, Item, Ledger};
use crate::judge::summaries::{Expected, Summaries};
use crate::report::Sink;
use segno_format::summary::RawSummary;
use segno_format::{BlockAddr, Nid};

pub(super) enum Against<'v> {
    /// The summaries, one after the other, to say what is wrong.
    Summaries(Summaries<'v>),
    /// The ledger, to say whether anything is wrong.
    Ledger {
        ledger: Ledger,
        /// Inodes of which only the name is left to be found.
        settled: Bitmap,
    },
}

impl Against<'_> {
    /// Notes a node that was read where the NAT has it.
    pub(super) fn node(
        &mut self,
        nid: Nid,
        ino: u32,
        addr: BlockAddr,
        sink: &mut Sink,
    ) -> Result<(), CheckError> {
        match self {
            Self::Summaries(summaries) => {
                summaries.compare(Expected { addr, ino, owner: RawSummary::node(nid), is_node: true }, sink)
            }
            Self::Ledger { ledger, .. } => {
                ledger.find(Item::node(nid, ino, addr));
                Ok(())
            }
        }
    }

    /// Notes a valid data block that a slot names.
    pub(super) fn data_block(
        &mut self,
        addr: BlockAddr,
        ino: u32,
        owner: RawSummary,
        sink: &mut Sink,
    ) -> Result<(), CheckError> {
        match self {
            Self::Summaries(summaries) => {
                summaries.compare(Expected { addr, ino, owner, is_node: false }, sink)
            }
            Self::Ledger { ledger, .. } => {
                ledger.find_owner(addr, owner);
                Ok(())
            }
        }
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
