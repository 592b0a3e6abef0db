//! Bugs that can be planted, to see that the tests find them. Without the feature `planted-bugs` there are none.
//!
//! A bug is planted for one thread, so that several can be hunted at the same time.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A checkpoint does not flush the device before the end of its pack.
    SkippedFlush,
    /// A checkpoint writes the end of its pack first.
    HeaderFirst,
    /// A checkpoint does not list inodes that have no name.
    ForgottenOrphan,
    /// A checkpoint leaves one entry out of its NAT journal.
    LostNatEntry,
    /// A checkpoint leaves the SIT entry of one segment as it was.
    StaleSit,
    /// Recovery rolls forward past a hole in the chain, into blocks that an earlier one left behind it.
    ChainHole,
    /// A freed block is used again at once.
    ReusedBlock,
    /// An fsync marks the inode without a flush of the data and nodes before it.
    SkippedDataFlush,
    /// An fsync of a new file does not tell recovery to make its name.
    ForgottenDent,
    /// Index nodes name data that is yet to be written.
    EarlyPublish,
    /// Checkpoints have the size of a file whose data is yet to be written.
    EagerSize,
    /// A checkpoint takes a node as it is when its turn comes, and not as it was at the boundary.
    BlurredBoundary,
    /// A commit names data that is neither flushed nor checked by replay.
    UncheckedData,
    /// Recovery leaves the time of modification as the checkpoint has it.
    LostMtime,
    /// An fsync does not know that a directory above the file was renamed.
    UnrecordedRename,
    /// An fsync does not know that the file's name was that of a directory.
    UnrecordedRmdir,
    /// The journal misses a value of an attribute that is as long as the one before.
    SameLengthXattr,
    /// The journal misses that a directory has another parent.
    UnjournaledParent,
    /// A flush counts writes that were issued while it ran.
    LateWritesFlushed,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::SkippedFlush,
        Self::HeaderFirst,
        Self::ForgottenOrphan,
        Self::LostNatEntry,
        Self::StaleSit,
        Self::ChainHole,
        Self::ReusedBlock,
        Self::SkippedDataFlush,
        Self::ForgottenDent,
        Self::EarlyPublish,
        Self::EagerSize,
        Self::BlurredBoundary,
        Self::UncheckedData,
        Self::LostMtime,
        Self::UnrecordedRename,
        Self::UnrecordedRmdir,
        Self::SameLengthXattr,
        Self::UnjournaledParent,
        Self::LateWritesFlushed,
    ];
}

/// Whether bugs can be planted at all.
#[must_use]
pub const fn possible() -> bool {
    cfg!(feature = "planted-bugs")
}

/// Does something without any bug.
pub fn without<T>(f: impl FnOnce() -> T) -> T {
    let bug = current();
    plant(None);
    let result = f();
    plant(bug);
    result
}

#[cfg(feature = "planted-bugs")]
mod selected {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in everything that this thread does from now on, or takes it out again.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// The bug planted for this thread.
    #[must_use]
    pub fn current() -> Option<Bug> {
        PLANTED.get()
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(not(feature = "planted-bugs"))]
mod selected {
    use super::Bug;

    /// Plants nothing.
    pub fn plant(_bug: Option<Bug>) {}

    /// No bug.
    #[must_use]
    pub const fn current() -> Option<Bug> {
        None
    }

    pub(crate) const fn planted(_bug: Bug) -> bool {
        false
    }
}

pub(crate) use selected::planted;
pub use selected::{current, plant};
