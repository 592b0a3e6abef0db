//! The structures before the main area, read and encoded.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::type_complexity
)]

mod block_sizes;
mod chain;
mod fields;
mod journals;
mod packs;
mod superblocks;

use flate2::read::ZlibDecoder;
use segno_device::{BlockDevice, MemDevice};
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Geometry};
use segno_layout::{Reader, Superblocks, certain, superblock_in_force};
use segno_mkfs::{Member, MkfsOptions, format};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Read;
use std::sync::Arc;
use zerocopy::FromBytes;

/// A volume of 64 MiB; with `large_nat_bitmap` its bitmaps continue in the payload of the pack.
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

/// The metadata of a volume that mkfs.f2fs and sload.f2fs made: 3 GiB in blocks of 16 KiB, with 2,530 files
/// in three directories. f2fs-tools of April 2026 (8b0c58b): `mkfs.f2fs -b 16384`, and the same with
/// `-O packed_ssa`. Each unit that is not zero follows its number.
const LARGE_BLOCKS: [(&str, &[u8]); 2] = [
    ("16 KiB", include_bytes!("../volumes/16k-plain.z")),
    ("16 KiB, packed", include_bytes!("../volumes/16k-packed.z")),
];

/// The volumes with large blocks. Units after the metadata are omitted.
fn large_blocks() -> [(&'static str, Blocks, Superblock); 2] {
    LARGE_BLOCKS.map(|(name, stored)| {
        let mut bytes = Vec::new();
        ZlibDecoder::new(stored).read_to_end(&mut bytes).unwrap();
        let mut blocks = Blocks::default();
        for unit in bytes.chunks_exact(4 + BLOCK_SIZE) {
            let number = u32::from_le_bytes(unit[..4].try_into().unwrap());
            blocks.0.insert(number, Block::read_from_bytes(&unit[4..]).unwrap());
        }
        let sb = certain(Superblocks::load_any_block_size(&blocks)).in_force().unwrap().clone();
        for unit in 0..sb.geo.unit(BlockAddr(sb.geo.main_blkaddr)).0 {
            blocks.0.entry(unit).or_insert_with(Block::zeroed);
        }
        (name, blocks, sb)
    })
}

/// A volume of each kind.
fn volumes() -> Vec<(&'static str, Blocks, Superblock)> {
    let (device, sb) = volume(false);
    let mut blocks = Blocks::default();
    for unit in 0..sb.geo.main_blkaddr {
        blocks.0.insert(unit, (&*device as &dyn BlockDevice).block(BlockAddr(unit)).unwrap());
    }
    let mut all = vec![("4 KiB", blocks, sb)];
    all.extend(large_blocks());
    all
}

/// Their geometries.
fn geometries() -> Vec<(&'static str, Geometry)> {
    volumes().into_iter().map(|(name, _, sb)| (name, sb.geo)).collect()
}

/// Blocks by address; all others are omitted.
#[derive(Clone, Default)]
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
