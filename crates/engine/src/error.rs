//! Errors of operations, and their errno values.
use segno_device::Operation;
use segno_format::{Corrupt, Structure, Unsupported};
use segno_journal::{Missing, Stale};

/// The result of an engine call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the caller, of the volume or of the device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message states its case")]
pub enum Error {
    #[error("no such file or directory")]
    NotFound,
    #[error("the name exists already")]
    Exists,
    #[error("not a directory")]
    NotDir,
    #[error("is a directory")]
    IsDir,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("the name is longer than 255 bytes")]
    NameTooLong,
    #[error("no space left on the volume")]
    NoSpace,
    #[error("too many links")]
    TooManyLinks,
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    #[error("operation not permitted: {0}")]
    NotPermitted(&'static str),
    #[error("the directory belongs to another project")]
    CrossDevice,
    #[error("permission denied")]
    Access,
    #[error("the volume is mounted read-only")]
    ReadOnly,
    /// A read-only mount cannot replay in memory what a crash left.
    #[error(
        "replaying what a crash left needs more than {0} MiB of memory: mount the volume writable once, or allow a larger cache"
    )]
    RecoveryMemory(u64),
    /// The journal proves that the newest checkpoint or a journal group is lost.
    #[error("the volume is damaged, and was not changed: {0}. {way_out}", way_out = .0.way_out())]
    JournalAhead(Stale),
    /// The volume was not unmounted, and the external journal of its last mount was not given.
    #[error(
        "the last mount had an external journal, which may have changes that the volume lacks: name it with --journal FILE, with \
         journal=FILE in the options of a mount, or with the option journal of the library. A mount with ro,norecovery shows the \
         volume without these changes"
    )]
    JournalNotNamed,
    /// The volume has the guard of a mount with a journal, which is not there.
    #[error(
        "the volume is marked read-only because a crash left more in its journal than it has itself, and that is not here: {0}. Name its \
         file (--journal FILE, -o journal=FILE), or give it up with `segno journal discard --force`"
    )]
    JournalMissing(Missing),
    /// An external journal was given, and changes in the journal after the volume would be lost.
    #[error(
        "the journal behind the volume has changes that it lacks: `segno journal replay`, without --journal, keeps them"
    )]
    ChangesBehind,
    #[error("no such attribute")]
    NoData,
    #[error("the buffer is too small")]
    Range,
    #[error("the extended attributes do not fit")]
    XattrTooBig,
    #[error("the file would be too large")]
    FileTooBig,
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    #[error("no data or hole there")]
    NoSuchOffset,
    #[error("busy: {0}")]
    Busy(&'static str),
    /// Damage found on the volume.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The volume is in order, but of a kind that this version does not support.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The volume uses a feature this version does not support in this way.
    #[error("the volume uses {0}, which this version cannot {1}")]
    Incompatible(String, &'static str),
    #[error(transparent)]
    Journal(#[from] segno_journal::Error),
    /// The device failed.
    #[error("{op} of block {at} failed: {source}")]
    Io { op: Operation, at: u64, source: std::io::Error },
    /// An invariant that does not depend on the content of the device was violated. The volume has stopped.
    #[error("internal error: {0}; the volume stopped, unmount it and run a check")]
    Invariant(&'static str),
    /// The device belongs to another writer; nothing is written since.
    #[error("the volume stopped as another writer took it over; unmount it")]
    TakenOver,
    /// A metadata write failed earlier; nothing is written since.
    #[error("the volume stopped after an earlier write error; unmount it and run a check")]
    Stopped,
}

impl Error {
    /// Whether the device belongs to another writer from now on.
    pub(crate) fn is_taken_over(&self) -> bool {
        let (Self::Io { source, .. } | Self::Journal(segno_journal::Error::Io { source, .. })) = self else {
            return false;
        };
        source.kind() == std::io::ErrorKind::StaleNetworkFileHandle
    }

    /// The errno for a caller of a system call.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound => 2,
            Self::TakenOver => 116,
            _ if self.is_taken_over() => 116,
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => 28,
            Self::Journal(e) if e.is_occupied() => 17,
            Self::Io { .. } | Self::Journal(_) | Self::Invariant(_) | Self::Stopped => 5,
            Self::XattrTooBig => 7,
            Self::NotPermitted(_) => 1,
            Self::NoSuchOffset => 6,
            Self::Access => 13,
            Self::Busy(_) => 16,
            Self::Exists => 17,
            Self::CrossDevice => 18,
            Self::NotDir => 20,
            Self::IsDir => 21,
            Self::Invalid(_) | Self::JournalMissing(_) | Self::ChangesBehind => 22,
            Self::FileTooBig => 27,
            Self::NoSpace => 28,
            Self::RecoveryMemory(_) => 12,
            Self::ReadOnly => 30,
            Self::TooManyLinks => 31,
            Self::Range => 34,
            Self::NameTooLong => 36,
            Self::NotEmpty => 39,
            Self::NoData => 61,
            Self::NotSupported(_) | Self::Unsupported(_) | Self::Incompatible(..) => 95,
            // Content that cannot be read, as in Linux; the volume itself is in order.
            Self::Corrupt(damage) if damage.what == Structure::Cluster => 5,
            Self::Corrupt(_) | Self::JournalAhead(_) => 117,
            // As for a device of the volume that is not there.
            Self::JournalNotNamed => 19,
        }
    }
}
