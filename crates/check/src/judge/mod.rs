//! Consistency checks. All input comes from [`evidence`](crate::evidence), which does not depend on the
//! judges.
mod checkpoint;
mod curseg;
mod explain;
pub(crate) mod load;
mod nat;
mod nat_bits;
mod proof;
mod quick;
mod quota;
mod summaries;
mod superblock;
mod totals;
mod walk;

pub use checkpoint::enough_reserved;
pub(crate) use explain::run as explain;
pub(crate) use proof::run as prove;
pub use quick::check_quick;
pub use quota::{is_sound_quota, payers};
pub use walk::{bad_xattr, is_debatable_name};
