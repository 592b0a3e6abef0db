//! Checkpoints: reading the pack a mount starts from, and writing the next one.
mod counts;
mod freeze;
mod pack;
mod since;
mod write;

pub use counts::Counts;
pub use freeze::{Frozen, UnderWay};
pub use pack::{Pack, read_pack};
pub use since::SinceCheckpoint;
pub use write::{CpState, Reason, stamp};
