//! Volumes of f2fs-tools and of the engine, read through `ReadAt`; damaged ones give errors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod damage;
mod files;
