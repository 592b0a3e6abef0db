//! Transports: how requests arrive from the kernel and how replies return.
mod affinity;
pub(crate) mod classic;
pub(crate) mod colocation;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod sched_idle;
mod slice;
pub(crate) mod uring;
