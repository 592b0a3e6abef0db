//! Builds an F2FS image from a directory, a tar archive or another image, and takes trees out of images again, without a mount
//! and without privileges.
//!
//! The image is a function of the names, attributes and bytes of the tree, of the options, and of the version of this
//! crate: the tree is sorted, every block gets its address in one order on one thread, all inodes have the time of the source,
//! and the volume id is derived from the tree. Either everything in the tree is in the image, or the build fails.
//!
//! Nothing is mounted: data, nodes and tables are written once, straight to their places, which also allows the layout of
//! read-only volumes and compressed files.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod build;
mod content;
mod error;
mod extract;
#[cfg(test)]
mod fuzz;
mod identity;
mod meta;
mod new_file;
mod options;
mod order;
mod progress;
mod source;
mod sparse;
mod tree;
mod write;

pub use build::build;
pub use error::{Error, Result};
pub use extract::{ExtractOptions, Extracted, Target, extract};
pub use new_file::NewFile;
pub use options::{BuildOptions, Compression, Exclude, Headroom, Metadata, Owner, Size};
pub use progress::Progress;
pub use segno_host::{LeftOut, Preserve};
pub use source::{OpenImage, OpenSource, Source};
pub use write::Report;
