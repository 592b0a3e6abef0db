//! Extended attributes and ACLs.
//!
//! The attributes of an inode are one byte string: the inline area of its block, followed by the xattr node if there
//! is one. A change builds a new string and stores it whole; the node is allocated and freed as the length requires.
mod acl;
mod acl_ops;
mod area;
mod name;
mod ops;

pub use acl::Acl;
pub use acl_ops::Inherited;

use crate::base::Base;
use crate::files::Files;
use crate::nodes::Nodes;
use std::sync::Arc;

/// Extended attributes of inodes.
pub struct Xattrs {
    base: Arc<Base>,
    nodes: Arc<Nodes>,
    files: Arc<Files>,
}

impl Xattrs {
    pub fn new(files: Arc<Files>) -> Self {
        Self { base: files.base.clone(), nodes: files.nodes.clone(), files }
    }
}
