//! Serves a volume to a virtual machine: a virtiofs device over vhost-user, the third transport of the server in
//! `segno-fuse`.
//!
//! The monitor of the machine (QEMU, Cloud Hypervisor …) connects to a socket and passes the guest's memory
//! and rings. A thread takes requests from the rings, others serve them. The transport copies bytes between
//! guest memory and buffers and does not interpret them.
//!
//! A guest is not trusted. It may change its memory at any time, so each descriptor is read once, and a
//! request is copied before it is parsed. A protocol violation ends the session with [`End::Failed`], which
//! has the reason.

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod chain;
mod config;
mod device;
mod export;
#[cfg(test)]
mod fuzz;
mod pool;
mod socket;

pub use config::{Tag, TagError};
pub use device::End;
pub use export::{Export, Stopper};
pub use socket::Socket;
