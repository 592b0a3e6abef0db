//! The structures before the main area, each read by itself: what one of them lacks does not keep the others from being
//! read.
mod nat;
mod pack;
mod sit;
mod ssa;
mod summaries;
mod superblock;

pub use nat::{Nat, NatState};
pub use pack::{Pack, Packs};
pub use sit::Sit;
pub use ssa::{Owner, Ssa};
pub use summaries::Summaries;
pub use superblock::Superblocks;

use segno_format::{Corrupt, Structure};

/// A block that the source does not have or cannot read.
pub(crate) fn unreadable(what: Structure, at: u32) -> Corrupt {
    Corrupt::block(what, at.into(), "the block cannot be read", 0, 1)
}
