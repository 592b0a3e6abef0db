//! A mounted F2FS volume as a library: open a device, perform POSIX operations by inode number, unmount.
//!
//! ARCHITECTURE.md in the repository root describes the write and fsync paths, the lock ranks, and why a power cut at
//! any moment is safe.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

pub mod clock;
mod clock_cache;
pub mod error;
pub mod options;
pub mod stat;
pub mod types;

mod admission;
mod base;
mod block;
mod commit;
mod files;
mod gc;
mod health;
mod lock;
mod memory;
mod meta;
mod names;
mod nodes;
mod notice;
mod recovery;
mod room;
mod space;
mod sync;
mod times;
mod transaction;
mod volume;
mod writeback;

pub use clock::{Clock, SystemClock};
pub use error::{Error, Result};
pub use files::Visits;
pub use gc::{Mode as GcMode, TrimRange};
pub use names::temperature;
pub use names::xattr::Acl;
pub use notice::{Notice, Observer};
pub use options::{CompressMode, Compression, ContextSetting, MountOptions};
pub use segno_journal::{Area as JournalArea, Stale};
pub use types::{
    Attr, DirEntry, Extent, ExtentKind, FallocMode, Owner, RenameMode, SetAttr, StatFs, Time, XattrMode,
};
#[cfg(feature = "lab")]
pub use volume::lab;
pub use volume::{Background, Shutdown, Volume, give_up_journal};
