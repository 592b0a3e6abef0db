//! Directories: names in dentry blocks, or in the inode while they fit.
//!
//! Both locations have the same layout with different sizes, so they share all code but finding the location. A big
//! directory is a multi-level hash table in a sparse file: lookup or insertion of a name touches the blocks of one
//! bucket per level. A block without names is punched out, except block 0 with `.` and `..`.
//!
//! Callers hold the directory's lock: shared to read, exclusive to change.
mod chunk;
mod convert;
mod find;
mod insert;
mod name;
mod nokey;
mod readdir;
mod remove;

pub use find::{Found, Probe, Room};
pub use name::{DirName, is_dots};
pub use nokey::encode as encode_nokey;

use crate::base::Base;
use crate::files::Files;
use crate::nodes::Nodes;
use std::sync::Arc;

/// The content of directories.
pub struct Dirs {
    base: Arc<Base>,
    nodes: Arc<Nodes>,
    files: Arc<Files>,
}

impl Dirs {
    pub fn new(files: Arc<Files>) -> Self {
        Self { base: files.base.clone(), nodes: files.nodes.clone(), files }
    }
}
