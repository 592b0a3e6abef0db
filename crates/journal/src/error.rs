//! Errors of the journal. Their messages name the remedy.

use segno_device::Operation;

/// Result of an operation on the journal.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error("{op} of journal block {at} failed: {source}")]
    Io {
        /// The operation that failed.
        op: Operation,
        /// Block of the device.
        at: u64,
        /// The device's reason.
        source: std::io::Error,
    },
    /// The area holds no journal.
    #[error("no journal: neither copy of its superblock is valid ({why})")]
    Absent {
        /// The defect of the superblock.
        why: &'static str,
    },
    /// The journal was made by a later version of the program.
    #[error(
        "journal format {found} is newer than this program ({known}); use the newer one, or discard the journal"
    )]
    Version {
        /// Format version of the journal.
        found: u32,
        /// Newest version that this program reads.
        known: u32,
    },
    /// The area is too small for a journal.
    #[error("a journal needs at least {least} blocks, not {blocks}")]
    TooSmall {
        /// Size of the area.
        blocks: u64,
        /// Smallest size.
        least: u64,
    },
    /// The space for a journal holds something else.
    #[error(
        "block {at}, in the space for a journal, holds other data, which a journal would overwrite; mount with journal=auto to \
         do without a journal, or name an empty file for it (journal=/FILE)"
    )]
    Occupied {
        /// The first block of the device that is not zero.
        at: u64,
    },
    /// The space for a journal holds the journal of another volume.
    #[error(
        "the space for a journal holds that of another volume (uuid {}); name another file, or mount that volume with it first",
        segno_format::superblock::uuid_text(volume)
    )]
    OtherVolume {
        /// The uuid of that volume.
        volume: [u8; 16],
    },
    /// The journal is full. A checkpoint must free space first.
    #[error("the journal is full: {needed} blocks needed, {free} free; a checkpoint makes room")]
    Full {
        /// Blocks that the group takes.
        needed: u64,
        /// Blocks that groups may still take.
        free: u64,
    },
    /// The group is larger than an empty journal.
    #[error("a group of {blocks} blocks does not fit in a journal of {ring}")]
    TooLarge {
        /// Blocks that the group takes.
        blocks: u64,
        /// Blocks of the ring.
        ring: u64,
    },
    /// The group cannot hold the epoch of a section.
    #[error("a section's epoch {section} does not lie in the group's ({group}) or up to 2^32 behind it")]
    Epoch {
        /// Epoch of the section.
        section: u64,
        /// Lowest epoch of the group.
        group: u64,
    },
    /// A group has correct checksums and invalid content: the program that wrote it is defective.
    #[error(
        "corrupt journal group {seq} at block {at}: {why}; `segno journal discard` gives up what it holds"
    )]
    Corrupt {
        /// Sequence number of the group.
        seq: u64,
        /// Block of the device.
        at: u64,
        /// The defect of its content.
        why: &'static str,
    },
    /// An earlier write or flush failed.
    #[error("the journal failed before and takes nothing more")]
    Failed,
}

impl Error {
    pub(crate) fn io(op: Operation, at: u64) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { op, at, source }
    }
    /// Whether the space for a journal belongs to something else.
    #[must_use]
    pub fn is_occupied(&self) -> bool {
        matches!(self, Self::Occupied { .. } | Self::OtherVolume { .. })
    }
}
