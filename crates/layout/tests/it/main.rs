//! The structures before the main area, read and encoded.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::type_complexity
)]

mod chain;
mod fields;
mod journals;
mod packs;
mod superblocks;

use segno_device::{BlockDevice, MemDevice};
use segno_format::superblock::Superblock;
use segno_format::{Block, BlockAddr};
use segno_layout::{Reader, superblock_in_force};
use segno_mkfs::{Member, MkfsOptions, format};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

/// A volume of 64 MiB, or of so much that its bitmaps run on into the payload of the pack.
fn volume(large_nat_bitmap: bool) -> (Arc<MemDevice>, Superblock) {
    let device = Arc::new(MemDevice::new(64 << 8));
    let options = MkfsOptions {
        large_nat_bitmap,
        uuid: Some([7; 16]),
        checkpoint_ver: Some(100),
        ..MkfsOptions::default()
    };
    format(&[Member { device: device.clone(), path: "device".into(), zeroed: true }], &options).unwrap();
    let sb = superblock_in_force(&*device as &dyn BlockDevice).unwrap().unwrap();
    (device, sb)
}

/// Blocks by address; all others are left out.
#[derive(Default)]
struct Blocks(BTreeMap<u32, Block>);

impl Reader for Blocks {
    type Error = Infallible;

    fn end(&self) -> u32 {
        u32::MAX
    }

    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>, Infallible> {
        Ok(self.0.get(&at.0).cloned())
    }
}
