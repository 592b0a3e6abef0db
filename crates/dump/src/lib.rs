//! Every on-disk structure as JSON. Each is read independently: a damaged one has an `error`, and all others
//! are still shown.
//!
//! Fields have the names of the kernel's structures. Nothing is written, and the engine is not used.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod block;
mod fields;
mod files;
mod image;
mod lists;
mod path;
mod select;
mod tables;
mod text;

pub use fields::put_name;
pub use image::Image;
pub use select::{DumpError, What};
pub use text::print;

use serde_json::Value;

impl Image<'_> {
    /// Shows a structure.
    pub fn show(&self, what: &What) -> Result<Value, DumpError> {
        match what {
            What::Superblock(copy) => Ok(self.superblocks(*copy)),
            What::Checkpoint(pack) => self.checkpoints(*pack),
            What::Nat(range) => self.nat(range),
            What::Sit(range) => self.sit(range),
            What::Ssa(range) => self.ssa(range),
            What::Node(nid, versions) => self.node(*nid, *versions),
            What::Inode(file, versions) => self.inode(self.ino(file)?, *versions),
            What::Dentry(file, cleared) => self.dentries(self.ino(file)?, *cleared),
            What::Xattr(file) => self.xattrs(self.ino(file)?),
            What::Orphans => self.orphans(),
            What::Quota => self.quota(),
            What::Chain => self.chain(),
            What::Journal => self.journal(),
            What::Block(addr) => Ok(self.block(*addr)),
            What::Segment(seg) => self.segment(*seg),
            What::Owner(addr) => Ok(self.owner(*addr)),
        }
    }
}
