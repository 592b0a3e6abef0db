//! The blocks of a checkpoint pack.
use crate::check_checkpoint;
use alloc::vec;
use alloc::vec::Vec;
use segno_format::checkpoint::{CpFlags, RawCheckpoint, bitmap_place};
use segno_format::nat::RawNatJournal;
use segno_format::orphan::{ORPHANS_PER_BLOCK, RawOrphanBlock};
use segno_format::sit::{LogType, RawSitJournal};
use segno_format::summary::{
    COMPACT_FIRST, COMPACT_NEXT, JOURNAL_BYTES, RawExtraInfo, RawSummaryBlock, compact_position,
};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, Corrupt, Geometry, Ino};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

/// What the blocks of a pack say.
pub struct Contents<'a> {
    /// The checkpoint block: version, counts, positions of the logs and flags. What follows from the rest is set here.
    pub header: &'a Block,
    /// Which copy of each SIT block is in force.
    pub sit_bitmap: &'a [u8],
    /// Which copy of each NAT block is in force.
    pub nat_bitmap: &'a [u8],
    /// Inodes without a name that are open.
    pub orphans: &'a [Ino],
    /// Summaries of the segments of the data logs.
    pub data: [&'a RawSummaryBlock; 3],
    /// Whether the entries of those are stored without the unused ones, where they fit into two blocks.
    pub compact: bool,
    /// Summaries of the segments of the node logs: stored by an unmount.
    pub nodes: Option<[&'a RawSummaryBlock; 3]>,
    /// NAT entries newer than the NAT.
    pub nat: &'a RawNatJournal,
    /// SIT entries newer than the SIT.
    pub sit: &'a RawSitJournal,
    /// KiB written in the life of the volume; stored with the summaries of nodes.
    pub kbytes_written: u64,
}

/// The blocks of a pack.
pub struct Encoded {
    /// All but the last one.
    pub blocks: Vec<Block>,
    /// The checkpoint block, which is also the last one.
    pub header: Block,
    /// Its checksum.
    pub crc: u32,
}

/// Why contents are no pack.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unencodable {
    /// They take more blocks than a segment has: too many orphans.
    #[error("a checkpoint pack is longer than its segment")]
    TooLong,
    /// The bitmaps or the compact summaries do not fit where the geometry has them.
    #[error("the version bitmaps do not fit into the checkpoint pack")]
    Misfit,
    /// No mount would use a pack with this checkpoint block.
    #[error(transparent)]
    Impossible(#[from] Corrupt),
}

impl Contents<'_> {
    /// Makes the blocks; `seal` stores the checksum of the checkpoint block and returns it.
    pub fn encode(
        &self,
        geo: &Geometry,
        seal: impl FnOnce(&mut Block) -> u32,
    ) -> Result<Encoded, Unencodable> {
        let orphans = orphan_blocks(self.orphans);
        let (summaries, compact) = self.data_summaries()?;
        let nodes = self.node_summaries();
        let head = 1 + geo.cp_payload as usize;
        let total = head + orphans.len() + summaries.len() + nodes.len() + 1;
        if total > BLOCKS_PER_SEG as usize {
            return Err(Unencodable::TooLong);
        }
        let mut blocks = vec![self.header.clone()];
        blocks.resize(head, Block::zeroed());
        let mut flags = self.header.view::<RawCheckpoint>().flags();
        flags.set(CpFlags::ORPHAN_PRESENT, !orphans.is_empty());
        flags.set(CpFlags::COMPACT_SUM, compact);
        let first = blocks.first_mut().ok_or(Unencodable::Misfit)?;
        let cp: &mut RawCheckpoint = first.view_mut();
        cp.ckpt_flags = U32::new(flags.bits());
        cp.cp_pack_total_block_count = U32::new(total as u32);
        cp.cp_pack_start_sum = U32::new((head + orphans.len()) as u32);
        cp.sit_ver_bitmap_bytesize = U32::new(self.sit_bitmap.len() as u32);
        cp.nat_ver_bitmap_bytesize = U32::new(self.nat_bitmap.len() as u32);
        cp.tail.fill(0);
        let place = bitmap_place(geo, flags);
        put(&mut blocks, place.sit, self.sit_bitmap)?;
        put(&mut blocks, place.nat, self.nat_bitmap)?;
        let first = blocks.first_mut().ok_or(Unencodable::Misfit)?;
        check_checkpoint(first.view(), geo, geo.pack_addr(0))?;
        let crc = seal(first);
        let header = first.clone();
        blocks.extend(orphans.into_iter().chain(summaries).chain(nodes));
        Ok(Encoded { blocks, header, crc })
    }

    /// Summaries of the data logs with the NAT and SIT journals, and whether they are compact.
    fn data_summaries(&self) -> Result<(Vec<Block>, bool), Unencodable> {
        let cp: &RawCheckpoint = self.header.view();
        let [hot, warm, cold, ..] = LogType::ALL.map(|log| cp.position(log).used_blocks() as usize);
        let used = [hot, warm, cold];
        let total: usize = used.iter().sum();
        if !self.compact || total > COMPACT_FIRST + COMPACT_NEXT {
            let journals = [self.nat.as_bytes(), &[0; JOURNAL_BYTES], self.sit.as_bytes()];
            let blocks = self.data.iter().zip(journals).map(|(sum, journal)| summary_block(sum, journal));
            return Ok((blocks.collect(), false));
        }
        let mut blocks = vec![Block::zeroed(); if total > COMPACT_FIRST { 2 } else { 1 }];
        put(&mut blocks, 0, self.nat.as_bytes())?;
        put(&mut blocks, JOURNAL_BYTES, self.sit.as_bytes())?;
        let entries = self.data.iter().zip(used).flat_map(|(sum, used)| sum.entries.iter().take(used));
        for (i, e) in entries.enumerate() {
            let (block, byte) = compact_position(i);
            put(&mut blocks, block * BLOCK_SIZE + byte, e.as_bytes())?;
        }
        Ok((blocks, true))
    }

    fn node_summaries(&self) -> Vec<Block> {
        let mut info = RawExtraInfo::new_zeroed();
        info.kbytes_written = U64::new(self.kbytes_written);
        let journals = [info.as_bytes(), &[0; JOURNAL_BYTES], &[0; JOURNAL_BYTES]];
        let all = self.nodes.iter().flatten();
        all.zip(journals).map(|(sum, journal)| summary_block(sum, journal)).collect()
    }
}

fn summary_block(sum: &RawSummaryBlock, journal: &[u8]) -> Block {
    let mut block = Block::zeroed();
    let raw: &mut RawSummaryBlock = block.view_mut();
    *raw = *sum;
    raw.journal.copy_from_slice(journal);
    block
}

fn orphan_blocks(inos: &[Ino]) -> Vec<Block> {
    let count = inos.len().div_ceil(ORPHANS_PER_BLOCK);
    let block = |(i, part): (usize, &[Ino])| {
        let mut b = Block::zeroed();
        let raw: &mut RawOrphanBlock = b.view_mut();
        for (slot, ino) in raw.ino.iter_mut().zip(part) {
            *slot = U32::new(ino.0);
        }
        raw.blk_addr = U16::new(i as u16 + 1);
        raw.blk_count = U16::new(count as u16);
        raw.entry_count = U32::new(part.len() as u32);
        b
    };
    inos.chunks(ORPHANS_PER_BLOCK).enumerate().map(block).collect()
}

/// Stores bytes at an offset of consecutive blocks.
fn put(blocks: &mut [Block], at: usize, bytes: &[u8]) -> Result<(), Unencodable> {
    let all = blocks.as_mut_bytes();
    let place = at.checked_add(bytes.len()).and_then(|end| all.get_mut(at..end));
    place.map(|place| place.copy_from_slice(bytes)).ok_or(Unencodable::Misfit)
}
