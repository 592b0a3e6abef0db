//! Plain types of the engine's interface.
use segno_format::inode::InodeFlags;
use segno_format::{Ino, dentry::FileType};
pub use segno_journal::record::Time;

/// Identity of a file's creator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits to clear, unless the directory has a default ACL.
    pub umask: u16,
}

/// Variants of rename(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// Replace an existing target.
    #[default]
    Replace,
    /// Fail if the target exists.
    NoReplace,
    /// Exchange both names.
    Exchange,
    /// Leave a whiteout (character device 0:0) at the old name.
    Whiteout,
}

/// Variants of setxattr(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrMode {
    /// Create or replace.
    #[default]
    Set,
    /// Fail if it exists.
    Create,
    /// Fail if it does not exist.
    Replace,
}

/// Variants of fallocate(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocMode {
    /// Reserve; the file grows to the end of the range.
    Allocate,
    /// Reserve; the size stays.
    AllocateKeepSize,
    /// Free the range.
    PunchHole,
    /// Reserve and zero; the file grows.
    ZeroRange,
    /// Reserve and zero; the size stays.
    ZeroRangeKeepSize,
    /// Remove the range; later bytes move down.
    CollapseRange,
    /// Insert a hole; later bytes move up.
    InsertRange,
}

/// A contiguous part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First file block.
    pub file_block: u64,
    /// Block on the volume; undefined for `Unwritten` and `Inline`.
    pub addr: u32,
    /// Length in blocks.
    pub len: u64,
    /// State of its blocks.
    pub kind: ExtentKind,
}

/// Kind of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// Holds data.
    Written,
    /// Reserved; reads as zeros.
    Unwritten,
    /// A cluster of compressed blocks.
    Compressed,
    /// In the inode block.
    Inline,
}

impl ExtentKind {
    /// As programs print it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Unwritten => "unwritten",
            Self::Compressed => "compressed",
            Self::Inline => "inline",
        }
    }
}

/// Result of stat(2) and statx(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Changes when the number is reused.
    pub generation: u32,
    /// Type of the file.
    pub kind: FileType,
    /// Format and permission bits.
    pub mode: u16,
    /// Number of names.
    pub nlink: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Major and minor of a device inode, else zeros.
    pub rdev: (u32, u32),
    /// Size in bytes.
    pub size: u64,
    /// In 512-byte units.
    pub blocks: u64,
    /// Writeback may still change `blocks`: pages of a compressed file are dirty, and clusters at its end lose slots.
    pub unsettled: bool,
    /// Time of the last access.
    pub atime: Time,
    /// Time of the last change of content.
    pub mtime: Time,
    /// Time of the last change of attributes.
    pub ctime: Time,
    /// Creation time, if the volume stores it.
    pub crtime: Option<Time>,
    /// Flags, as FS_IOC_GETFLAGS has them.
    pub flags: InodeFlags,
    /// Project.
    pub projid: u32,
}

/// Changes to an inode; `None` leaves a field unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// Permission bits (format bits are ignored).
    pub mode: Option<u16>,
    /// New user.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size.
    pub size: Option<u64>,
    /// New time of access.
    pub atime: Option<Time>,
    /// New time of modification.
    pub mtime: Option<Time>,
    /// New time of attribute change.
    pub ctime: Option<Time>,
    /// Clear suid, and sgid of a file with group execution, as for a write or chown by an unprivileged caller.
    pub kill_suidgid: bool,
    /// Clear sgid of a file without group execution too: the caller is not in its group.
    pub kill_sgid: bool,
    /// The times are set to the current time (`utimensat` without times), which append-only inodes allow.
    pub touch: bool,
}

/// Result of statfs(2), in blocks of 4096 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Blocks of the volume.
    pub blocks: u64,
    /// Free blocks.
    pub bfree: u64,
    /// Free blocks that users may take.
    pub bavail: u64,
    /// Inodes there can be.
    pub files: u64,
    /// Inodes that can still be created.
    pub ffree: u64,
    /// Number of the volume, from its UUID.
    pub fsid: u64,
}

/// One name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Inode number.
    pub ino: Ino,
    /// Type of the file.
    pub kind: FileType,
    /// Name, in bytes.
    pub name: &'a [u8],
    /// Position after this entry; stable while other names are added and removed.
    pub next: u64,
}
