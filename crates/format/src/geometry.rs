//! Addresses and sizes of the areas, and the arithmetic between them.
use crate::summary::SummaryLayout;
use crate::{BLOCK_SIZE, BLOCKS_PER_SEG, BlockAddr, Nid, SecNo, SegNo};

/// Bytes of a NAT entry.
pub(crate) const NAT_ENTRY_BYTES: u32 = 9;
/// Bytes of a SIT entry.
pub(crate) const SIT_ENTRY_BYTES: u32 = 74;
/// NAT entries in a block of 4096 bytes.
pub const NAT_PER_BLOCK: u32 = BLOCK_SIZE as u32 / NAT_ENTRY_BYTES;
/// SIT entries in a block of 4096 bytes.
pub const SIT_PER_BLOCK: u32 = BLOCK_SIZE as u32 / SIT_ENTRY_BYTES;

/// Where everything is. Built from a checked superblock, so no sum overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a block.
    pub block_size: u32,
    /// Segments in a section.
    pub segs_per_sec: u32,
    /// Sections in a zone.
    pub secs_per_zone: u32,
    /// Sections of the main area.
    pub section_count: u32,
    /// Segments of all areas.
    pub segment_count: u32,
    /// Segments of the SIT area, both copies.
    pub segment_count_sit: u32,
    /// Segments of the NAT area, both copies.
    pub segment_count_nat: u32,
    /// Segments of the summary area.
    pub segment_count_ssa: u32,
    /// Segments of the main area.
    pub segment_count_main: u32,
    /// First block of segment 0.
    pub segment0_blkaddr: u32,
    /// First block of the checkpoint area.
    pub cp_blkaddr: u32,
    /// First block of the SIT area.
    pub sit_blkaddr: u32,
    /// First block of the NAT area.
    pub nat_blkaddr: u32,
    /// First block of the summary area.
    pub ssa_blkaddr: u32,
    /// First block of the main area.
    pub main_blkaddr: u32,
    /// Blocks of a pack that hold the part of the SIT bitmap that does not fit into its first block.
    pub cp_payload: u32,
    /// Blocks of the volume.
    pub block_count: u64,
    /// Whether summaries exist (not on `ro` images).
    pub has_ssa: bool,
    /// Whether a summary takes 4096 bytes of its block, however large that is.
    pub packed_ssa: bool,
}

impl Geometry {
    /// Number of 4096-byte units in a block; devices are read in these units.
    #[must_use]
    pub fn units(&self) -> u32 {
        (self.block_size / BLOCK_SIZE as u32).max(1)
    }

    /// The part of the volume that a block begins with; saturates so that a hostile value stays out of range.
    #[must_use]
    pub fn unit(&self, at: BlockAddr) -> BlockAddr {
        BlockAddr(at.0.saturating_mul(self.units()))
    }

    /// NAT entries in a block.
    #[must_use]
    pub fn nat_per_block(&self) -> u32 {
        (self.block_size / NAT_ENTRY_BYTES).max(1)
    }

    /// SIT entries in a block.
    #[must_use]
    pub fn sit_per_block(&self) -> u32 {
        (self.block_size / SIT_ENTRY_BYTES).max(1)
    }

    /// Where the parts of a summary are.
    #[must_use]
    pub fn summary_layout(&self) -> SummaryLayout {
        let block = self.block_size as usize;
        SummaryLayout { block, summary: if self.packed_ssa { BLOCK_SIZE } else { block } }
    }

    /// One past the last main-area block.
    #[must_use]
    pub fn main_end(&self) -> u32 {
        self.main_blkaddr.saturating_add(self.segment_count_main.saturating_mul(BLOCKS_PER_SEG))
    }

    /// Blocks of the main area.
    #[must_use]
    pub fn main_blocks(&self) -> u64 {
        u64::from(self.segment_count_main) * u64::from(BLOCKS_PER_SEG)
    }

    /// Whether the address lies in the main area.
    #[must_use]
    pub fn in_main(&self, a: BlockAddr) -> bool {
        a.0 >= self.main_blkaddr && a.0 < self.main_end()
    }

    /// Segment and offset of a main-area block.
    #[must_use]
    pub fn seg_of(&self, a: BlockAddr) -> Option<(SegNo, u32)> {
        if !self.in_main(a) {
            return None;
        }
        let rel = a.0.saturating_sub(self.main_blkaddr);
        Some((SegNo(rel / BLOCKS_PER_SEG), rel % BLOCKS_PER_SEG))
    }

    /// First block of a main segment.
    #[must_use]
    pub fn seg_start(&self, s: SegNo) -> BlockAddr {
        BlockAddr(self.main_blkaddr.saturating_add(s.0.saturating_mul(BLOCKS_PER_SEG)))
    }

    /// Segments of the main area.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = SegNo> + use<> {
        (0..self.segment_count_main).map(SegNo)
    }

    /// Sections of the main area.
    pub fn sections(&self) -> impl DoubleEndedIterator<Item = SecNo> + use<> {
        (0..self.section_count).map(SecNo)
    }

    /// Section of a segment.
    #[must_use]
    pub fn sec_of(&self, s: SegNo) -> SecNo {
        SecNo(s.0.checked_div(self.segs_per_sec).unwrap_or(0))
    }

    /// First segment of a section.
    #[must_use]
    pub fn sec_start(&self, sec: SecNo) -> SegNo {
        SegNo(sec.0.saturating_mul(self.segs_per_sec))
    }

    /// Segments of a section.
    pub fn segments_of(&self, sec: SecNo) -> impl Iterator<Item = SegNo> + use<> {
        let first = self.sec_start(sec).0;
        (first..first.saturating_add(self.segs_per_sec)).map(SegNo)
    }

    /// Blocks in a section.
    #[must_use]
    pub fn blocks_per_sec(&self) -> u32 {
        self.segs_per_sec.saturating_mul(BLOCKS_PER_SEG)
    }

    /// One past the largest node id.
    #[must_use]
    pub fn max_nid(&self) -> u32 {
        self.nat_blocks().saturating_mul(self.nat_per_block())
    }

    /// Whether a nid may belong to a stored node.
    #[must_use]
    pub fn nid_ok(&self, n: impl Into<Nid>) -> bool {
        let n = n.into();
        n.0 >= Nid::ROOT.0 && n.0 < self.max_nid()
    }

    /// NAT blocks in one copy.
    #[must_use]
    pub fn nat_blocks(&self) -> u32 {
        (self.segment_count_nat / 2).saturating_mul(BLOCKS_PER_SEG)
    }

    /// Address of NAT block `b`; the copies alternate by segment.
    #[must_use]
    pub fn nat_addr(&self, b: u32, second_copy: bool) -> BlockAddr {
        let copy = if second_copy { BLOCKS_PER_SEG } else { 0 };
        let rel = (b / 512).saturating_mul(1024).saturating_add(b % 512).saturating_add(copy);
        BlockAddr(self.nat_blkaddr.saturating_add(rel))
    }

    /// SIT blocks that cover main segments.
    #[must_use]
    pub fn sit_blocks(&self) -> u32 {
        self.segment_count_main.div_ceil(self.sit_per_block())
    }

    /// Address of SIT block `b`; the second copy is the second half of the area.
    #[must_use]
    pub fn sit_addr(&self, b: u32, second_copy: bool) -> BlockAddr {
        let copy = if second_copy { (self.segment_count_sit / 2).saturating_mul(BLOCKS_PER_SEG) } else { 0 };
        BlockAddr(self.sit_blkaddr.saturating_add(b).saturating_add(copy))
    }

    /// Address of a segment's summary block.
    #[must_use]
    pub fn ssa_addr(&self, s: SegNo) -> BlockAddr {
        BlockAddr(self.ssa_blkaddr.saturating_add(s.0))
    }

    /// The part of the volume that a segment's summary begins with.
    #[must_use]
    pub fn summary_unit(&self, s: SegNo) -> BlockAddr {
        let units = if self.packed_ssa { 1 } else { self.units() };
        self.unit(BlockAddr(self.ssa_blkaddr)).offset(s.0.saturating_mul(units))
    }

    /// First block of checkpoint pack 0 or 1.
    #[must_use]
    pub fn pack_addr(&self, pack: usize) -> BlockAddr {
        BlockAddr(self.cp_blkaddr.saturating_add(if pack == 0 { 0 } else { BLOCKS_PER_SEG }))
    }

    /// Bytes of the SIT version bitmap.
    #[must_use]
    pub fn sit_bitmap_bytes(&self) -> usize {
        (self.segment_count_sit / 2) as usize * 64
    }

    /// Bytes of the NAT version bitmap.
    #[must_use]
    pub fn nat_bitmap_bytes(&self) -> usize {
        (self.segment_count_nat / 2) as usize * 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Features;
    use crate::superblock::RawSuperblock;

    #[test]
    fn nat_addresses_alternate_by_segment() {
        let sb: RawSuperblock = zerocopy::FromZeros::new_zeroed();
        let geo =
            Geometry { nat_blkaddr: 1000, segment_count_nat: 6, ..Geometry::of(&sb, Features::empty()) };
        let expect = [
            (0, 1000, 1512),
            (1, 1001, 1513),
            (511, 1511, 2023),
            (512, 2024, 2536),
            (513, 2025, 2537),
            (1535, 3559, 4071),
        ];
        for (b, first, second) in expect {
            assert_eq!((geo.nat_addr(b, false).0, geo.nat_addr(b, true).0), (first, second), "NAT block {b}");
        }
    }
}
