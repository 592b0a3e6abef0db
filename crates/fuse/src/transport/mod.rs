//! Transports: how requests arrive from the kernel and how replies return.
pub(crate) mod classic;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod scheduling;
pub(crate) mod uring;
