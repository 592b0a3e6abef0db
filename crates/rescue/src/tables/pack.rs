//! The two checkpoint packs.
use super::unreadable;
use crate::Reader;
use segno_format::bits::msb;
use segno_format::checkpoint::{BitmapPlace, CpFlags, RawCheckpoint, bitmap_place, newer_pack};
use segno_format::orphan::RawOrphanBlock;
use segno_format::pack::PackHead;
use segno_format::sit::LogType;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, BlockAddr, Corrupt, Geometry, Nid, Structure};

/// A pack whose two ends are valid and agree.
pub struct Pack {
    /// First block.
    pub start: BlockAddr,
    /// All its blocks; one that cannot be read is zero.
    pub blocks: Vec<Block>,
    /// Checksum of the checkpoint block.
    pub crc: u32,
    bitmaps: Vec<u8>,
    place: BitmapPlace,
    payload: u32,
}

/// Both packs, each with its verdict.
pub struct Packs(pub [Result<Pack, Corrupt>; 2]);

impl Packs {
    /// Reads both.
    #[must_use]
    pub fn load(reader: &Reader<'_>, geo: &Geometry) -> Self {
        Self([0, 1].map(|i| Pack::load(reader, geo, geo.pack_addr(i))))
    }

    /// Index of the pack that a mount uses.
    #[must_use]
    pub fn newer(&self) -> Option<usize> {
        let [first, second] = &self.0;
        let version = |p: &Result<Pack, Corrupt>| p.as_ref().ok().map(Pack::version);
        newer_pack(version(first), version(second))
    }

    /// The pack that a mount uses, and the other one.
    #[must_use]
    pub fn into_ordered(self) -> (Option<Pack>, Option<Pack>) {
        let newer = self.newer();
        let [first, second] = self.0.map(Result::ok);
        if newer == Some(1) { (second, first) } else { (first, second) }
    }
}

impl Pack {
    fn load(reader: &Reader<'_>, geo: &Geometry, start: BlockAddr) -> Result<Self, Corrupt> {
        let lost = |at: BlockAddr| unreadable(Structure::Checkpoint, at.0);
        let head = PackHead::read(start, |at| reader.block(at).ok_or_else(|| lost(at)))??;
        let blocks = reader.blocks(start, head.total).into_iter().map(|b| b.unwrap_or_else(Block::zeroed));
        let blocks: Vec<Block> = blocks.collect();
        let flags = head.cp().flags();
        let bitmaps = blocks.iter().take(1 + geo.cp_payload as usize).flat_map(|b| b.0).collect();
        let (place, payload) = (bitmap_place(geo, flags), geo.cp_payload);
        Ok(Self { start, blocks, crc: head.crc, bitmaps, place, payload })
    }

    /// The checkpoint block.
    #[must_use]
    pub fn cp(&self) -> &RawCheckpoint {
        // A pack has at least three blocks: `total_blocks` has checked it.
        static NONE: Block = Block([0; BLOCK_SIZE]);
        self.blocks.first().unwrap_or(&NONE).view()
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.cp().checkpoint_ver.get()
    }

    /// Its flags.
    #[must_use]
    pub fn flags(&self) -> CpFlags {
        self.cp().flags()
    }

    /// What nodes written after it carry.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        let crc = if self.flags().contains(CpFlags::CRC_RECOVERY) { u64::from(self.crc) << 32 } else { 0 };
        self.version() | crc
    }

    /// Whether a node was written after it.
    #[must_use]
    pub fn precedes(&self, cp_ver: u64) -> bool {
        match self.flags().contains(CpFlags::NOCRC_RECOVERY) {
            true => self.version() as u32 == cp_ver as u32,
            false => self.stamp() == cp_ver,
        }
    }

    /// Whether SIT block `b` is in the second copy.
    #[must_use]
    pub fn sit_copy(&self, b: u32) -> bool {
        msb::test(self.bitmaps.get(self.place.sit..).unwrap_or_default(), b as usize)
    }

    /// Whether NAT block `b` is in the second copy.
    #[must_use]
    pub fn nat_copy(&self, b: u32) -> bool {
        msb::test(self.bitmaps.get(self.place.nat..).unwrap_or_default(), b as usize)
    }

    /// Whether it has the summaries of the node logs.
    #[must_use]
    pub fn has_node_summaries(&self) -> bool {
        self.flags().intersects(CpFlags::UMOUNT | CpFlags::FASTBOOT)
    }

    /// Address at which a log writes next, if there is such a place.
    #[must_use]
    pub fn next_of(&self, log: LogType, geo: &Geometry) -> Option<BlockAddr> {
        let p = self.cp().position(log);
        let exists = p.seg.0 < geo.segment_count_main && u32::from(p.blkoff) < BLOCKS_PER_SEG;
        exists.then(|| geo.seg_start(p.seg).offset(p.blkoff.into()))
    }

    /// Inodes without a name that were open.
    #[must_use]
    pub fn orphans(&self) -> Vec<Nid> {
        if !self.flags().contains(CpFlags::ORPHAN_PRESENT) {
            return Vec::new();
        }
        let first = 1 + self.payload as usize;
        let end = (self.cp().cp_pack_start_sum.get() as usize).min(self.blocks.len());
        let blocks = self.blocks.get(first..end).unwrap_or_default();
        let listed = blocks.iter().flat_map(|b| b.view::<RawOrphanBlock>().inos(0).into_iter().flatten());
        listed.collect()
    }
}
