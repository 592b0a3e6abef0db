//! Sections, as input of the policies.

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
