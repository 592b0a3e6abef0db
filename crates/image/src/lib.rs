//! Builds an F2FS image from a directory tree, without a mount and without privileges.
//!
//! The image is a function of the names, attributes and bytes of the tree, of the options, and of the version of this
//! crate: entries are created in the order of their paths by one thread, with a clock that stands at each entry's own
//! time, and the volume id is derived from the tree. Trees larger than the engine's cache are an exception: what it writes
//! back early may then depend on the machine. Either everything in the tree is in the image, or the build fails.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod build;
mod clock;
mod content;
mod error;
mod estimate;
mod identity;
mod options;
mod scan;
mod size;
mod tree;
mod writer;

pub use build::{Progress, Report, build};
pub use error::{Error, Result};
pub use options::{BuildOptions, Exclude, Headroom, Owner, Size};
