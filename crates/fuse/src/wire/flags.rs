//! Flags in messages.
use bitflags::bitflags;

bitflags! {
    /// Features negotiated in INIT.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct InitFlags: u64 {
        const ASYNC_READ = 1;
        const EXPORT_SUPPORT = 1 << 4;
        const BIG_WRITES = 1 << 5;
        const DONT_MASK = 1 << 6;
        const HAS_IOCTL_DIR = 1 << 11;
        const DO_READDIRPLUS = 1 << 13;
        const READDIRPLUS_AUTO = 1 << 14;
        const ASYNC_DIO = 1 << 15;
        const WRITEBACK_CACHE = 1 << 16;
        const NO_OPEN_SUPPORT = 1 << 17;
        const PARALLEL_DIROPS = 1 << 18;
        const POSIX_ACL = 1 << 20;
        const MAX_PAGES = 1 << 22;
        const CACHE_SYMLINKS = 1 << 23;
        const NO_OPENDIR_SUPPORT = 1 << 24;
        const EXPLICIT_INVAL_DATA = 1 << 25;
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        const SETXATTR_EXT = 1 << 29;
        /// The second word of flags is valid.
        const INIT_EXT = 1 << 30;
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        const ALLOW_IDMAP = 1 << 40;
        const OVER_IO_URING = 1 << 41;
        /// SYNCFS is also sent on mounts of type `fuse` (protocol 7.46).
        const HAS_SYNCFS = 1 << 43;
    }

    /// How the kernel treats an open file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenedFlags: u32 {
        const KEEP_CACHE = 1 << 1;
        const CACHE_DIR = 1 << 3;
        const NOFLUSH = 1 << 5;
        const PARALLEL_DIRECT_WRITES = 1 << 6;
    }

    /// Valid fields of a SETATTR.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FattrValid: u32 {
        const MODE = 1;
        const UID = 1 << 1;
        const GID = 1 << 2;
        const SIZE = 1 << 3;
        const ATIME = 1 << 4;
        const MTIME = 1 << 5;
        const ATIME_NOW = 1 << 7;
        const MTIME_NOW = 1 << 8;
        const CTIME = 1 << 10;
        const KILL_SUIDGID = 1 << 11;
    }
}

/// GETATTR: of an open file.
pub const GETATTR_FH: u32 = 1;
/// WRITE: writeback of cached pages.
pub const WRITE_CACHE: u32 = 1;
/// WRITE: clear set-user-ID and set-group-ID.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// SETXATTR: setting the ACL clears set-group-ID.
pub const SETXATTR_ACL_KILL_SGID: u32 = 1;
