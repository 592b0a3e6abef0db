//! Integration tests of the engine: each formats a device in memory, runs operations, and checks the result with the
//! checker.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

mod common;
mod concurrent;
mod data;
mod discard;
mod fsync;
mod gc;
mod journal;
mod memory;
mod mount;
mod names;
mod node_limit;
mod quota;
mod read_only;
mod records;
mod recovery;
mod runtime;
mod shutdown;
mod writeback;
mod zoned;
