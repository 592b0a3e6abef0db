//! Sizes of volumes in whole segments.
use crate::options::Headroom;
use crate::{Error, Result};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG};
use segno_mkfs::{MkfsOptions, plan};

/// The limit of the format is 16 TiB.
const MOST_SEGMENTS: u64 = 1 << 23;

/// Bytes of a segment.
pub(crate) const SEGMENT: u64 = BLOCKS_PER_SEG as u64 * BLOCK_SIZE as u64;

/// The smallest number of segments, from `least` on, of a volume with room for so many blocks of files and nodes.
pub(crate) fn segments_for(blocks: u64, least: u64, options: &MkfsOptions) -> Result<u64> {
    let from = least.max(blocks / u64::from(BLOCKS_PER_SEG)).max(1);
    let mut refusal = None;
    for segments in from..=MOST_SEGMENTS {
        match plan(&[segments * u64::from(BLOCKS_PER_SEG)], options) {
            Ok(layout) if layout.reserve.user_block_count >= blocks => return Ok(segments),
            Ok(_) => refusal = None,
            Err(e) if e.is_about_size() => refusal = Some(e),
            Err(e) => return Err(e.into()),
        }
    }
    Err(refusal.map_or(Error::TooLarge, Error::from))
}

/// Blocks with the headroom.
pub(crate) fn with_headroom(blocks: u64, headroom: Headroom) -> u64 {
    blocks.saturating_add(match headroom {
        Headroom::Bytes(bytes) => bytes.div_ceil(BLOCK_SIZE as u64),
        Headroom::Percent(percent) => blocks.saturating_mul(percent).div_ceil(100),
    })
}
