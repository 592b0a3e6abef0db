//! Formats an F2FS volume, with the geometry and the defaults of `mkfs.f2fs`.
//!
//! [`plan()`] is pure arithmetic: device sizes and options give a [`Layout`]. [`format()`] carries a layout
//! out. It refuses contents unless forced. It first replaces the old superblocks by a mark, which every
//! reader names, and writes the new ones last: a format that was cut off leaves the old volume, the new one,
//! or the mark.
//!
//! The volumes equal those of mkfs.f2fs 1.15, byte for byte, except where 1.15 is wrong: segments that fill
//! no zone are not counted as free, every device holds whole zones, casefold always records an encoding,
//! project quota gets its quota files, quota files have entries for owners other than 0, and the NAT block
//! does not repeat the entries of the NAT journal. Device aliases and packed summaries are refused.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod checkpoint;
mod content;
mod cursegs;
mod error;
mod format;
mod layout;
mod like;
mod options;
mod quota;
mod reserve;
mod superblock;
mod target;
mod zones;

pub use checkpoint::{Counts, FirstCheckpoint, Packs};
pub use content::quota_inos;
pub use error::MkfsError;
pub use format::{Report, format};
pub use layout::{Layout, plan};
pub use options::{CasefoldFlags, MkfsOptions};
pub use reserve::Reserve;
pub use superblock::superblock;
pub use target::Member;
