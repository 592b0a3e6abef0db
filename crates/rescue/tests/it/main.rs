//! Rescue and undelete of volumes that the library made. The rescued tree must be the tree that the test
//! wrote.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

mod deleted;
mod details;
mod fixture;
mod holes;
mod ranks;
mod wiped;
