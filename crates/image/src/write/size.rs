//! The smallest volume that holds the placed blocks.
use super::{BLOCK, SEGMENT, SEGMENT_BLOCKS};
use crate::options::Headroom;
use crate::tree::{Kind, Tree};
use crate::{Error, Result};
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::{BLOCKS_PER_SEG, Features};
use segno_mkfs::{Layout, MkfsOptions, plan};

/// The limit of the format is 16 TiB.
const MOST_SEGMENTS: u64 = 1 << 23;
/// Blocks in front of the first segment of a read-only volume.
const READ_ONLY_LEAD: u64 = 2;

/// Space that a volume must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Blocks of the main area, from its start to the end of the last log.
    pub(crate) main: u64,
    /// Blocks in use and reserved, nodes included.
    pub(crate) blocks: u64,
    /// Numbers of nodes.
    pub(crate) nids: u64,
}

impl Demand {
    /// At least what a tree takes, before its content was read.
    pub(crate) fn bound(tree: &Tree) -> Self {
        let data: u64 = tree
            .inodes
            .iter()
            .map(|i| match &i.kind {
                Kind::File(content) => content.size.div_ceil(BLOCK).saturating_mul(1_018).div_ceil(1_017) + 2,
                // Dentry blocks are half full, and names have 255 bytes.
                Kind::Directory(names) => 3 + names.len() as u64 / 3,
                _ => 2,
            })
            .fold(0, u64::saturating_add);
        let blocks = data.saturating_add(tree.inodes.len() as u64);
        Self { main: blocks.saturating_add(8 * SEGMENT_BLOCKS), blocks, nids: blocks.min(u32::MAX.into()) }
    }

    fn fits(&self, layout: &Layout, free: u64) -> bool {
        let reserve = &layout.reserve;
        let reserved = u64::from(reserve.rsvd_segment_count) * SEGMENT_BLOCKS;
        let main = u64::from(layout.geo.segment_count_main) * SEGMENT_BLOCKS;
        let nat_blocks = u64::from(layout.geo.segment_count_nat / 2) * SEGMENT_BLOCKS;
        self.main.saturating_add(reserved) <= main
            && self.blocks.saturating_add(free) <= reserve.user_block_count
            && self.nids < nat_blocks * u64::from(NAT_PER_BLOCK)
    }
}

/// Size in bytes of a volume with `segments` segments.
fn bytes_of(segments: u64, options: &MkfsOptions) -> u64 {
    segments * SEGMENT + if options.has(Features::RO) { READ_ONLY_LEAD * BLOCK } else { 0 }
}

/// The smallest volume with room for `demand` and the headroom, and its size in bytes.
pub(crate) fn smallest(demand: &Demand, headroom: Headroom, options: &MkfsOptions) -> Result<(u64, Layout)> {
    let free = match headroom {
        Headroom::Bytes(bytes) => bytes.div_ceil(BLOCK),
        Headroom::Percent(percent) => demand.blocks.saturating_mul(percent).div_ceil(100),
    };
    let mut refusal = None;
    let from = demand.main.max(demand.blocks.saturating_add(free)) / u64::from(BLOCKS_PER_SEG);
    for segments in from.max(1)..=MOST_SEGMENTS {
        let bytes = bytes_of(segments, options);
        match plan(&[bytes / BLOCK], options) {
            Ok(layout) if demand.fits(&layout, free) => return Ok((bytes, layout)),
            Ok(_) => refusal = None,
            Err(e) if e.is_about_size() => refusal = Some(e),
            Err(e) => return Err(e.into()),
        }
    }
    Err(refusal.map_or(Error::TooLarge, Error::from))
}

/// The volume of a given size, rounded down to whole blocks.
pub(crate) fn given(demand: &Demand, given: u64, options: &MkfsOptions) -> Result<(u64, Layout)> {
    let bytes = given / BLOCK * BLOCK;
    match plan(&[bytes / BLOCK], options) {
        Ok(layout) if demand.fits(&layout, 0) => return Ok((bytes, layout)),
        Err(e) if !e.is_about_size() => return Err(e.into()),
        _ => {}
    }
    let (mut enough, _) = smallest(demand, Headroom::Bytes(0), options)?;
    // A volume with a partial last segment may have less room than a smaller one with whole segments.
    while enough <= given {
        enough += SEGMENT;
    }
    Err(Error::TooSmall { given, missing: enough - given, enough })
}
