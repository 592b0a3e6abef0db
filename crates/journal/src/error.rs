//! What can go wrong with a journal, and what to do about it.

/// See [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{op} of journal block {at} failed: {source}")]
    Io { op: &'static str, at: u64, source: std::io::Error },
    #[error("no journal: neither copy of its superblock is valid ({why})")]
    Absent { why: &'static str },
    #[error(
        "journal format {found} is newer than this program ({known}); use the newer one, or discard the journal"
    )]
    Version { found: u32, known: u32 },
    #[error("a journal needs at least {least} blocks, not {blocks}")]
    TooSmall { blocks: u64, least: u64 },
    /// Reclaim first: a checkpoint frees what it covers.
    #[error("the journal is full: {needed} blocks needed, {free} free; a checkpoint makes room")]
    Full { needed: u64, free: u64 },
    /// Not even an empty journal would take it.
    #[error("a group of {blocks} blocks does not fit in a journal of {ring}")]
    TooLarge { blocks: u64, ring: u64 },
    #[error("a section's epoch {section} does not lie in the group's ({group}) or up to 2^32 behind it")]
    Epoch { section: u64, group: u64 },
    /// The checksum is right but the content is not: a defect of whoever wrote it.
    #[error(
        "corrupt journal group {seq} at block {at}: {why}; `segno journal discard` gives up what it holds"
    )]
    Corrupt { seq: u64, at: u64, why: &'static str },
    #[error("the journal failed before and takes nothing more")]
    Failed,
}
