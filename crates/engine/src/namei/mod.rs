//! Operations on names and inodes. Each is inside one checkpoint or outside it, never half.
//!
//! The order in all of them: make room with nothing held; look up; lock the inodes in ascending order and look again;
//! check everything that may refuse; enter the gate; first the steps that may still fail for want of space, then those
//! that cannot. An inode that lost its last name is freed afterwards, with nothing held.
mod attr;
mod create;
mod extension;
mod flags;
mod hold;
mod inherit;
mod link;
mod locks;
mod new;
mod open;
mod orphan;
mod perm;
mod rename;
mod rename_steps;
mod times;
mod unlink;

pub(crate) use flags::enable_compression;
pub(crate) use hold::Holds;
pub(crate) use times::{set_atime, set_ctime, set_mtime};
