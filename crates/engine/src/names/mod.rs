//! Operations on names and inodes. Each is entirely inside one checkpoint or outside it.
//!
//! All follow one order: look up; lock the inodes in ascending order and look up again; check every reason to
//! refuse; enter the gate; run first the steps that may run out of space, then the steps that cannot fail. An
//! inode that lost its last name is freed afterwards, without locks.
mod attr;
mod compress;
mod create;
pub mod dir;
mod extension;
mod flags;
mod inherit;
mod link;
mod locks;
mod new;
mod open;
mod orphan;
mod perm;
mod references;
mod rename;
mod rename_steps;
mod unlink;
pub mod xattr;

pub use extension::temperature;
use references::References;

use crate::base::Base;
use crate::files::{Files, Inode};
use crate::lock::{Mutex, rank};
use crate::nodes::Nodes;
use crate::writeback::Writeback;
use dir::Dirs;
use segno_format::inode::InodeFlags;
use std::sync::Arc;
use xattr::Xattrs;

/// Operations on names.
pub struct Names {
    base: Arc<Base>,
    nodes: Arc<Nodes>,
    pub files: Arc<Files>,
    writeback: Arc<Writeback>,
    pub dirs: Dirs,
    pub xattrs: Xattrs,
    pub references: References,
    /// Serializes renames of directories, so that no loop can form.
    rename: Mutex<(), { rank::RENAME }>,
}

/// Deferred work of a change of names, done without locks: the changed directories, and an inode without a name.
pub struct Renamed {
    dirs: [Option<Arc<Inode>>; 2],
    pub unnamed: Option<Arc<Inode>>,
}

impl Renamed {
    fn one(dir: Arc<Inode>, unnamed: Option<Arc<Inode>>) -> Self {
        Self { dirs: [Some(dir), None], unnamed }
    }

    /// Whether a directory is flagged (`+D` or `+S`) to commit its changes at once.
    pub fn is_synchronous(&self) -> bool {
        let flags = InodeFlags::DIRSYNC | InodeFlags::SYNC;
        self.dirs.iter().flatten().any(|d| d.get(|i| i.flags().intersects(flags)))
    }
}

impl Names {
    pub fn new(writeback: Arc<Writeback>) -> Self {
        let files = writeback.files.clone();
        let base = files.base.clone();
        let references = References::new(base.mem.clone());
        Self {
            base,
            nodes: files.nodes.clone(),
            dirs: Dirs::new(files.clone()),
            xattrs: Xattrs::new(files.clone()),
            files,
            writeback,
            references,
            rename: Mutex::new(()),
        }
    }
}
