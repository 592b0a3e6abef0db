//! Directories and files of clean F2FS volumes, over a trait [`ReadAt`], without `std`.
//!
//! ```
//! # fn main() -> Result<(), segno_read::Error<segno_read::OutOfRange>> {
//! # let image: &[u8] = &[0; 16384];
//! let Err(error) = segno_read::Volume::open(image) else { return Ok(()) };
//! assert!(error.to_string().starts_with("corrupt superblock at block 0"), "{error}");
//! # Ok(())
//! # }
//! ```
//!
//! Any bytes give a value or an [`Error`]; every loop has a bound that does not depend on the source's contents alone.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::indexing_slicing)]

extern crate alloc;

mod cluster;
mod directory;
mod error;
mod file;
mod node;
mod source;
mod volume;

pub use directory::Entry;
pub use error::Error;
pub use node::Inode;
pub use segno_codec::Algorithm;
pub use segno_format::dentry::FileType;
pub use source::{OutOfRange, ReadAt};
pub use volume::Volume;
