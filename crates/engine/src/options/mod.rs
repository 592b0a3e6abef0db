//! Mount options, with F2FS's names and defaults. [`table`] has a row for each that can be written as a word.
mod compress;
mod discard;
mod parse;
pub mod row;
pub mod table;

pub use parse::Parsed;

use crate::notice::Observer;
use segno_codec::Algorithm;
use segno_journal::Area;
use std::fmt;

/// Upper limit for the number of writeback contexts.
pub const MOST_CONTEXTS: u32 = 64;

/// Order of data, node and flush in fsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FsyncMode {
    /// Data is flushed before the `FSYNC` mark is written.
    #[default]
    Strict,
    /// One flush at the end. A power cut during the call may expose blocks that were never written.
    Posix,
    /// No flush, for tests and disposable volumes.
    Nobarrier,
}

/// How fsync finds the dirty nodes of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum FsyncLookup {
    /// Search the file's own list.
    #[default]
    List,
    /// Search the dirty nodes of all files, as F2FS in the kernel does, for comparisons.
    Global,
    /// Search the list, and count the nodes that the global search would have examined.
    Shadow,
}

impl FsyncLookup {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::List, Self::Global, Self::Shadow];

    /// The name of the mount option's value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Global => "global",
            Self::Shadow => "shadow",
        }
    }

    /// The variant with that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.name() == name)
    }
}

/// Setting for the number of writeback contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextSetting {
    /// As many as processors, memory and space suggest.
    #[default]
    Auto,
    /// This number, as far as space permits.
    Fixed(u32),
}

impl std::str::FromStr for ContextSetting {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let fixed = || s.parse().ok().filter(|n| (1..=MOST_CONTEXTS).contains(n)).map(Self::Fixed);
        if s == "auto" {
            return Ok(Self::Auto);
        }
        fixed().ok_or_else(|| format!("choose auto or a number from 1 to {MOST_CONTEXTS}"))
    }
}

impl fmt::Display for ContextSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(n) => n.fmt(f),
        }
    }
}

/// How logs choose blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AllocMode {
    /// Free segments first, holes when space is short.
    #[default]
    Adaptive,
    /// Free segments only.
    Lfs,
}

/// Whether and where metadata is journaled between checkpoints.
#[derive(Clone, Debug, Default)]
pub enum JournalMode {
    /// Do not journal. After a crash the journal after the volume is still replayed, and then closed.
    Off,
    /// Use the journal after the volume if it exists.
    #[default]
    Auto,
    /// Keep the journal in the gap after the volume; create it if missing.
    On,
    /// Keep the journal in its own device or file; create it if missing.
    External(Area),
}

/// When freed segments are discarded. Until then `segno undelete` finds the data of deleted files there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discard {
    /// After [`Discard::DAY`]; never in image files that are preallocated.
    #[default]
    Auto,
    /// Only on request (FITRIM).
    Never,
    /// After this time without valid blocks, in seconds during which the volume was mounted.
    AfterSeconds(u64),
    /// Once this number of bytes was freed after the segment.
    AfterBytes(u64),
}

impl Discard {
    /// Once the checkpoint that freed them is durable.
    pub const NOW: Self = Self::AfterSeconds(0);
    /// Time to notice an accident, and still more often than the weekly fstrim of most distributions.
    pub const DAY: Self = Self::AfterSeconds(24 * 60 * 60);
}

/// Which operations continue while a checkpoint is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CheckpointMode {
    /// Concurrent, but blocking without a journal and background threads.
    #[default]
    Auto,
    /// No changes, as in F2FS.
    Blocking,
    /// All changes from the boundary on; without a journal fsync waits.
    Concurrent,
}

/// Which files are compressed by writeback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompressMode {
    /// All files with the flag.
    #[default]
    Fs,
    /// No file: programs request compression file by file.
    User,
}

/// How files are compressed, and which new ones.
#[derive(Clone, Debug)]
pub struct Compression {
    /// Algorithm of new compressed files.
    pub algorithm: Algorithm,
    /// Its level; 0 is the algorithm's default.
    pub level: u8,
    /// Logarithm of the blocks in a cluster of new files, 2 to 8.
    pub log_cluster: u8,
    /// Store checksums of compressed data.
    pub checksum: bool,
    /// Which compressed files writeback compresses.
    pub mode: CompressMode,
    /// New files with these extensions are compressed; `*` stands for all.
    pub extensions: Vec<String>,
    /// New files with these extensions are not.
    pub excluded: Vec<String>,
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Lz4,
            level: 0,
            log_cluster: 2,
            checksum: false,
            mode: CompressMode::default(),
            extensions: Vec::new(),
            excluded: Vec::new(),
        }
    }
}

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Write nothing to the device. After a crash the volume is recovered in memory, up to 64 MiB or `cache_bytes`, and the
    /// bytes in use of the journal.
    pub read_only: bool,
    /// Skip recovery: a read-only mount shows the checkpoint. A writable mount fails if there is anything to recover, as in
    /// F2FS.
    pub norecovery: bool,
    /// Order and device flushes of fsync.
    pub fsync_mode: FsyncMode,
    /// Every fsync of a changed file takes a checkpoint, as in F2FS. With a journal it commits everything in any case.
    pub fastboot: bool,
    /// A change of names is durable when the call returns, as in a directory with the flag `DIRSYNC`.
    pub dirsync: bool,
    /// Where metadata is journaled.
    pub journal: JournalMode,
    /// Mount without the external journal of the last mount; changes that only it has are lost.
    pub give_up_journal: bool,
    /// While mounted with a journal, mark the volume read-only for implementations that do not know the journal.
    /// After a crash only a mount with the journal clears the mark.
    pub guard: bool,
    /// How fsync finds dirty nodes.
    pub fsync_lookup: FsyncLookup,
    /// Whether operations wait for checkpoints.
    pub checkpoint: CheckpointMode,
    /// How logs choose blocks.
    pub mode: AllocMode,
    /// When freed segments are discarded. Zones of a zoned device are reset once they are free.
    pub discard: Discard,
    /// Clean while the volume is idle.
    pub background_gc: bool,
    /// Victim policy, a name of `segno_clean::policy`; the default is the best one measured.
    pub gc_policy: Option<String>,
    /// Refuse nodes beyond the number for which cleaning is guaranteed to find space.
    pub node_limit: bool,
    /// Separate data by how soon it will be overwritten, judged by the age of the block that a write replaces.
    pub lifetime: bool,
    /// Keep small files in their inodes.
    pub inline_data: bool,
    /// Keep small directories in their inodes.
    pub inline_dentry: bool,
    /// Keep extended attributes in inodes.
    pub inline_xattr: bool,
    /// Compression of files on volumes with that feature.
    pub compression: Compression,
    /// Support POSIX ACLs.
    pub acl: bool,
    /// Support attributes of the user namespace.
    pub user_xattr: bool,
    /// Use the extension lists of the superblock to identify hot and cold files.
    pub ext_identify: bool,
    /// Limit in bytes for cached nodes, pages and inodes, clean and dirty, and for lookup references of a front end.
    pub cache_bytes: usize,
    /// Seconds after which dirty data and metadata are committed without a request.
    pub commit_interval: u32,
    /// Run the background thread (writeback, commit interval, cleaning). Tests run its steps themselves.
    pub background: bool,
    /// Number of writeback contexts, that is, of files written back concurrently.
    pub contexts: ContextSetting,
    /// Maximum number of files with an exclusive stream; by default the volume decides.
    pub exclusive_streams: Option<u32>,
    /// Receives events that no call returns.
    pub observer: Observer,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            norecovery: false,
            fsync_mode: FsyncMode::default(),
            fastboot: false,
            dirsync: false,
            journal: JournalMode::default(),
            give_up_journal: false,
            guard: true,
            fsync_lookup: FsyncLookup::default(),
            checkpoint: CheckpointMode::default(),
            mode: AllocMode::default(),
            discard: Discard::default(),
            background_gc: true,
            gc_policy: None,
            node_limit: false,
            lifetime: true,
            inline_data: true,
            inline_dentry: true,
            inline_xattr: true,
            compression: Compression::default(),
            acl: true,
            user_xattr: true,
            ext_identify: true,
            cache_bytes: 256 << 20,
            commit_interval: 5,
            background: true,
            contexts: ContextSetting::Auto,
            exclusive_streams: None,
            observer: Observer::default(),
        }
    }
}
