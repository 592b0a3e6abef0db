//! The F2FS on-disk format: plain types, checked at compile time.
//!
//! Nothing here does I/O. Raw structures mirror the bytes; a `parse` or `check` step turns them into values that the
//! rest of the program may trust. Every function is total: any bytes give a value or a [`Corrupt`], never a panic.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

extern crate alloc;

pub mod addr;
pub mod bits;
pub mod block;
pub mod checkpoint;
pub mod cluster;
mod crc;
pub mod dentry;
pub mod error;
pub mod features;
pub mod geometry;
pub mod inode;
mod name_hash;
pub mod nat;
pub mod node;
pub mod orphan;
pub mod pack;
pub mod quota;
pub mod rdev;
pub mod record;
pub mod sit;
pub mod size;
pub mod summary;
pub mod superblock;
pub mod support;
pub mod text;
pub mod xattr;

pub use addr::{BlockAddr, Ino, Nid, SecNo, SegNo};
pub use block::{ADDRS_PER_BLOCK, BLOCK_SIZE, BLOCKS_PER_SEG, Block, F2FS_MAGIC, NAME_MAX, set_word, word};
pub use crc::crc;
pub use error::{Corrupt, Structure, Unit};
pub use features::Features;
pub use geometry::Geometry;
pub use name_hash::{folded_name_hash, name_hash};
pub use support::Unsupported;
