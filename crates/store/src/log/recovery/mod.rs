//! Opening a volume: its last state, taking it from another writer, and commits in a spool.
pub(crate) mod export;
pub(crate) mod history;
pub(crate) mod open;
pub(crate) mod opening;
pub(crate) mod replay;
pub(crate) mod seals;
pub(crate) mod spool;
