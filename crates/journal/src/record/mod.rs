//! Changes of an operation as names, links, mappings and attributes, never as blocks of the tables, which replay
//! derives.
//!
//! A record belongs to the inode of its [`Section`](crate::Section). An operation on several inodes puts a
//! record into the section of each, all of one epoch; a group is accepted whole or not at all, and that makes
//! the operation atomic. Records of one section are replayed in order.
mod decode;
mod encode;
mod merge;
#[cfg(test)]
mod tests;
mod time;

use segno_format::{BlockAddr, Ino};
pub use time::Time;

/// Checksum of a data block for [`Mapping::crcs`].
#[must_use]
pub fn data_crc(block: &segno_format::Block) -> u32 {
    segno_format::crc(u32::MAX, &block.0)
}

/// A name as stored in directories: 1 to 255 bytes, encrypted if the directory is.
pub type Name = Box<[u8]>;

/// One change of one inode. `B` are its names and values: owned, or borrowed from the bytes that it was read
/// from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<B = Box<[u8]>> {
    /// The inode is created. Its name is in the [`Record::DentryAdd`] of the directory.
    InodeNew(InodeNew),
    /// Fields get these values; later ones win.
    Attr(Attr),
    /// The link count changes. A delta, so that the parts of several operations commute.
    Nlink(i32),
    /// All blocks and nodes of the inode, and the inode, are freed.
    InodeFree,
    /// A name is added to this directory, which must not have it.
    DentryAdd {
        /// The child.
        ino: Ino,
        /// Type of the child, as directories store it.
        file_type: u8,
        /// Hash of the name if it cannot be computed: in directories that are both encrypted and casefolded.
        hash: Option<u32>,
        /// The child's `i_pino` and `i_name` follow.
        primary: bool,
        /// The name.
        name: B,
    },
    /// A name of this directory is removed; it must name `ino`.
    DentryDel {
        /// The child.
        ino: Ino,
        /// Hash of the name, as in [`Record::DentryAdd`].
        hash: Option<u32>,
        /// The name.
        name: B,
    },
    /// A name of this directory, which must name `old`, names `new`.
    DentrySet {
        /// The child so far.
        old: Ino,
        /// The child from now on.
        new: Ino,
        /// Type of the new child.
        file_type: u8,
        /// Hash of the name, as in [`Record::DentryAdd`].
        hash: Option<u32>,
        /// The child's `i_pino` and `i_name` follow.
        primary: bool,
        /// The name.
        name: B,
    },
    /// This directory's `..` names another parent.
    DotDot {
        /// The new parent.
        parent: Ino,
    },
    /// `mtime` and `ctime` become at least this.
    DirTouch(Time),
    /// Pages are stored at these addresses. Their previous blocks are freed.
    Map(Mapping),
    /// Compressed clusters: each stored block, under the page in whose slot its address is. The first slot of
    /// a cluster has the mark, and the other ones are reserved. Previous blocks of the cluster are freed.
    Packed(Mapping),
    /// How the file, or the files of the directory, are compressed; `None` if they no longer are.
    Compression(Option<Compression>),
    /// The blocks that compression saves are given to the volume, or reserved again.
    Released(bool),
    /// Pages without a block get a reservation, which reads as zeros.
    Reserve {
        /// First page.
        page: u64,
        /// Number of pages.
        count: u64,
    },
    /// Pages lose their blocks.
    Unmap {
        /// First page.
        page: u64,
        /// Number of pages.
        count: u64,
    },
    /// The new size; everything beyond it is unmapped. A partial last page has a separate [`Record::Map`].
    Truncate {
        /// Size in bytes.
        size: u64,
    },
    /// `count` pages from `page` on are removed, and later pages move down.
    Collapse {
        /// First page to remove.
        page: u64,
        /// Number of pages to remove.
        count: u64,
    },
    /// Pages from `page` on move up by `count` pages.
    Insert {
        /// First page that moves.
        page: u64,
        /// Number of pages by which it moves.
        count: u64,
    },
    /// Bytes of inline data, or of an inline symbolic link.
    InlineData {
        /// First byte that changes.
        offset: u16,
        /// The new bytes.
        bytes: B,
    },
    /// The data is in blocks from here on; a [`Record::Map`] has the first page, or it is zero.
    InlineOff,
    /// An extended attribute gets a value, empty ones included.
    XattrSet {
        /// Name index.
        index: u8,
        /// Name without its prefix.
        name: B,
        /// The value.
        value: B,
    },
    /// An extended attribute is removed.
    XattrDel {
        /// Name index.
        index: u8,
        /// Name without its prefix.
        name: B,
    },
}

/// A new inode. All its times are `time`; `nlink` is 2 for a directory, 0 for `O_TMPFILE`, else 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeNew {
    /// `i_mode`: type and permission bits.
    pub mode: u16,
    /// `i_inline`.
    pub inline: u8,
    /// `i_advise`.
    pub advise: u8,
    /// `i_uid`.
    pub uid: u32,
    /// `i_gid`.
    pub gid: u32,
    /// `i_projid`; 0 where inodes have no such field.
    pub projid: u32,
    /// `i_flags`.
    pub flags: u32,
    /// `i_generation`.
    pub generation: u32,
    /// `i_pino`: the directory of its first name.
    pub pino: Ino,
    /// Device number, encoded as by Linux's `new_encode_dev`.
    pub rdev: u32,
    /// `i_inline_xattr_size`, in words.
    pub inline_xattr_size: u16,
    /// Time of the creation.
    pub time: Time,
    /// Made without a name: no link.
    pub tmpfile: bool,
}

/// Values of fields; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// `i_mode`: type and permission bits.
    pub mode: Option<u16>,
    /// `i_uid`.
    pub uid: Option<u32>,
    /// `i_gid`.
    pub gid: Option<u32>,
    /// `i_projid`.
    pub projid: Option<u32>,
    /// `i_size`; blocks are left alone.
    pub size: Option<u64>,
    /// Time of the last access.
    pub atime: Option<Time>,
    /// Time of the last change of content.
    pub mtime: Option<Time>,
    /// Time of the last change.
    pub ctime: Option<Time>,
    /// `i_flags`.
    pub flags: Option<u32>,
    /// `i_advise`.
    pub advise: Option<u8>,
    /// `i_inline`.
    pub inline: Option<u8>,
    /// `i_pino`: the directory of the name that recovery would use.
    pub pino: Option<Ino>,
    /// `i_gc_failures`, which pins a file.
    pub gc_failures: Option<u16>,
}

/// How a file is compressed, as its inode stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// `i_compress_algorithm`.
    pub algorithm: u8,
    /// `i_log_cluster_size`.
    pub log_cluster: u8,
    /// `i_compress_flag`.
    pub flag: u16,
}

/// Consecutive pages at consecutive addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First page.
    pub page: u64,
    /// Block of the first page.
    pub addr: BlockAddr,
    /// Number of pages and blocks.
    pub count: u32,
}

/// Where pages are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Runs in ascending order of pages.
    pub runs: Vec<Run>,
    /// Checksums of all blocks of all runs in order ([`data_crc`]), or empty if the caller flushed the blocks
    /// before it appended the group.
    pub crcs: Vec<u32>,
    /// Cleaning moved the blocks; the content is unchanged.
    pub moved: bool,
}
