//! The FUSE protocol of Linux: message layouts, operation codes, flags. Integers have native endianness.
#![allow(missing_docs, reason = "names are those of the kernel")]

mod flags;
mod messages;
mod opcode;

pub use flags::{
    FattrValid, GETATTR_FH, InitFlags, OpenedFlags, SETXATTR_ACL_KILL_SGID, WRITE_CACHE, WRITE_KILL_SUIDGID,
};
pub use messages::*;
pub use opcode::Opcode;

/// The protocol version spoken: 7.45 is Linux 6.18.
pub const MAJOR: u32 = 7;
pub const MINOR: u32 = 45;
/// The oldest minor version served: Linux 5.4. Layouts have not changed since.
pub const MINOR_MIN: u32 = 31;
/// The code of a notification that a cached inode is stale.
pub const NOTIFY_INVAL_INODE: i32 = 2;
/// The node number of the root directory.
pub const ROOT: u64 = 1;
