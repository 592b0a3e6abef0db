//! The values that cross the engine's surface.
use segno_format::inode::InodeFlags;
use segno_format::{Ino, dentry::FileType};

/// A point in time as the format stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    pub secs: i64,
    pub nsec: u32,
}

/// Who creates a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
    /// Permission bits to withhold, unless the directory has a default ACL.
    pub umask: u16,
}

/// Variants of rename(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    #[default]
    Replace,
    NoReplace,
    Exchange,
    /// Leave a whiteout (character device 0:0) at the old name.
    Whiteout,
}

/// Variants of setxattr(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrMode {
    #[default]
    Set,
    Create,
    Replace,
}

/// Variants of fallocate(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocMode {
    Allocate,
    AllocateKeepSize,
    PunchHole,
    ZeroRange,
    ZeroRangeKeepSize,
    CollapseRange,
    InsertRange,
}

/// Where a part of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First file block.
    pub file_block: u64,
    /// Block on the volume; meaningless for `Unwritten` and `Inline`.
    pub addr: u32,
    /// Blocks.
    pub len: u64,
    pub kind: ExtentKind,
}

/// What an extent is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    Written,
    /// Reserved, reads as zeros.
    Unwritten,
    /// A cluster of compressed blocks.
    Compressed,
    /// Kept in the inode block.
    Inline,
}

/// What stat(2) and statx(2) tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    pub ino: Ino,
    pub generation: u32,
    pub kind: FileType,
    /// Format and permission bits.
    pub mode: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// Major and minor of a device inode, else zeros.
    pub rdev: (u32, u32),
    pub size: u64,
    /// In 512-byte units.
    pub blocks: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// Creation time, where the volume keeps it.
    pub crtime: Option<Time>,
    pub flags: InodeFlags,
    pub projid: u32,
}

/// What to change of an inode; `None` leaves a field alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// Permission bits (format bits are ignored).
    pub mode: Option<u16>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<Time>,
    pub mtime: Option<Time>,
    pub ctime: Option<Time>,
    /// Drop suid and sgid as a write or chown by an unprivileged caller does.
    pub kill_suidgid: bool,
    /// The times are the present one (`utimensat` without times), which append-only inodes allow.
    pub touch: bool,
}

/// What statfs(2) tells, in blocks of 4096 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub fsid: u64,
}

/// One name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    pub ino: Ino,
    pub kind: FileType,
    pub name: &'a [u8],
    /// Position to continue after this entry; stable while other names come and go.
    pub next: u64,
}
