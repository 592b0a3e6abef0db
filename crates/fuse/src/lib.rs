//! FUSE front end, the only crate of the product that depends on the FUSE protocol. It translates between requests and calls of the
//! engine, and leaves every decision that the engine can make to the engine.
//!
//! The protocol layer (`wire`, `request`, `reply`, `server`) does not depend on the transport; the transports
//! (`/dev/fuse`, io_uring, and virtiofs in a separate crate, which uses `guest`) do not interpret requests.

#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod attr;
mod authority;
mod bdi;
mod block;
mod broker;
mod caller;
mod callers;
mod control;
mod data;
mod file_system;
mod guest;
mod handlers;
mod heap;
mod init;
mod ioctl;
mod kernel;
mod killpriv;
mod list;
mod loop_device;
mod mount;
mod mount_id;
mod mountpoint;
mod name_cache;
mod notify;
mod options;
mod origin;
mod ownership;
mod page_cache;
mod probe;
mod reply;
mod request;
mod resident;
mod serve;
mod server;
mod session;
mod stop;
mod system_log;
#[cfg(test)]
mod tests;
mod times;
mod traffic;
mod transport;
mod wire;
mod write_errors;

pub use block::{Backing, MountType};
pub use broker::{Broker, run_broker_if_called};
pub use control::{
    CONTEXTS_XATTR, EXTENTS_XATTR, GC_XATTR, LOOKUP_XATTR, OPTIONS_XATTR, SERVER_XATTR, SHUTDOWN_XATTR,
    STATS_XATTR, SYNC_XATTR, trusted_name,
};
pub use file_system::{Connection, FileSystem};
pub use guest::{Buffers, GuestOptions, GuestServer, MalformedRequest};
pub use heap::share as share_heap;
pub use kernel::version as kernel_version;
pub use loop_device::image_behind;
pub use mount::detach_dead;
pub use mountpoint::mountpoint;
pub use options::{AtDeath, Choice, FLAGS, Flag, FuseOptions, OPTIONS};
pub use ownership::Ownership;
pub use page_cache::PageCache;
pub use probe::probe_no_open;
pub use resident::release_memory;
pub use serve::{Serving, Started, Unmounter};
pub use session::{Queues, Transport};
pub use stop::shut_down_read_only;
pub use system_log::{Severity, SystemLog};
pub use traffic::Traffic;
pub use transport::scheduling::permit_sched_idle;

/// Messages of the protocol, for sessions that serve other file systems than volumes.
pub mod protocol {
    pub use crate::attr::{AttrCaching, FOREVER, attr_out, entry_out, ino_of, no_entry, rdev_of};
    pub use crate::handlers::{opened, xattr};
    pub use crate::list::Page;
    pub use crate::probe::NoOpenProbe;
    pub use crate::reply::Reply;
    pub use crate::request::Request;
    pub use crate::wire::*;
}
