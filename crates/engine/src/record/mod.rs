//! Records of metadata changes by inode and journal epoch, kept until a commit takes them.
mod fields;
mod inode_records;
mod recorder;

pub use fields::{KEPT_INLINE, unpack_rdev};
pub use inode_records::{InodeRecords, Mapped, Target};
pub use recorder::{Recorder, Taken, creates, sections};
