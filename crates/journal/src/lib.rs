//! The metadata journal: what changed since the last checkpoint, in a ring beside the F2FS volume.
//!
//! The volume itself stays a plain F2FS volume, whose last checkpoint the journal never touches. After a crash
//!
//! > state = last checkpoint + replay of the accepted groups, in log order, without sections of epochs up to its boundary.
//!
//! # What the one who appends must keep
//!
//! * Every record of one operation has the same epoch, and goes out in one group or in a group before its epoch's.
//! * An epoch goes out as one [`Kind::Epoch`] group when all its operations are over. [`Kind::Fsync`] groups may take
//!   parts of it out before, complete operations with everything they depend on.
//! * A block that a [`record::Map`] names was written, and flushed, before the group is appended; or the map carries its
//!   checksum. Then one [`Journal::flush`] covers both, if the journal is on the volume's device; else the volume's device
//!   is flushed first.
//! * A block or nid that was freed since the last checkpoint is not used again before the next one is durable.
//! * Before the last block of a checkpoint is written, [`Journal::intend`] announced it and [`Journal::flush`] returned.
//!   When it is durable, [`Journal::reclaim`].
//!
//! # What the journal keeps
//!
//! * A group is accepted whole or not at all, and only if every group before it is. So is an epoch that needed several.
//! * A group that recovery did not accept is never accepted later: what is appended from then on is of another mount.
//! * If anybody else checkpointed the volume, or wrote to it, since the last group, the journal has no effect at all.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod about;
mod area;
mod bytes;
mod error;
mod group;
mod header;
mod journal;
mod missing;
mod open;
mod payload;
pub mod record;
mod ring;
mod superblock;
mod vacant;
mod zones;

pub use about::About;
pub use area::Area;
pub use error::{Error, Result};
pub use group::{Accepted, Group, Kind, Section};
pub use journal::{Journal, Position, Usage};
pub use missing::Missing;
pub use open::{Lost, Opened, Replay, Stale};
pub use payload::{Part, Payload};
pub use record::{Record, data_crc};
pub use superblock::{Canary, Checkpoint, CpIntent};
pub use vacant::{Content, Vacant};
