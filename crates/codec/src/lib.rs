//! Byte-level codecs of the F2FS format: compression of clusters, and folding of names.
//!
//! Everything here is a pure function of its arguments: no I/O, no state, and a defined result for every input. Decoding needs `alloc`, and
//! `std` only for the features `casefold` and `compress`.

#![cfg_attr(not(any(test, feature = "casefold", feature = "compress")), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

extern crate alloc;

mod algorithm;
#[cfg(feature = "casefold")]
mod casefold;
#[cfg_attr(not(feature = "compress"), path = "cluster/absent.rs")]
mod cluster;
mod compression;
mod error;
pub mod lzo;
mod zstd;

pub use algorithm::Algorithm;
#[cfg(feature = "casefold")]
pub use casefold::{CasefoldError, casefold, casefolded_name_hash};
pub use cluster::{ClusterEncoder, LevelError, check_level};
pub use compression::{decompress, decompress_portable};
pub use error::CodecError;
