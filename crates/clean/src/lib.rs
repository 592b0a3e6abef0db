//! Cleaning without storage: which section to empty ([`policy`]), the index that finds it without a scan
//! ([`Index`]), when and how much is moved ([`pace`]), the space to be kept ([`need`]), the reserve that
//! guarantees it ([`guard`]), and which log a block goes to ([`lifetime`]). The mounted volume and the
//! block-count model of `segno bench gc` share this code.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod ages;
pub mod batch;
mod buckets;
pub mod guard;
mod index;
pub mod lifetime;
pub mod need;
pub mod pace;
mod paged;
pub mod policy;
mod ranked;
mod section;

pub use ages::Ages;
pub use index::{Index, TieBreak};
pub use paged::Paged;
pub use section::{BLOCKS_PER_SEG, Candidate, Class};
