//! Trees of files on the host, read and written by descriptors.
//!
//! The host may change while a command runs, and names come from volumes and archives that strangers made. So each directory below
//! the one that the caller named is opened from its parent, without following symbolic links, and each property is set on the
//! descriptor of the file that was created: [`HostTree`] writes nothing outside of its root, and [`Entry`] reads the file that its
//! name led to when it was opened. A path that the caller names may lead through symbolic links.
//!
//! [`Preserve`] is the one rule for the properties that a file of a volume gets on the host, [`copy_mode`] the one for the
//! permissions of a file with content of an image.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod attributes;
mod dirs;
mod entry;
mod left_out;
mod mode;
mod new_dir;
mod preserve;
mod tree;

pub use attributes::Attributes;
pub use dirs::{Dirs, components};
pub use entry::{Entry, Kind};
pub use left_out::LeftOut;
pub use mode::{copy_mode, directory_of, write_file};
pub use new_dir::NewDir;
pub use preserve::Preserve;
pub use tree::{HostTree, Node};
