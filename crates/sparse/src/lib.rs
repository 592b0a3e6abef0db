//! The Android sparse image format: a header and chunks of raw, repeated, absent and checksum blocks.
//!
//! [`Index`] reads a sparse image in place, [`Writer`] writes one, [`pack`] and [`unpack`] convert files. An index is checked as
//! a whole when it is read: each field of the input is compared with the length of the file before it is used.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod convert;
mod crc;
mod error;
mod format;
mod index;
mod writer;

pub use convert::{Checksum, pack, unpack};
pub use error::SparseError;
pub use format::{DEFAULT_BLOCK_SIZE, MAGIC};
pub use index::{Extent, Index, Kind};
pub use writer::{RAW_MAX, Writer};
