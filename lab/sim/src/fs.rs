//! The interface of the model and the engine: POSIX operations by inode number, with errnos.
use segno_engine::{FallocMode, Owner, RenameMode, SetAttr, Time, XattrMode};
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, InodeFlags};
use std::collections::BTreeSet;

/// An inode number. The model and the engine each have their own.
pub type Node = u32;
/// The result of an operation, or its errno.
pub type Res<T> = Result<T, i32>;

/// Linux's error numbers.
pub mod errno {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EIO: i32 = 5;
    pub const ENXIO: i32 = 6;
    pub const E2BIG: i32 = 7;
    pub const EACCES: i32 = 13;
    pub const EEXIST: i32 = 17;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EINVAL: i32 = 22;
    pub const EFBIG: i32 = 27;
    pub const ENOSPC: i32 = 28;
    pub const EROFS: i32 = 30;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOTEMPTY: i32 = 39;
    pub const ENODATA: i32 = 61;
    pub const EOPNOTSUPP: i32 = 95;
    /// Not an error of any system: a name was listed twice.
    pub const TWICE: i32 = -1;
}

/// The fields of stat(2) that the model predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    pub kind: FileType,
    /// Permission bits.
    pub mode: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: (u32, u32),
    /// Of files and symbolic links; the size of a directory depends on the format.
    pub size: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// Creation time, if the volume stores it.
    pub crtime: Option<Time>,
    /// Flags of chattr(1), as far as [`FLAGS`] has them.
    pub flags: InodeFlags,
    pub projid: u32,
    /// Algorithm and logarithm of the cluster size of a compressed file.
    pub compression: Option<(u8, u8)>,
    /// `i_advise`, as far as [`ADVISE`] has it.
    pub advise: Advise,
}

/// Bits of `i_advise` that follow from operations alone. LOST_PINO and TRUNC serve recovery.
pub const ADVISE: Advise = Advise::all().difference(Advise::LOST_PINO.union(Advise::TRUNC));

/// Flags that do not depend on how the inode is stored.
pub const FLAGS: InodeFlags = InodeFlags::COMPR
    .union(InodeFlags::SYNC)
    .union(InodeFlags::IMMUTABLE)
    .union(InodeFlags::APPEND)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::NOCOMP)
    .union(InodeFlags::DIRSYNC)
    .union(InodeFlags::PROJINHERIT)
    .union(InodeFlags::CASEFOLD);

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub name: Vec<u8>,
    pub node: Node,
    /// The type as the directory records it.
    pub kind: u8,
}

/// Data or hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    Data,
    Hole,
}

/// A file system.
pub trait Fs {
    fn root(&self) -> Node;
    /// Sets the time of later operations.
    fn set_time(&mut self, now: Time);
    fn lookup(&mut self, dir: Node, name: &[u8]) -> Res<Node>;
    fn getattr(&mut self, node: Node) -> Res<Attr>;
    fn setattr(&mut self, node: Node, set: &SetAttr) -> Res<()>;
    /// Sets the flags of [`FLAGS`], and no other.
    fn set_flags(&mut self, node: Node, flags: InodeFlags) -> Res<()>;
    fn set_project(&mut self, node: Node, project: u32) -> Res<()>;
    /// Sets algorithm and logarithm of the cluster size of an empty compressed file.
    fn set_compression(&mut self, node: Node, algorithm: u8, log_cluster: u8) -> Res<()>;
    /// Releases the blocks that compression saves in a file, or reserves them again.
    fn set_released(&mut self, node: Node, released: bool) -> Res<()>;
    fn mknod(&mut self, dir: Node, name: &[u8], mode: u16, rdev: (u32, u32), owner: Owner) -> Res<Node>;
    fn mkdir(&mut self, dir: Node, name: &[u8], mode: u16, owner: Owner) -> Res<Node>;
    fn symlink(&mut self, dir: Node, name: &[u8], target: &[u8], owner: Owner) -> Res<Node>;
    /// Creates an unnamed file with one handle.
    fn tmpfile(&mut self, dir: Node, mode: u16, owner: Owner) -> Res<Node>;
    fn link(&mut self, node: Node, dir: Node, name: &[u8]) -> Res<()>;
    fn unlink(&mut self, dir: Node, name: &[u8]) -> Res<()>;
    fn rmdir(&mut self, dir: Node, name: &[u8]) -> Res<()>;
    fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8]), mode: RenameMode) -> Res<()>;
    fn open(&mut self, node: Node) -> Res<()>;
    fn release(&mut self, node: Node) -> Res<()>;
    fn readlink(&mut self, node: Node) -> Res<Vec<u8>>;
    /// All names except `.` and `..`, fetched `chunk` at a time.
    fn readdir(&mut self, dir: Node, chunk: usize) -> Res<BTreeSet<Entry>>;
    fn getxattr(&mut self, node: Node, name: &[u8]) -> Res<Vec<u8>>;
    fn setxattr(&mut self, node: Node, name: &[u8], value: &[u8], mode: XattrMode) -> Res<()>;
    fn removexattr(&mut self, node: Node, name: &[u8]) -> Res<()>;
    fn listxattr(&mut self, node: Node) -> Res<BTreeSet<Vec<u8>>>;
    fn read(&mut self, node: Node, offset: u64, len: usize) -> Res<Vec<u8>>;
    fn write(&mut self, node: Node, offset: u64, data: &[u8]) -> Res<usize>;
    fn fallocate(&mut self, node: Node, mode: FallocMode, offset: u64, len: u64) -> Res<()>;
    fn seek(&mut self, node: Node, what: Seek, offset: u64) -> Res<u64>;
    fn copy_range(&mut self, from: (Node, u64), to: (Node, u64), len: u64) -> Res<u64>;
    fn fsync(&mut self, node: Node, datasync: bool) -> Res<()>;
    fn sync(&mut self) -> Res<()>;
    /// Unmounts and mounts again; all handles must be released.
    fn remount(&mut self) -> Res<()>;
    /// One step of background cleaning, and its checkpoint.
    fn clean(&mut self) -> Res<()>;
}
