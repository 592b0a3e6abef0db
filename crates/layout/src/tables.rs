//! Blocks of NAT and SIT, and which of the two copies of each is in force.
use segno_format::bits::msb;
use segno_format::nat::RawNatEntry;
use segno_format::sit::RawSitEntry;
use segno_format::{Geometry, Nid, SegNo};
use zerocopy::IntoBytes;

/// Makes a block of zeros block `b` of the NAT.
#[must_use]
pub fn nat_block<B: AsMut<[u8]>>(mut zeros: B, b: u32, entry: impl Fn(Nid) -> RawNatEntry) -> B {
    let slots = zeros.as_mut().chunks_exact_mut(size_of::<RawNatEntry>());
    let nids = b.saturating_mul(slots.len() as u32)..;
    slots.zip(nids).for_each(|(slot, nid)| slot.copy_from_slice(entry(Nid(nid)).as_bytes()));
    zeros
}

/// Makes a block of zeros block `b` of the SIT. There is nothing after the last segment.
#[must_use]
pub fn sit_block<B: AsMut<[u8]>>(
    mut zeros: B,
    geo: &Geometry,
    b: u32,
    entry: impl Fn(SegNo) -> RawSitEntry,
) -> B {
    let slots = zeros.as_mut().chunks_exact_mut(size_of::<RawSitEntry>());
    let segs = b.saturating_mul(slots.len() as u32)..geo.segment_count_main;
    slots.zip(segs).for_each(|(slot, seg)| slot.copy_from_slice(entry(SegNo(seg)).as_bytes()));
    zeros
}

/// Puts the other copy of block `b` in force. Returns whether that is the second.
pub fn flip(bitmap: &mut [u8], b: u32) -> bool {
    let second = !msb::test(bitmap, b as usize);
    msb::put(bitmap, b as usize, second);
    second
}
