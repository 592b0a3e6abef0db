//! The read path: prefetch, and a cache of pieces in memory and on local disk.
pub(crate) mod cache;
mod memory;
mod prefetch;
pub(crate) mod reader;
