//! Events that no call returns, for the program that uses a volume.

/// An event that the user should know about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message states its case")]
pub enum Notice {
    /// A request is repeated, or its answer awaited, for some seconds.
    #[error("waiting for the store: cannot {op} {object} yet: {why}")]
    Waiting { op: &'static str, object: String, why: String },
    /// The store refuses the credentials.
    #[error(
        "waiting for the store: it refuses the credentials ({why}); they are read again from the shared credentials file: put new \
         ones there"
    )]
    Denied { why: String },
    /// The store answers after one of these notices.
    #[error("the store answers again")]
    Answers,
    /// Another writer was cut off.
    #[error(
        "epoch {epoch} of {owner} was ended at its commit {commits} of {stored_at}; changes that it had not stored by then are lost"
    )]
    TookOver { epoch: u32, owner: String, commits: u64, stored_at: String },
    /// The store is in an earlier state than this cache has seen.
    #[error(
        "the bucket was set back: the cache {dir} has seen commit {commit} of epoch {epoch}, which the store does not have; blocks in \
         the cache are dropped, and changes since then are lost unless another copy of the bucket has them"
    )]
    SetBack { dir: String, epoch: u32, commit: u64 },
}

/// Receives notices, on any thread.
pub type Observer = fn(&Notice);

/// Drops all notices.
pub(crate) const UNOBSERVED: Observer = |_| {};
