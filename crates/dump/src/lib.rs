//! Every on-disk structure as JSON, each read by itself: what is damaged has an `error` and the rest is still shown.
//!
//! Names of fields are those of the kernel's structures. Nothing is written, and the engine is not used.
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod block;
mod fields;
mod files;
mod lists;
mod path;
mod select;
mod tables;
mod text;

pub use fields::put_name;
pub use select::{DumpError, What};
pub use text::print;

use segno_device::BlockDevice;
use segno_layout::{Packs, Superblocks, certain};
use segno_rescue::Volume;
use serde_json::Value;
use std::sync::Arc;

/// A volume whose structures are shown.
pub struct Image<'a> {
    device: &'a Arc<dyn BlockDevice>,
    superblocks: Superblocks,
    volume: Volume<'a>,
    packs: Option<Packs>,
}

impl<'a> Image<'a> {
    /// Reads superblocks, packs and tables. For some structures all nodes are searched first.
    pub fn open(device: &'a Arc<dyn BlockDevice>, what: &What) -> Result<Self, DumpError> {
        let volume = match what.needs_scan() {
            true => Volume::find(&**device, select::scan_all(&**device)?, false),
            false => Volume::unscanned(&**device),
        };
        let superblocks = certain(Superblocks::load(&volume.reader));
        let packs = volume.geo.map(|geo| certain(Packs::load(&volume.reader, &geo)));
        Ok(Self { device, superblocks, volume, packs })
    }

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

    fn geo(&self) -> Result<&segno_format::Geometry, DumpError> {
        self.volume.geo.as_ref().ok_or(DumpError::Missing("superblock"))
    }
}
