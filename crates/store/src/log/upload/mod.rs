//! Uploads: at once, or later from the spool, in an order that leaves a prefix of the commits in the store.
pub(crate) mod backing;
pub(crate) mod merge;
pub(crate) mod queue;
pub(crate) mod writeback;
