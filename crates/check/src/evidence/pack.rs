//! The two checkpoint packs, and everything that is read from the newer one.
use crate::CheckError;
use crate::evidence::Reader;
use crate::report::{Kind, Sink};
use segno_format::bits::msb;
use segno_format::checkpoint::{BitmapPlace, CpFlags, RawCheckpoint, bitmap_place};
use segno_format::pack::{PackHead, in_force};
use segno_format::sit::LogType;
use segno_format::{Block, BlockAddr, Corrupt, Geometry};

/// The pack in force.
pub(crate) struct Pack {
    /// 0 or 1.
    pub index: usize,
    /// Address of its first block.
    pub start: BlockAddr,
    /// All its blocks, from the first checkpoint block to the second.
    pub blocks: Vec<Block>,
    /// Checksum of the checkpoint block.
    pub crc: u32,
    /// Flags of the checkpoint block.
    pub flags: CpFlags,
    /// The checkpoint block followed by its payload.
    bitmaps: Vec<u8>,
    place: BitmapPlace,
}

impl Pack {
    /// Picks the newer valid pack. A power cut can leave the other one half written.
    pub(crate) fn load(
        reader: &Reader<'_>,
        geo: &Geometry,
        sink: &mut Sink,
    ) -> Result<Option<Self>, CheckError> {
        let heads = [Self::head(reader, geo, 0)?, Self::head(reader, geo, 1)?];
        let Some(index) = in_force(&heads) else {
            heads.into_iter().filter_map(Result::err).for_each(|e| sink.add(Kind::NoCheckpoint, e));
            return Ok(None);
        };
        let head = heads.into_iter().nth(index).and_then(Result::ok);
        head.map(|head| Self::read(reader, geo, index, &head)).transpose()
    }

    fn head(
        reader: &Reader<'_>,
        geo: &Geometry,
        index: usize,
    ) -> Result<Result<PackHead, Corrupt>, CheckError> {
        PackHead::read(geo.pack_addr(index), |at| reader.block(at))
    }

    fn read(reader: &Reader<'_>, geo: &Geometry, index: usize, head: &PackHead) -> Result<Self, CheckError> {
        let start = geo.pack_addr(index);
        let blocks = reader.blocks(start, head.total)?;
        let flags = head.cp().flags();
        let payload = blocks.iter().take(1 + geo.cp_payload as usize);
        let bitmaps = payload.flat_map(|b| b.0).collect();
        Ok(Self { index, start, crc: head.crc, flags, bitmaps, place: bitmap_place(geo, flags), blocks })
    }

    /// The checkpoint block.
    pub(crate) fn cp(&self) -> &RawCheckpoint {
        // A pack has at least three blocks: `total_blocks` has checked it.
        static NONE: Block = Block([0; segno_format::BLOCK_SIZE]);
        self.blocks.first().unwrap_or(&NONE).view()
    }

    /// Address of block `i` of the pack, for reports.
    pub(crate) fn addr(&self, i: u32) -> u64 {
        u64::from(self.start.0).saturating_add(i.into())
    }

    /// Whether SIT block `b` is in the second copy.
    pub(crate) fn sit_copy(&self, b: u32) -> bool {
        self.bit(self.place.sit, b)
    }

    /// Whether NAT block `b` is in the second copy.
    pub(crate) fn nat_copy(&self, b: u32) -> bool {
        self.bit(self.place.nat, b)
    }

    fn bit(&self, place: usize, b: u32) -> bool {
        msb::test(self.bitmaps.get(place..).unwrap_or_default(), b as usize)
    }

    /// Whether the summaries of the node logs are in the pack.
    pub(crate) fn has_node_summaries(&self) -> bool {
        self.flags.intersects(CpFlags::UMOUNT | CpFlags::FASTBOOT)
    }

    /// The logs in use: all six, or two on a read-only image.
    pub(crate) fn logs(geo: &Geometry) -> &'static [LogType] {
        if geo.has_ssa { &LogType::ALL } else { &[LogType::HotData, LogType::HotNode] }
    }
}
