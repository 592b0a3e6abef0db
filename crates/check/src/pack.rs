//! The two checkpoint packs, and everything that is read from the newer one.
use crate::CheckError;
use crate::reader::Reader;
use crate::report::{Kind, Sink};
use segno_format::bits::msb;
use segno_format::checkpoint::{BitmapPlace, CpFlags, RawCheckpoint, bitmap_place, newer_pack};
use segno_format::sit::LogType;
use segno_format::{Block, BlockAddr, Corrupt, Geometry, Structure};

/// The pack in force.
pub struct Pack {
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
    /// Picks the newer valid pack. The other one may be half written: that is what a power cut leaves.
    pub(crate) fn load(
        reader: &Reader<'_>,
        geo: &Geometry,
        sink: &mut Sink,
    ) -> Result<Option<Self>, CheckError> {
        let mut found = [None, None];
        let mut damage = Vec::new();
        for (index, slot) in found.iter_mut().enumerate() {
            match Self::read(reader, geo, index)? {
                Ok(pack) => *slot = Some(pack),
                Err(e) => damage.push(e),
            }
        }
        let [first, second] = &found;
        let version = |p: &Option<Self>| p.as_ref().map(|p| p.cp().checkpoint_ver.get());
        let Some(index) = newer_pack(version(first), version(second)) else {
            damage.into_iter().for_each(|e| sink.add(Kind::NoCheckpoint, e));
            return Ok(None);
        };
        let [first, second] = found;
        Ok(if index == 0 { first } else { second })
    }

    /// One of the packs, if it is valid.
    pub(crate) fn load_one(
        reader: &Reader<'_>,
        geo: &Geometry,
        index: usize,
    ) -> Result<Option<Self>, CheckError> {
        Ok(Self::read(reader, geo, index)?.ok())
    }

    fn read(reader: &Reader<'_>, geo: &Geometry, index: usize) -> Result<Result<Self, Corrupt>, CheckError> {
        let start = geo.pack_addr(index);
        let first = reader.block(start)?;
        let at = u64::from(start.0);
        let total = match RawCheckpoint::verify(&first, at) {
            Ok(_) => first.view::<RawCheckpoint>().total_blocks(at),
            Err(e) => Err(e),
        };
        let total = match total {
            Ok(n) => n,
            Err(e) => return Ok(Err(e)),
        };
        let blocks = reader.blocks(start, total)?;
        Ok(Self::from_blocks(blocks, geo, index))
    }

    fn from_blocks(blocks: Vec<Block>, geo: &Geometry, index: usize) -> Result<Self, Corrupt> {
        let start = geo.pack_addr(index);
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
            return Err(Corrupt::block(Structure::Checkpoint, start.0.into(), "empty pack", 0, 2));
        };
        let end = u64::from(start.0).saturating_add(blocks.len() as u64 - 1);
        let crc = RawCheckpoint::verify(first, start.0.into())?;
        let last_crc = RawCheckpoint::verify(last, end)?;
        let (a, b) = (first.view::<RawCheckpoint>(), last.view::<RawCheckpoint>());
        if a.checkpoint_ver != b.checkpoint_ver {
            let (found, expected) = (b.checkpoint_ver.get(), a.checkpoint_ver.get());
            return Err(Corrupt::block(
                Structure::Checkpoint,
                end,
                "version at the end of the pack",
                found,
                expected,
            ));
        }
        if crc != last_crc {
            let why = "checksum at the end of the pack";
            return Err(Corrupt::block(Structure::Checkpoint, end, why, last_crc.into(), crc.into()));
        }
        let flags = a.flags();
        let payload = blocks.iter().take(1 + geo.cp_payload as usize);
        let bitmaps = payload.flat_map(|b| b.0).collect();
        Ok(Self { index, start, crc, flags, bitmaps, place: bitmap_place(geo, flags), blocks })
    }

    /// The checkpoint block and its payload, in which the version bitmaps are.
    #[must_use]
    pub fn bitmaps(&self) -> &[u8] {
        &self.bitmaps
    }

    /// The checkpoint block.
    #[must_use]
    pub fn cp(&self) -> &RawCheckpoint {
        // A pack has at least three blocks: `total_blocks` has checked it.
        static NONE: Block = Block([0; segno_format::BLOCK_SIZE]);
        self.blocks.first().unwrap_or(&NONE).view()
    }

    /// Address of block `i` of the pack, for reports.
    pub(crate) fn addr(&self, i: u32) -> u64 {
        u64::from(self.start.0).saturating_add(i.into())
    }

    /// Whether SIT block `b` is in the second copy.
    pub fn sit_copy(&self, b: u32) -> bool {
        self.bit(self.place.sit, b)
    }

    /// Whether NAT block `b` is in the second copy.
    pub fn nat_copy(&self, b: u32) -> bool {
        self.bit(self.place.nat, b)
    }

    fn bit(&self, place: usize, b: u32) -> bool {
        msb::test(self.bitmaps.get(place..).unwrap_or_default(), b as usize)
    }

    /// Whether the summaries of the node logs are in the pack.
    pub fn has_node_summaries(&self) -> bool {
        self.flags.intersects(CpFlags::UMOUNT | CpFlags::FASTBOOT)
    }

    /// The logs in use: all six, or two on a read-only image.
    pub fn logs(geo: &Geometry) -> &'static [LogType] {
        if geo.has_ssa { &LogType::ALL } else { &[LogType::HotData, LogType::HotNode] }
    }
}
