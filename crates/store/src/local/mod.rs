//! The cache on local disk: pieces that were read, and the spool of write-back.
pub(crate) mod cache;
pub(crate) mod cache_dir;
pub(crate) mod disk;
pub(crate) mod private_dir;
pub(crate) mod spool;
