//! What a volume says: blocks read, and the structures in them decoded. What cannot be decoded is noted in the sink and left out; whether
//! the rest is right is for the [judges](crate::judge).
pub(crate) mod ahead;
pub(crate) mod bitmap;
pub(crate) mod census;
pub(crate) mod ledger;
pub(crate) mod nat;
pub(crate) mod orphan;
pub(crate) mod pack;
pub(crate) mod quota_file;
pub(crate) mod reader;
pub(crate) mod roll_forward;
pub(crate) mod runs;
pub(crate) mod sit;
pub(crate) mod ssa;
pub(crate) mod summary;
pub(crate) mod superblock;
pub(crate) mod tables;
pub(crate) mod volume;
