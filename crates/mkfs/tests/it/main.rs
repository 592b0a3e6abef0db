//! Formats the same image with `mkfs.f2fs` and with this crate and compares the volumes byte for byte.
//!
//! Needs f2fs-tools 1.15 on the machine: without them the tests fail, so that a skipped comparison is not
//! taken for success.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod beyond;
mod compare;
mod contents;
mod cuts;
mod guard;
mod matrix;
mod overwrite;
