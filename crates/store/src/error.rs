//! Errors of a store and its volumes. Their messages name the remedy.
use std::io;

/// Result of this crate.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// A failure of the store, or a defect of its content.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message states its case")]
pub enum StoreError {
    #[error("{url}: {why}")]
    Url { url: String, why: String },
    #[error("cannot {op} {object}: {why}")]
    Request { op: &'static str, object: String, why: String },
    #[error("the store cannot {op} {object}: {why}")]
    Refused { op: &'static str, object: String, why: String },
    #[error("object {object} is damaged: {why}")]
    Corrupt { object: String, why: &'static str },
    #[error("there is not enough memory to read {object}")]
    Memory { object: String },
    #[error("object {object} is missing: it was deleted, or the store lost it")]
    Missing { object: String },
    #[error(
        "object {object} is missing though it was stored: later objects build on it. The store lost it, or it was deleted; the volume \
         is not opened, as that would undo what was acknowledged. Restore the object from a copy of the bucket"
    )]
    Lost { object: String },
    #[error("there is no volume here (no object named volume): check bucket and prefix")]
    NoVolume,
    #[error("there is a volume here already; overwrite it with -f, or choose another prefix")]
    Exists,
    #[error(
        "the volume is in use by {owner} (epoch {epoch}); if that program is gone, or should be cut off, mount with --takeover"
    )]
    Held { epoch: u32, owner: String },
    #[error("{owner} took the volume at the same time (epoch {epoch})")]
    LostRace { epoch: u32, owner: String },
    #[error("another writer took the volume over: {object} belongs to it; nothing more can be written here")]
    Fenced { object: String },
    #[error(
        "the store has no conditional creation (it ignores or refuses If-None-Match), so a second writer cannot be kept out; \
         -o unfenced, or --unfenced of mkfs, accepts that"
    )]
    Unconditional,
    #[error("cannot use the cache {dir}: {why}")]
    Cache { dir: String, why: String },
    #[error("cannot read {object} in the cache, which is not in the store yet: {why}")]
    Unreadable { object: String, why: String },
    #[error(
        "the cache {dir} has {commits} commits of epoch {epoch} that were acknowledged here, and another writer took the volume over \
         before they were uploaded; they cannot be added any more and are kept: `segno store export --cache {dir}` makes an image with \
         them, as long as the store has what they build on. Move {dir} away to mount without them"
    )]
    SpoolRefused { dir: String, epoch: u32, commits: u64 },
    #[error(
        "the cache {dir} has {commits} commits of epoch {epoch} of a writer that this store does not know: the bucket was set back to \
         an earlier state, or is another copy. They are not added to it and are kept: `segno store export --cache {dir}` makes an image \
         with them from a copy of the bucket that has that epoch. To mount this one, move {dir} away or use another cache"
    )]
    SpoolForeign { dir: String, epoch: u32, commits: u64 },
    #[error(
        "the cache {dir} has {commits} commits of epoch {epoch} that were acknowledged, but neither it nor the store has commit \
         {missing} before them: the bucket was set back to an earlier state, or lost it. They are not added and are kept: `segno \
         store export --cache {dir}` makes an image with them from a copy of the bucket that has that commit. To mount this one, move \
         {dir} away or use another cache"
    )]
    SpoolGap { dir: String, epoch: u32, commits: u64, missing: u64 },
    #[error(
        "the store no longer has what the commits of epoch {epoch} in the cache {dir} build on: the writer that took the volume over \
         has replaced it, or the bucket was set back to an earlier state"
    )]
    SpoolBase { dir: String, epoch: u32 },
    #[error(
        "the cache {dir} has writes that the store does not have; `segno store drain` or a writable mount uploads them"
    )]
    SpoolUnread { dir: String },
    #[error(
        "{owner} was mounted with write-back and ended without uploading everything: its cache {cache} may have writes that the \
         store does not have. Mount there with -o store_cache={cache}, or upload them with `segno store drain`; --takeover gives them up"
    )]
    SpoolElsewhere { owner: String, cache: String },
    #[error("the store changed while the volume was opened, {0} times in a row; try again")]
    Unsettled(u32),
    #[error("no {0} can follow the last one")]
    Exhausted(&'static str),
    #[error("{0}")]
    Geometry(&'static str),
    #[error("the runtime of the store cannot be started: {0}")]
    Runtime(String),
}

impl StoreError {
    pub(crate) fn corrupt(object: impl ToString, why: &'static str) -> Self {
        Self::Corrupt { object: object.to_string(), why }
    }

    pub(crate) fn request(op: &'static str, object: impl ToString, why: impl ToString) -> Self {
        Self::Request { op, object: object.to_string(), why: why.to_string() }
    }

    pub(crate) fn unreadable(object: impl ToString, e: &io::Error) -> Self {
        Self::Unreadable { object: object.to_string(), why: e.to_string() }
    }

    /// The runtime, or the task that would answer, has ended.
    pub(crate) fn ended() -> Self {
        Self::Runtime("it has ended".into())
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Url { .. } | Self::Geometry(_) => io::ErrorKind::InvalidInput,
            Self::Corrupt { .. } | Self::Lost { .. } | Self::Unreadable { .. } => io::ErrorKind::InvalidData,
            Self::NoVolume | Self::Missing { .. } | Self::SpoolBase { .. } => io::ErrorKind::NotFound,
            Self::Exists => io::ErrorKind::AlreadyExists,
            Self::Memory { .. } => io::ErrorKind::OutOfMemory,
            Self::Held { .. }
            | Self::LostRace { .. }
            | Self::SpoolUnread { .. }
            | Self::SpoolElsewhere { .. } => io::ErrorKind::ResourceBusy,
            Self::Fenced { .. }
            | Self::SpoolRefused { .. }
            | Self::SpoolForeign { .. }
            | Self::SpoolGap { .. } => io::ErrorKind::StaleNetworkFileHandle,
            Self::Unconditional | Self::Refused { .. } => io::ErrorKind::Unsupported,
            Self::Exhausted(_)
            | Self::Request { .. }
            | Self::Cache { .. }
            | Self::Unsettled(_)
            | Self::Runtime(_) => io::ErrorKind::Other,
        }
    }
}

impl From<StoreError> for io::Error {
    fn from(e: StoreError) -> Self {
        Self::new(e.kind(), e)
    }
}
