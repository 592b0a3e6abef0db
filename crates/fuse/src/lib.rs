//! FUSE front end: the only crate that knows FUSE. It translates requests into calls of the engine and back, and decides
//! nothing that the engine could decide.
//!
//! The protocol layer (`wire`, `request`, `reply`, `server`) does not know how a request came; the transports
//! (`/dev/fuse`, io_uring) do not know what it asks.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod attr;
mod control;
mod data;
mod heap;
mod init;
mod ioctl;
mod lesson;
mod list;
mod mount;
mod reply;
mod request;
mod serve;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod transport;
mod wire;

pub use control::{CONTEXTS_XATTR, EXTENTS_XATTR, GC_XATTR, LOOKUP_XATTR, STATS_XATTR};
pub use heap::share as share_heap;
pub use lesson::teach_silence;
pub use serve::{FuseOptions, serve};
pub use session::{Choice, Transport};
