//! FUSE front end: the only crate that knows FUSE. It translates requests into calls of the engine and back, and decides
//! nothing that the engine could decide.
//!
//! The protocol layer (`wire`, `request`, `reply`, `server`) does not know how a request came; the transports
//! (`/dev/fuse`, io_uring) do not know what it asks.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod attr;
mod block;
mod control;
mod data;
mod heap;
mod init;
mod ioctl;
mod kernel;
mod killpriv;
mod lesson;
mod list;
mod loop_device;
mod mount;
mod notify;
mod reply;
mod request;
mod serve;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod transport;
mod volume_ioctl;
mod wire;

pub use block::{Backing, MountType};
pub use control::{
    CONTEXTS_XATTR, EXTENTS_XATTR, GC_XATTR, LOOKUP_XATTR, SHUTDOWN_XATTR, STATS_XATTR, SYNC_XATTR,
};
pub use heap::share as share_heap;
pub use lesson::teach_silence;
pub use loop_device::image_behind;
pub use serve::{FuseOptions, Started, serve};
pub use session::{Choice, Transport};
