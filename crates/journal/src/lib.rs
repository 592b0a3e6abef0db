//! The metadata journal: changes since the last checkpoint, in a ring outside the F2FS volume.
//!
//! The volume itself stays a plain F2FS volume, whose last checkpoint the journal never touches. After a
//! crash
//!
//! > state = last checkpoint + replay of the accepted groups, in log order, without sections of epochs up to
//! > its boundary.
//!
//! # Duties of the caller
//!
//! * All records of an operation have the same epoch and are in one group: that of the epoch, or one before
//!   it.
//! * An epoch is written as one [`Kind::Epoch`] group after all its operations have ended. [`Kind::Fsync`]
//!   groups may contain parts of it earlier: complete operations with everything they depend on.
//! * A block that a [`record::Mapping`] has is written and flushed before the group is appended, or the mapping has
//!   its checksum. With the checksum one [`Journal::flush`] covers both if the journal is on the volume's
//!   device; otherwise the volume's device is flushed first.
//! * A block or nid that was freed since the last checkpoint is not used again before the next one is
//!   durable.
//! * Before the last block of a checkpoint is written, [`Journal::intend`] has announced it and
//!   [`Journal::flush`] has returned. When it is durable, the caller calls [`Journal::reclaim`].
//!
//! # Guarantees
//!
//! * A group is accepted as a whole or not at all, and only if every group before it is accepted. The same
//!   holds for an epoch of several groups.
//! * A group that recovery did not accept is never accepted later: groups appended from then on belong to
//!   another mount.
//! * If another program has checkpointed or written to the volume since the last group, the journal has no
//!   effect.
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
pub use payload::{Payload, PayloadSection};
pub use record::{Record, data_crc};
pub use superblock::{Canary, Checkpoint, CpIntent};
pub use vacant::{Content, Vacant};
