//! The structures before the main area: checkpoint packs, NAT, SIT and summaries, decoded from blocks and
//! encoded into blocks in one place.
//!
//! The crate does not decide when or in which order blocks are written; it reads them through a [`Reader`].
//! Every function is total: for any blocks it returns a value or a [`Corrupt`](segno_format::Corrupt).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

extern crate alloc;

mod chain;
mod checked;
mod encode;
mod journals;
mod nat;
mod nat_bits;
mod pack;
mod reader;
mod sit;
mod ssa;
mod stamp;
mod summaries;
mod superblocks;
mod tables;

pub use chain::{Chain, ChainEnd, Link};
pub use checked::{check_checkpoint, check_follows};
pub use encode::{Contents, Encoded, Unencodable};
pub use journals::{NatChanges, nat_entries, sit_entries};
pub use nat::{Nat, NatState};
pub use nat_bits::nat_bits;
pub use pack::{Pack, Packs, readable_pack};
pub use reader::{Reader, certain};
pub use sit::Sit;
pub use ssa::{Owner, Ssa};
pub use stamp::Stamp;
pub use summaries::Summaries;
pub use superblocks::{NoSuperblock, Superblocks, superblock_in_force};
pub use tables::{flip, nat_block, sit_block};
