//! Mount options, with F2FS's names and defaults.
use crate::notice::Observer;
use crate::writeback::Setting as ContextSetting;
use segno_journal::Area;

/// Order of data, node and flush in fsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FsyncMode {
    /// Data is flushed before the mark that makes recovery use it.
    #[default]
    Strict,
    /// One flush at the end; a cut during the call may show blocks that were never written.
    Posix,
    /// No flush at all: for tests and throw-away volumes.
    Nobarrier,
}

/// How fsync finds the dirty nodes of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum FsyncLookup {
    /// In the file's own list.
    #[default]
    List,
    /// Among the dirty nodes of all files, as F2FS in the kernel does: for comparisons.
    Global,
    /// In the list, counting what the other way would have looked at.
    Shadow,
}

impl FsyncLookup {
    pub const ALL: [Self; 3] = [Self::List, Self::Global, Self::Shadow];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Global => "global",
            Self::Shadow => "shadow",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.name() == name)
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

/// Whether, and where, metadata is journaled between checkpoints.
#[derive(Clone, Debug, Default)]
pub enum JournalMode {
    /// None is used. What one behind the volume holds after a crash is replayed all the same.
    #[default]
    Off,
    /// The one behind the volume is used if there is one.
    Auto,
    /// The gap behind the volume holds the journal; made if it is not there.
    On,
    /// A device or file of its own holds it; made if it is not there.
    Beside(Area),
}

/// What goes on while a checkpoint is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CheckpointMode {
    /// With a journal everything, else nothing.
    #[default]
    Auto,
    /// Nothing that changes anything, as in F2FS.
    Blocking,
    /// Everything, from the moment on that the checkpoint describes; but without a journal fsync waits.
    Concurrent,
}

/// What a mount may be told.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Nothing is written. A volume on which a crash has left fsynced data to recover is refused, unless `norecovery`
    /// says to do without that data: mount it writable once.
    pub read_only: bool,
    /// Skip roll-forward recovery. A writable mount is refused then if there is anything to recover, as in F2FS.
    pub norecovery: bool,
    pub fsync_mode: FsyncMode,
    pub journal: JournalMode,
    /// While it is mounted with a journal, the volume is marked read-only for those who do not know the journal. After a
    /// crash only a mount with the journal takes the mark away.
    pub guard: bool,
    pub fsync_lookup: FsyncLookup,
    pub checkpoint: CheckpointMode,
    pub mode: AllocMode,
    pub discard: bool,
    pub background_gc: bool,
    /// Which sections are cleaned, by the names of `segno_clean::policy`; by default what was measured to be best.
    pub gc_policy: Option<String>,
    pub inline_data: bool,
    pub inline_dentry: bool,
    pub inline_xattr: bool,
    pub acl: bool,
    pub user_xattr: bool,
    /// Use the extension lists of the superblock to find hot and cold files.
    pub ext_identify: bool,
    /// Bytes that cached nodes, pages and inodes, and the references of a front end, may take; dirty ones included.
    pub cache_bytes: usize,
    /// Seconds after which dirty data and metadata are committed without being asked.
    pub commit_interval: u32,
    /// Run the background thread (writeback, commit interval, cleaning). Tests step by hand instead.
    pub background: bool,
    /// Writeback contexts: how many files are written back side by side.
    pub contexts: ContextSetting,
    /// Files with a log of their own at most; the volume decides without it.
    pub exclusive_streams: Option<u32>,
    /// Who is told what no call returns.
    pub observer: Observer,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            norecovery: false,
            fsync_mode: FsyncMode::default(),
            journal: JournalMode::default(),
            guard: false,
            fsync_lookup: FsyncLookup::default(),
            checkpoint: CheckpointMode::default(),
            mode: AllocMode::default(),
            discard: true,
            background_gc: true,
            gc_policy: None,
            inline_data: true,
            inline_dentry: true,
            inline_xattr: true,
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
