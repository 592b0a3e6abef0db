//! The blocks of a checkpoint pack.
use crate::check_checkpoint;
use alloc::vec;
use alloc::vec::Vec;
use segno_format::checkpoint::{CpFlags, RawCheckpoint, bitmap_place};
use segno_format::nat::RawNatJournalEntry;
use segno_format::orphan::RawOrphanFooter;
use segno_format::sit::{LogType, RawSitJournalEntry};
use segno_format::summary::{Journal, RawExtraInfo, RawSummaryBlock, SummaryLayout};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, Corrupt, Geometry, Ino};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Contents of a pack.
pub struct Contents<'a> {
    /// The checkpoint block: version, counts, positions of the logs and flags. Encoding sets the fields that
    /// depend on the other members.
    pub header: &'a Block,
    /// Which copy of each SIT block is in force.
    pub sit_bitmap: &'a [u8],
    /// Which copy of each NAT block is in force.
    pub nat_bitmap: &'a [u8],
    /// Inodes without a name that are open.
    pub orphans: &'a [Ino],
    /// Summaries of the segments of the data logs.
    pub data: [&'a RawSummaryBlock; 3],
    /// Whether to store the data summaries in compact form if the entries in use fit into two blocks.
    pub compact: bool,
    /// Summaries of the segments of the node logs: stored by an unmount.
    pub nodes: Option<[&'a RawSummaryBlock; 3]>,
    /// NAT entries newer than the NAT.
    pub nat: &'a [RawNatJournalEntry],
    /// SIT entries newer than the SIT.
    pub sit: &'a [RawSitJournalEntry],
    /// KiB written in the life of the volume; stored with the summaries of nodes.
    pub kbytes_written: u64,
}

/// The blocks of a pack.
pub struct Encoded {
    /// All but the last one, as units.
    pub blocks: Vec<Block>,
    /// The first 4096 bytes of the checkpoint block, which is also the last one.
    pub header: Block,
    /// Its checksum.
    pub crc: u32,
}

/// Why contents cannot be encoded.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unencodable {
    /// The pack takes more blocks than a segment has: too many orphans.
    #[error("a checkpoint pack is longer than its segment")]
    TooLong,
    /// The bitmaps or the journals do not fit into the space that the geometry gives them.
    #[error("the version bitmaps or the journals do not fit into the checkpoint pack")]
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
        seal: impl FnOnce(&mut [u8]) -> u32,
    ) -> Result<Encoded, Unencodable> {
        let (block, layout) = (geo.block_size as usize, geo.summary_layout());
        let orphans = orphan_blocks(self.orphans, block);
        let (summaries, compact) = self.data_summaries(layout)?;
        let nodes = self.node_summaries(layout)?;
        let head = (1 + geo.cp_payload as usize) * block;
        let total = (head + orphans.len() + summaries.len() + nodes.len()) / block + 1;
        if total > BLOCKS_PER_SEG as usize {
            return Err(Unencodable::TooLong);
        }
        let mut first = self.header.clone();
        let cp: &mut RawCheckpoint = first.view_mut();
        let mut flags = cp.flags();
        flags.set(CpFlags::ORPHAN_PRESENT, !orphans.is_empty());
        flags.set(CpFlags::COMPACT_SUM, compact);
        cp.ckpt_flags = U32::new(flags.bits());
        cp.cp_pack_total_block_count = U32::new(total as u32);
        cp.cp_pack_start_sum = U32::new(((head + orphans.len()) / block) as u32);
        cp.sit_ver_bitmap_bytesize = U32::new(self.sit_bitmap.len() as u32);
        cp.nat_ver_bitmap_bytesize = U32::new(self.nat_bitmap.len() as u32);
        cp.tail.fill(0);
        let mut blocks = vec![0; head];
        put(&mut blocks, 0, &first.0)?;
        let place = bitmap_place(geo, flags);
        put(&mut blocks, place.sit, self.sit_bitmap)?;
        put(&mut blocks, place.nat, self.nat_bitmap)?;
        check_checkpoint(first.view(), geo, geo.pack_addr(0))?;
        let crc = seal(blocks.get_mut(..block).ok_or(Unencodable::Misfit)?);
        blocks.extend(orphans.into_iter().chain(summaries).chain(nodes));
        let blocks = units(&blocks);
        let header = blocks.first().cloned().ok_or(Unencodable::Misfit)?;
        Ok(Encoded { blocks, header, crc })
    }

    /// Summaries of the data logs with the NAT and SIT journals, and whether they are compact.
    fn data_summaries(&self, layout: SummaryLayout) -> Result<(Vec<u8>, bool), Unencodable> {
        let cp: &RawCheckpoint = self.header.view();
        let [hot, warm, cold, ..] = LogType::ALL.map(|log| cp.position(log).used_blocks() as usize);
        let used = [hot, warm, cold];
        let total: usize = used.iter().sum();
        let (first, next) = layout.compact_entries();
        let (mut nat, mut sit) = (vec![0; layout.journal_bytes()], vec![0; layout.journal_bytes()]);
        if !Journal::encode(self.nat, &mut nat) || !Journal::encode(self.sit, &mut sit) {
            return Err(Unencodable::Misfit);
        }
        if !self.compact || total > first + next {
            return Ok((summary_blocks(layout, self.data, [&nat, &[], &sit])?, false));
        }
        let mut blocks = vec![0; if total > first { 2 } else { 1 } * layout.block];
        put(&mut blocks, 0, &nat)?;
        put(&mut blocks, nat.len(), &sit)?;
        let entries = self.data.iter().zip(used).flat_map(|(sum, used)| sum.entries.iter().take(used));
        for (i, e) in entries.enumerate() {
            put(&mut blocks, layout.compact_at(i), e.as_bytes())?;
        }
        Ok((blocks, true))
    }

    fn node_summaries(&self, layout: SummaryLayout) -> Result<Vec<u8>, Unencodable> {
        let Some(nodes) = self.nodes else { return Ok(Vec::new()) };
        let mut info = RawExtraInfo::new_zeroed();
        info.kbytes_written = U64::new(self.kbytes_written);
        summary_blocks(layout, nodes, [info.as_bytes(), &[], &[]])
    }
}

/// Summaries with these journals, a block each.
fn summary_blocks(
    layout: SummaryLayout,
    summaries: [&RawSummaryBlock; 3],
    journals: [&[u8]; 3],
) -> Result<Vec<u8>, Unencodable> {
    let mut blocks = vec![0; summaries.len() * layout.block];
    for ((block, sum), journal) in blocks.chunks_exact_mut(layout.block).zip(summaries).zip(journals) {
        put(block, 0, sum.entries.as_bytes())?;
        put(block, layout.journal_at(), journal)?;
        put(block, layout.type_at(), &[sum.entry_type])?;
    }
    Ok(blocks)
}

fn orphan_blocks(inos: &[Ino], block: usize) -> Vec<u8> {
    let ino_bytes = block - size_of::<RawOrphanFooter>();
    let lists = inos.chunks(ino_bytes / size_of::<U32>());
    let count = lists.len();
    let mut blocks = Vec::with_capacity(count * block);
    for (i, list) in lists.enumerate() {
        blocks.extend(list.iter().flat_map(|ino| ino.0.to_le_bytes()));
        blocks.resize(i * block + ino_bytes, 0);
        let mut footer = RawOrphanFooter::new_zeroed();
        footer.blk_addr = U16::new(i as u16 + 1);
        footer.blk_count = U16::new(count as u16);
        footer.entry_count = U32::new(list.len() as u32);
        blocks.extend_from_slice(footer.as_bytes());
    }
    blocks
}

/// Stores bytes at an offset.
fn put(blocks: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), Unencodable> {
    let place = at.checked_add(bytes.len()).and_then(|end| blocks.get_mut(at..end));
    place.map(|place| place.copy_from_slice(bytes)).ok_or(Unencodable::Misfit)
}

/// Whole blocks as units.
pub(crate) fn units(blocks: &[u8]) -> Vec<Block> {
    blocks.chunks_exact(BLOCK_SIZE).filter_map(|unit| Block::read_from_bytes(unit).ok()).collect()
}
