//! Devices as their callers see them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

mod file;
mod holes;
mod memory;
mod multi;
mod openers;
mod overlay;
mod volume;
