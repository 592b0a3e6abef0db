//! The structures before the main area: what a checkpoint pack, a NAT, a SIT, a set of summaries is, read from blocks and encoded into
//! blocks in one place.
//!
//! Nothing here decides when or in which order something is written; blocks come from a [`Reader`]. Every function is total: any blocks
//! give a value or a [`Corrupt`](segno_format::Corrupt).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

extern crate alloc;

mod encode;
mod nat;
mod nat_bits;
mod pack;
mod reader;
mod sit;
mod ssa;
mod summaries;
mod superblocks;

pub use encode::{Contents, Encoded, Unencodable};
pub use nat::{Nat, NatState};
pub use nat_bits::nat_bits;
pub use pack::{Pack, Packs};
pub use reader::{Reader, certain};
pub use sit::Sit;
pub use ssa::{Owner, Ssa};
pub use summaries::Summaries;
pub use superblocks::Superblocks;
