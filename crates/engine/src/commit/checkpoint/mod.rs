//! Checkpoints: reading the pack at mount, and writing the next one.
mod freeze;
mod pack;
mod write;

pub use freeze::{Frozen, InProgress};
pub use pack::read_pack;
pub use write::{CheckpointReason, CpState};
