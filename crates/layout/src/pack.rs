//! The two checkpoint packs.
use crate::reader::{VolumeBlock, left_out, read_volume_block};
use crate::{Reader, Stamp, Superblocks};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use segno_format::bits::msb;
use segno_format::checkpoint::{
    BitmapPlace, CHECKSUM_OFFSET_MIN, CpFlags, RawCheckpoint, bitmap_place, newer_pack,
};
use segno_format::orphan::orphans;
use segno_format::pack::{self, PackHead};
use segno_format::sit::LogType;
use segno_format::summary::SummaryLayout;
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, BlockAddr, Corrupt, Geometry, Ino, Structure};
use zerocopy::IntoBytes;

/// A pack whose two ends are valid and agree.
pub struct Pack {
    /// 0 or 1.
    pub index: usize,
    /// First block.
    pub start: BlockAddr,
    /// All its blocks, as units; a unit that the source omits is zero.
    pub blocks: Vec<Block>,
    /// Checksum of the checkpoint block.
    pub crc: u32,
    /// Whether mkfs wrote this pack and no other one was written since. Determined for the pack in force
    /// only.
    pub is_first: bool,
    place: BitmapPlace,
    payload: u32,
    summaries: SummaryLayout,
}

/// Both packs; an invalid one with its damage.
pub struct Packs(pub [Result<Pack, Corrupt>; 2]);

impl Packs {
    /// Reads both.
    pub fn load<R: Reader + ?Sized>(reader: &R, geo: &Geometry) -> Result<Self, R::Error> {
        Ok(Self([Pack::load(reader, geo, 0)?, Pack::load(reader, geo, 1)?]))
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

/// Superblock and pack for reading a volume that may not be mountable: the first valid superblock whose main
/// area fits the source and that has a readable pack, the newer pack before the older. `None` if no
/// combination is readable.
pub fn readable_pack<R: Reader + ?Sized>(reader: &R) -> Result<Option<(Superblock, Pack)>, R::Error> {
    let mut valid: Vec<_> = Superblocks::load(reader)?.parsed.into_iter().filter_map(Result::ok).collect();
    valid.retain(|sb| reader.end() >= sb.geo.main_end());
    // A superblock with more blocks than the source comes last.
    valid.sort_by_key(|sb| sb.geo.block_count > u64::from(reader.end()));
    for sb in valid {
        let (newer, older) = Packs::load(reader, &sb.geo)?.into_ordered();
        if let Some(pack) = [newer, older].into_iter().flatten().find(|pack| pack.is_readable(&sb.geo)) {
            return Ok(Some((sb, pack)));
        }
    }
    Ok(None)
}

impl Pack {
    /// The pack that a mount uses, or the damage of the first pack if neither is valid. Of the other pack
    /// only both ends are read.
    pub fn in_force<R: Reader + ?Sized>(
        reader: &R,
        geo: &Geometry,
    ) -> Result<Result<Self, Corrupt>, R::Error> {
        let heads = [Self::head(reader, geo, 0)?, Self::head(reader, geo, 1)?];
        let (index, is_first) = (pack::in_force(&heads).unwrap_or(0), pack::is_first(&heads));
        let [first, second] = heads;
        let pack = Self::of_head(reader, geo, index, if index == 0 { first } else { second })?;
        Ok(pack.map(|pack| Self { is_first, ..pack }))
    }

    fn load<R: Reader + ?Sized>(
        reader: &R,
        geo: &Geometry,
        index: usize,
    ) -> Result<Result<Self, Corrupt>, R::Error> {
        let head = Self::head(reader, geo, index)?;
        Self::of_head(reader, geo, index, head)
    }

    /// Reads both ends.
    fn head<R: Reader + ?Sized>(
        reader: &R,
        geo: &Geometry,
        index: usize,
    ) -> Result<Result<PackHead, Corrupt>, R::Error> {
        let mut missing = None;
        let head = PackHead::read(geo.pack_addr(index), |at| {
            let block = read_volume_block(reader, geo, at)?;
            missing = missing.or(block.is_none().then_some(at));
            Ok(block.unwrap_or_else(|| VolumeBlock(vec![Block::zeroed(); geo.units() as usize])))
        })?;
        Ok(missing.map_or(head, |at| Err(left_out(Structure::Checkpoint, at))))
    }

    /// Reads the rest of a pack.
    fn of_head<R: Reader + ?Sized>(
        reader: &R,
        geo: &Geometry,
        index: usize,
        head: Result<PackHead, Corrupt>,
    ) -> Result<Result<Self, Corrupt>, R::Error> {
        let head = match head {
            Ok(head) => head,
            Err(e) => return Ok(Err(e)),
        };
        let start = geo.pack_addr(index);
        let blocks = reader.read_blocks(geo.unit(start), head.total.saturating_mul(geo.units()))?;
        let blocks: Vec<Block> = blocks.into_iter().map(|b| b.unwrap_or_else(Block::zeroed)).collect();
        let place = bitmap_place(geo, head.cp().flags());
        let (payload, summaries) = (geo.cp_payload, geo.summary_layout());
        Ok(Ok(Self { index, start, blocks, crc: head.crc, is_first: false, place, payload, summaries }))
    }

    /// Number of its blocks.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.blocks.len() * BLOCK_SIZE / self.summaries.block
    }

    /// The bytes of consecutive blocks; none if it has not all of them.
    pub(crate) fn bytes(&self, blocks: Range<usize>) -> &[u8] {
        let at = |block: usize| block.saturating_mul(self.summaries.block);
        self.blocks.as_bytes().get(at(blocks.start)..at(blocks.end)).unwrap_or_default()
    }

    /// The bytes of a block.
    pub(crate) fn block(&self, i: usize) -> Option<&[u8]> {
        Some(self.bytes(i..i.saturating_add(1))).filter(|bytes| !bytes.is_empty())
    }

    pub(crate) fn summary_layout(&self) -> SummaryLayout {
        self.summaries
    }

    /// The first 4096 bytes of the checkpoint block.
    #[must_use]
    pub fn header(&self) -> &Block {
        // A pack has at least three blocks: `total_blocks` has checked it.
        static NONE: Block = Block([0; BLOCK_SIZE]);
        self.blocks.first().unwrap_or(&NONE)
    }

    /// Its fixed part.
    #[must_use]
    pub fn cp(&self) -> &RawCheckpoint {
        self.header().view()
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

    /// Stamp of the nodes written after it.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp::after(self.cp(), self.crc)
    }

    /// Which copy of each SIT block is in force.
    pub fn sit_bitmap(&self, geo: &Geometry) -> Result<&[u8], Corrupt> {
        self.whole(self.place.sit, geo.sit_bitmap_bytes())
    }

    /// Which copy of each NAT block is in force.
    pub fn nat_bitmap(&self, geo: &Geometry) -> Result<&[u8], Corrupt> {
        self.whole(self.place.nat, geo.nat_bitmap_bytes())
    }

    fn whole(&self, at: usize, len: usize) -> Result<&[u8], Corrupt> {
        self.bitmap(at).get(..len).ok_or_else(|| {
            let why = "version bitmap does not fit in the pack";
            let room = self.bitmap(0).len();
            Corrupt::block(Structure::Checkpoint, self.start.0.into(), why, len as u64, room as u64)
        })
    }

    /// The bytes from `at` to the end of the payload. A version bitmap starts there.
    fn bitmap(&self, at: usize) -> &[u8] {
        let end = self.len().min(1 + self.payload as usize);
        self.bytes(0..end).get(at..).unwrap_or_default()
    }

    /// Whether SIT block `b` is in the second copy.
    #[must_use]
    pub fn sit_copy(&self, b: u32) -> bool {
        msb::test(self.bitmap(self.place.sit), b as usize)
    }

    /// Whether NAT block `b` is in the second copy.
    #[must_use]
    pub fn nat_copy(&self, b: u32) -> bool {
        msb::test(self.bitmap(self.place.nat), b as usize)
    }

    /// Whether it has the summaries of the node logs.
    #[must_use]
    pub fn has_node_summaries(&self) -> bool {
        self.flags().intersects(CpFlags::UMOUNT | CpFlags::FASTBOOT)
    }

    /// The logs in use: all six, or two on a read-only image.
    #[must_use]
    pub fn logs(geo: &Geometry) -> &'static [LogType] {
        if geo.has_ssa { &LogType::ALL } else { &[LogType::HotData, LogType::HotNode] }
    }

    /// Whether its parts are where its fields place them, regardless of other damage.
    #[must_use]
    pub fn is_readable(&self, geo: &Geometry) -> bool {
        let (cp, flags) = (self.cp(), self.flags());
        let (start, first) = (cp.cp_pack_start_sum.get(), geo.cp_payload.saturating_add(1));
        let orphans = i64::from(start) - i64::from(first);
        // A guarded volume has orphan blocks without the flag.
        let lists = orphans >= i64::from(flags.contains(CpFlags::ORPHAN_PRESENT));
        let nodes = if self.has_node_summaries() { 3 } else { 0 };
        let data = self.len() as i64 - i64::from(start) - nodes - 1;
        let summaries =
            if flags.contains(CpFlags::COMPACT_SUM) { (1..=2).contains(&data) } else { data == 3 };
        let large = flags.contains(CpFlags::LARGE_NAT_BITMAP);
        let placed = !large || cp.checksum_offset.get() == CHECKSUM_OFFSET_MIN;
        lists && summaries && placed
    }

    /// Address at which a log writes next; `None` if its position is outside the main area.
    #[must_use]
    pub fn next_of(&self, log: LogType, geo: &Geometry) -> Option<BlockAddr> {
        let p = self.cp().position(log);
        let exists = p.seg.0 < geo.segment_count_main && u32::from(p.blkoff) < BLOCKS_PER_SEG;
        exists.then(|| geo.seg_start(p.seg).offset(p.blkoff.into()))
    }

    /// Inodes without a name that were open, one result for each block, so that damage in one block does not
    /// hide the others. Their place follows from that of the summaries, not from `ORPHAN_PRESENT`: guarded
    /// volumes clear this flag to hide their orphans from implementations that would free them.
    pub fn orphans(&self) -> impl Iterator<Item = Result<Vec<Ino>, Corrupt>> + '_ {
        let first = 1 + self.payload as usize;
        let end = (self.cp().cp_pack_start_sum.get() as usize).min(self.len());
        let bytes = self.bytes(first..end);
        let addresses = (0..).map(move |i| self.start.offset(i)).skip(first);
        let each = |(at, block): (BlockAddr, &'_ [u8])| orphans(block, at.0.into()).map(Iterator::collect);
        addresses.zip(bytes.chunks_exact(self.summaries.block)).map(each)
    }
}
