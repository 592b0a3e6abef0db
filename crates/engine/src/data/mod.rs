//! Data of files and directories: the index tree, cached blocks, writing them out.
//!
//! Three orders keep data and index in step while operations and flushes run side by side:
//! * a dirty page has a reserved slot: the slot is reserved before the page is made, and the page is dropped before the
//!   slot, or the node it is in, is freed;
//! * a slot is given its new address only after the block was written, and only while its page is still the one that was
//!   written; both are looked at under the lock of the pages. With the gate closed a checkpoint places blocks of
//!   directories the other way round, and holds them until they are written;
//! * readers take no part: they read, then look again whether the slot still names the address they read.
mod access;
mod batch;
mod block;
mod compress;
mod copy;
mod fallocate;
mod flush;
mod grow;
mod index;
mod inline;
mod read;
mod seek;
mod shift;
mod size;
mod slots;
mod together;
mod truncate;
mod write;

pub(crate) use batch::{Batch, Reason};
pub(crate) use together::Together;

#[cfg(test)]
pub(crate) mod test_rig;
