//! Repair of F2FS volumes: a plan computed in memory, and its writer.
//!
//! [`plan()`] reads a damaged volume, decides which structures to trust, and computes the blocks of a volume
//! without errors. Changed nodes and blocks get new places, tables their other copy, and the checkpoint pack
//! that is not in force is written last, so that [`Plan::apply`] leaves the old or the repaired volume
//! wherever it is cut. Only the blocks of the plan are written.
//!
//! Evidence counts: the NAT, the footer of a node, the pointer to it, the summary of its block and the SIT
//! record the same fact in different places, and the majority is right. A file never gets a block on the
//! evidence of a damaged pointer alone.
//!
//! Memory: a few bits for each block of the main area, about 150 bytes for each node and 200 for each name.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod action;
mod blocks;
mod copies;
mod crc;
mod data_blocks;
mod dentry_ino;
mod dir;
mod error;
mod evidence;
mod extra;
mod fields;
mod finish;
mod inventory;
mod layout;
mod logs;
mod names;
mod node;
mod older;
mod pack;
mod paths;
mod plan;
mod quota;
mod rebuild;
mod resolve;
mod state;
mod symlink;
mod tables;
mod tree;
mod undo;
mod unowned;
mod volume;
mod writer;
mod xattr;
mod zones;

pub use action::Action;
pub use error::RepairError;
pub use plan::{Pending, PlanOptions, Replay, is_repairable, plan};
pub use undo::Undo;
pub use writer::Plan;
