//! The volume that is repaired: its tables as of the checkpoint that is in force.
use crate::error::Result;
use segno_check::CheckError;
use segno_device::BlockDevice;
use segno_format::superblock::Superblock;
use segno_format::{Block, BlockAddr, Geometry, SegNo};
use segno_layout::{Nat, Pack, Sit, Summaries, readable_pack};
use std::collections::BTreeSet;

/// Blocks of the device; an error names the address.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub &'a dyn BlockDevice);

impl Reader<'_> {
    pub(crate) fn block(&self, addr: BlockAddr) -> Result<Block> {
        let mut one = [Block::zeroed()];
        self.fill(addr, &mut one)?;
        let [block] = one;
        Ok(block)
    }

    pub(crate) fn blocks(&self, addr: BlockAddr, count: u32) -> Result<Vec<Block>> {
        let mut blocks = vec![Block::zeroed(); count as usize];
        self.fill(addr, &mut blocks)?;
        Ok(blocks)
    }

    fn fill(&self, addr: BlockAddr, into: &mut [Block]) -> Result<()> {
        let (addr, count) = (u64::from(addr.0), into.len());
        Ok(self.0.read(addr, into).map_err(|source| CheckError::Io { addr, count, source })?)
    }
}

impl segno_layout::Reader for Reader<'_> {
    type Error = crate::RepairError;

    fn end(&self) -> u32 {
        u32::try_from(self.0.block_count()).unwrap_or(u32::MAX)
    }

    /// What is behind the end of the device is left out.
    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>> {
        (u64::from(at.0) < self.0.block_count()).then(|| self.block(at)).transpose()
    }

    fn read_blocks(&self, at: BlockAddr, count: u32) -> Result<Vec<Option<Block>>> {
        Ok(self.blocks(at, count)?.into_iter().map(Some).collect())
    }
}

pub(crate) struct Volume<'a> {
    pub reader: Reader<'a>,
    pub sb: Superblock,
    pub geo: Geometry,
    pub pack: Pack,
    pub summaries: Summaries,
    pub sit: Sit,
    pub nat: Nat,
    /// Inodes without a name.
    pub orphans: BTreeSet<u32>,
}

impl<'a> Volume<'a> {
    /// Loads the tables without judging them: those of the older pack, or by the second superblock, if what a mount would use cannot be;
    /// `None` when too little is left.
    pub(crate) fn open(device: &'a dyn BlockDevice) -> Result<Option<Self>> {
        let reader = Reader(device);
        readable_pack(&reader)?.map(|(sb, pack)| Self::of_pack(reader, sb, pack)).transpose()
    }

    fn of_pack(reader: Reader<'a>, sb: Superblock, pack: Pack) -> Result<Self> {
        let (geo, summaries) = (sb.geo, Summaries::load(&pack));
        let sit = Sit::load(&reader, &geo, &pack, &summaries)?;
        let nat = Nat::load(&reader, &geo, &pack, &summaries)?;
        let listed = pack.orphans().filter_map(std::result::Result::ok).flatten();
        let orphans = listed.filter(|ino| geo.nid_ok(*ino)).map(|ino| ino.0).collect();
        Ok(Self { reader, sb, geo, pack, summaries, sit, nat, orphans })
    }

    /// Segments with a block in the SIT.
    pub(crate) fn segments_in_use(&self) -> impl Iterator<Item = SegNo> + '_ {
        (0..self.geo.segment_count_main).map(SegNo).filter(|seg| self.sit.count(*seg) != 0)
    }
}
