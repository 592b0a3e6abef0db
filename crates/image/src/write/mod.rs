//! Writes a tree as a volume, without an engine: data first, then nodes, then the tables that describe both.
//!
//! Addresses within the main area are given in one order by one thread, so nothing depends on how many threads read and
//! compress. Only when all data is placed is the size of the volume chosen, and with it where the main area begins.
mod body;
mod data;
mod dirs;
mod files;
mod footer;
mod index;
mod inode;
mod main_area;
mod nodes;
mod ordered;
mod owners;
mod plan;
mod progress;
mod size;
mod tables;
mod volume;
mod xattr;

pub use volume::Report;
pub(crate) use volume::write;

/// Blocks and segments in types that arithmetic needs.
pub(crate) const BLOCK: u64 = segno_format::BLOCK_SIZE as u64;
pub(crate) const SEGMENT_BLOCKS: u64 = segno_format::BLOCKS_PER_SEG as u64;
pub(crate) const SEGMENT: u64 = SEGMENT_BLOCKS * BLOCK;
