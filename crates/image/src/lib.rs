//! Builds F2FS images from directories and archives, and extracts them.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod new_file;

pub use new_file::{NewFile, NewFileError};
