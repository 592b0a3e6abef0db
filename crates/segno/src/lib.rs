//! F2FS volumes as a library: format, open, read, write and check them, without a mount and without privileges; or mount them.
//!
//! ```
//! use segno::{Device, FormatOptions, Volume};
//!
//! # fn main() -> segno::Result<()> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! # let path = dir.path().join("disk.img");
//! let device = Device::create(&path, 64 << 20)?;
//! segno::format(&device, &FormatOptions::default())?;
//!
//! let volume = Volume::open(&device)?;
//! volume.create_dir("/a")?;
//! volume.write("/a/file", "content")?;
//! for entry in volume.read_dir("/a")? {
//!     println!("{}", entry?.path().display());
//! }
//! volume.close()?;
//!
//! assert!(segno::check(&device)?.is_clean());
//! # Ok(())
//! # }
//! ```
//!
//! The names are those of [`std::fs`], as methods of a directory handle like in the crate cap-std: [`Volume`]
//! is the root directory, and a path cannot leave the [`Dir`] that it is given to. A power cut or a killed
//! process loses only changes that were not synced.
//!
//! | to | use |
//! |---|---|
//! | name the storage | [`Device`] |
//! | make a volume | [`format()`], [`FormatOptions`] |
//! | open and close one | [`Volume`], [`MountOptions`], [`settings`] |
//! | work with paths | [`Dir`], [`ReadDir`], [`Walk`] |
//! | read and write | [`File`], [`OpenOptions`] |
//! | read and change attributes | [`Metadata`], [`SetMetadata`] |
//! | mount a volume | [`fuse`] |
//! | find volumes in a disk image | [`find`](mod@find) |
//! | check a volume | [`check()`], [`CheckReport`] |
//! | check one after a crash, and repair it | [`Checker`], [`RepairPlan`] |
//! | make an image of a tree, and take one apart | [`build`], [`BuildOptions`], [`extract`], [`ExtractOptions`] |
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod attrs;
mod by_number;
mod check;
#[cfg(feature = "repair")]
mod checker;
#[cfg(feature = "repair")]
mod crashed;
mod device;
mod dir;
mod error;
mod file;
pub mod find;
mod format;
#[cfg(feature = "mount")]
pub mod fuse;
mod image;
pub mod inspect;
mod metadata;
mod mount;
mod mount_options;
mod names;
mod open;
mod open_options;
mod panic;
mod read_dir;
mod resolve;
mod visits;
mod volume;
mod walk;

pub use check::{CheckOptions, check, check_with};
#[cfg(feature = "repair")]
pub use checker::{Checker, Judged};
#[cfg(feature = "repair")]
pub use crashed::PendingReplay;
pub use device::Device;
pub use dir::Dir;
pub use error::{Error, Result};
pub use file::File;
pub use format::{FormatOptions, format};
pub use image::{
    BuildOptions, BuildReport, Compression, Exclude, ExtractOptions, ExtractReport, Headroom, ImageMetadata,
    ImageSize, LeftOut, Owner, Preserve, build, extract, extract_tar, extract_tar_file, rebuild,
};
pub use metadata::{Metadata, SetMetadata};
pub use mount_options::MountOptions;
pub use names::Special;
pub use open_options::OpenOptions;
pub use panic::catch_panic;
pub use read_dir::{DirEntry, ReadDir};
pub use segno_check::{
    FileCluster, Kind as ProblemKind, Pass as CheckPass, Problem, Progress as CheckProgress,
    Report as CheckReport, RollForward, Severity, Summary as CheckSummary,
};
pub use segno_device::BlockDevice;
pub use segno_engine::options as settings;
pub use segno_engine::options::Discard;
pub use segno_engine::{Extent, ExtentKind, Time};
pub use segno_format::Features;
pub use segno_format::dentry::FileType;
pub use segno_format::inode::InodeFlags;
#[cfg(feature = "repair")]
pub use segno_repair::{Action as RepairAction, Plan as RepairPlan, Undo as RepairUndo};
pub use visits::Visits;
pub use volume::{StatFs, Volume};
pub use walk::Walk;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/library.md")]
struct Guide;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
