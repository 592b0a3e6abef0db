//! Cleaning without storage: which section to empty ([`policy`]), the index that finds it without a scan ([`Index`]), when
//! and how much is moved ([`pace`]), the space to be kept ([`need`]), the reserve that guarantees it ([`guard`]), and which
//! log a block goes to ([`lifetime`]).
//! The mounted volume and the block-count model of `segno bench gc` share this code.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod ages;
pub mod batch;
pub mod guard;
mod index;
pub mod lifetime;
pub mod need;
mod openings;
pub mod pace;
mod paged;
pub mod policy;
mod ranked;

pub use ages::Ages;
pub use index::{Index, Tie};
pub use paged::Paged;

/// Blocks in a segment.
pub const BLOCKS_PER_SEG: u32 = 512;

/// Contents of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Data blocks.
    Data,
    /// Node blocks.
    Node,
}

impl Class {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Data, Self::Node];
}

/// A section that can be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Section number.
    pub sec: u32,
    /// Class of its blocks.
    pub class: Class,
    /// Number of valid blocks.
    pub valid: u32,
    /// Mean age stamp of its segments, on the SIT clock.
    pub mtime: u64,
}
