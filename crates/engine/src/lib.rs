//! The mounted F2FS volume as a library: open a device, do POSIX operations by inode number, unmount.
//!
//! ARCHITECTURE.md in the repository root tells the way of a write and of an fsync through these modules, the lock
//! ranks, and why a power cut at any moment is safe.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

pub mod clock;
mod clock_cache;
pub mod error;
pub mod options;
pub mod planted;
pub mod stat;
pub mod types;

mod checkpoint;
mod data;
mod dir;
mod fsync;
mod gate;
mod gc;
mod inode;
mod journal;
mod lock;
mod memory;
mod meta;
mod namei;
mod nat;
mod node;
mod notice;
mod page;
mod quota;
mod recovery;
mod runtime;
mod segment;
mod sync;
mod volume;
mod writeback;
mod xattr;

pub use clock::{Clock, SystemClock};
pub use error::{Error, Result};
pub use gc::{Mode as GcMode, TrimRange};
pub use notice::{Notice, Observer};
pub use options::MountOptions;
pub use runtime::Background;
pub use segno_journal::{Area as JournalArea, Stale};
pub use types::{
    Attr, DirEntry, Extent, ExtentKind, FallocMode, Owner, RenameMode, SetAttr, StatFs, Time, XattrMode,
};
pub use volume::{Shutdown, Volume, unguard};
pub use writeback::Setting as ContextSetting;
