//! Blocks of NAT and SIT, and which of the two copies of each is in force.
use segno_format::bits::msb;
use segno_format::geometry::{NAT_PER_BLOCK, SIT_PER_BLOCK};
use segno_format::nat::{RawNatBlock, RawNatEntry};
use segno_format::sit::{RawSitBlock, RawSitEntry};
use segno_format::{Block, Geometry, Nid, SegNo};

/// Block `b` of the NAT.
#[must_use]
pub fn nat_block(b: u32, entry: impl Fn(Nid) -> RawNatEntry) -> Block {
    let mut block = Block::zeroed();
    let nids = b.saturating_mul(NAT_PER_BLOCK)..;
    for (slot, nid) in block.view_mut::<RawNatBlock>().entries.iter_mut().zip(nids) {
        *slot = entry(Nid(nid));
    }
    block
}

/// Block `b` of the SIT. There is nothing after the last segment.
#[must_use]
pub fn sit_block(geo: &Geometry, b: u32, entry: impl Fn(SegNo) -> RawSitEntry) -> Block {
    let mut block = Block::zeroed();
    let segs = b.saturating_mul(SIT_PER_BLOCK)..geo.segment_count_main;
    for (slot, seg) in block.view_mut::<RawSitBlock>().entries.iter_mut().zip(segs) {
        *slot = entry(SegNo(seg));
    }
    block
}

/// Puts the other copy of block `b` in force. Returns whether that is the second.
pub fn flip(bitmap: &mut [u8], b: u32) -> bool {
    let second = !msb::test(bitmap, b as usize);
    msb::put(bitmap, b as usize, second);
    second
}
