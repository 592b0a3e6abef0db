//! The checker against volumes made by f2fs-tools: clean ones stay clean, damage is found and named.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

mod clean;
mod damage;
mod edit;
mod hostile;
mod image;
mod legal;
