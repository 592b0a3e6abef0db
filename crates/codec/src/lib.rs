//! Byte-level codecs of the F2FS format: compression of clusters, and folding of names.
//!
//! Everything here is a pure function of its arguments: no I/O, no state, and a defined result for every input.

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod casefold;
mod cluster;
mod compression;
mod error;
pub mod lzo;

pub use casefold::{CasefoldError, casefold, casefolded_name_hash};
pub use cluster::{ClusterEncoder, LevelError, check_level};
pub use compression::{Algorithm, decompress};
pub use error::CodecError;
