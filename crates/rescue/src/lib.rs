//! Files from damaged F2FS volumes, and deleted ones.
//!
//! Every node block ends with a footer that names its inode and its place in it. [`scan()`] reads the whole
//! source once and notes these footers. [`Volume::find`] decides which version of each node is live, with the
//! help of superblock, checkpoint packs, NAT, SIT and SSA as far as they are readable; each of them is
//! optional. [`Plan`] makes the tree of names and classifies the content of each file by certainty,
//! [`output`] copies files to a directory, and [`undelete`] copies deleted ones.
//!
//! The source is only read. Any bytes are safe input, and memory grows with the number of node blocks found.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

pub mod attrs;
mod chain;
pub mod content;
pub mod dir;
mod error;
mod features;
pub mod file;
mod geometry;
mod judge;
pub mod output;
mod reader;
mod record;
pub mod scan;
mod seed;
mod shifted;
mod tree;
pub mod undelete;
mod versions;
mod volume;

pub use chain::Chain;
pub use error::RescueError;
pub use judge::{Blocks, Class, Verdicts};
pub use reader::Reader;
pub use record::Record;
pub use scan::{Found, ScanOptions, scan};
pub use shifted::Shifted;
pub use tree::{Entry, Numbered, Tree};
pub use versions::Versions;
pub use volume::{Checked, Volume};
