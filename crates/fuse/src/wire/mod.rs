//! The FUSE protocol of Linux: message layouts, operation codes, flags. Integers have native endianness.
mod flags;
mod messages;
mod opcode;

pub(crate) use flags::{
    FattrValid, GETATTR_FH, InitFlags, OpenedFlags, SETXATTR_ACL_KILL_SGID, WRITE_CACHE, WRITE_KILL_SUIDGID,
};
pub(crate) use messages::*;
pub(crate) use opcode::Opcode;

/// The protocol version spoken: 7.45 is Linux 6.18.
pub(crate) const MAJOR: u32 = 7;
pub(crate) const MINOR: u32 = 45;
/// The oldest minor version served: Linux 5.4. Layouts have not changed since.
pub(crate) const MINOR_MIN: u32 = 31;
/// The code of a notification that a cached inode is stale.
pub(crate) const NOTIFY_INVAL_INODE: i32 = 2;
/// The node number of the root directory.
pub(crate) const ROOT: u64 = 1;
