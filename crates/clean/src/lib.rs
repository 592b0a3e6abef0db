//! Cleaning without storage: which section to empty ([`policy`]), in what order steps follow each other ([`rounds`]), and
//! the index from which a victim is found without a scan ([`Index`]). The mounted volume and the block-count model of
//! `segno bench gc` run this same code.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod ages;
mod index;
pub mod policy;
mod ranked;
pub mod rounds;

pub use ages::Ages;
pub use index::{Index, Tie};

/// Blocks in a segment.
pub const BLOCKS_PER_SEG: u32 = 512;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    Data,
    Node,
}

impl Class {
    pub const ALL: [Self; 2] = [Self::Data, Self::Node];
}

/// A section that cleaning may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub sec: u32,
    pub class: Class,
    /// Valid blocks in it.
    pub valid: u32,
    /// Mean age stamp of its segments, on the SIT clock.
    pub mtime: u64,
}
