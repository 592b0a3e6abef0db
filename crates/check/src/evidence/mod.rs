//! Reading and decoding. A structure that cannot be decoded is reported to the sink and left out; the
//! [judges](crate::judge) check all else.
pub(crate) mod ahead;
mod bitmap;
mod journal;
mod multiset_hash;
mod nat;
mod node_scan;
mod orphan;
mod pack;
mod quota_file;
pub(crate) mod reader;
pub(crate) mod roll_forward;
pub(crate) mod runs;
mod sit;
mod ssa;
mod summary;
pub(crate) mod superblock;
mod volume;

pub(crate) use ahead::Ahead;
pub(crate) use bitmap::Bitmap;
pub(crate) use multiset_hash::{Item, MultisetHash};
pub(crate) use nat::Nat;
pub(crate) use node_scan::NodeScan;
pub(crate) use pack::Pack;
pub(crate) use quota_file::{Charge, QuotaFile, QuotaInode};
pub(crate) use reader::Reader;
pub(crate) use runs::Run;
pub(crate) use sit::Sit;
pub(crate) use ssa::{AHEAD, Ssa};
pub(crate) use summary::PackSummaries;
pub(crate) use volume::Volume;
