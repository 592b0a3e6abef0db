//! Comparison with dumps of f2fs-tools.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

mod compare;
