//! A tree as plain data, in the order in which it is written.
use segno_engine::Time;
use std::ffi::OsString;
use std::path::PathBuf;

/// All entries; the first one is the root, and a directory is before what it contains.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) entries: Vec<Entry>,
}

/// A file, directory or link.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Path on the volume without a leading slash; empty for the root.
    pub(crate) path: PathBuf,
    /// Its index in the tree; of the root, the root.
    pub(crate) parent: usize,
    pub(crate) kind: Kind,
    /// Permission bits.
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Stored as all times of the inode.
    pub(crate) time: Time,
    /// Names and values, sorted.
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What an entry is.
#[derive(Debug)]
pub(crate) enum Kind {
    Directory,
    File(Source),
    Symlink(OsString),
    /// Device, FIFO or socket: format bits of the mode, major and minor number.
    Special {
        format: u16,
        numbers: (u32, u32),
    },
    /// Another name of the entry with this index.
    Link(usize),
}

/// The regular file that content is read from, and what identified it when the tree was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) modified: (i64, i64),
}
