//! Rescue and undelete of volumes that the library made. What has to come back is the tree that was written, which the test
//! keeps.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

mod deleted;
mod details;
mod fixture;
mod holes;
mod ranks;
mod wiped;
