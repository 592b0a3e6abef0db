//! The first checkpoint, and the empty one that the second will replace.
use crate::content::Content;
use crate::{Layout, MkfsOptions};
use segno_format::bits::msb;
use segno_format::checkpoint::{
    CHECKSUM_OFFSET_MAX, CHECKSUM_OFFSET_MIN, CpFlags, LogPosition, RawCheckpoint,
};
use segno_format::nat::{RawNatEntry, RawNatJournalEntry};
use segno_format::sit::{LogType, RawSitEntry, RawSitJournalEntry, SIT_MAP_BYTES};
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Features, Geometry, Ino, SegNo};
use segno_layout::{Contents, Encoded, Unencodable, nat_bits};
use std::slice;
use zerocopy::little_endian::{U32, U64};

static EMPTY: RawSummaryBlock = RawSummaryBlock::empty(SummaryType::Data);
static EMPTY_NODES: RawSummaryBlock = RawSummaryBlock::empty(SummaryType::Node);

/// The first checkpoint of a volume, when everything else is in its place.
pub struct FirstCheckpoint<'a> {
    /// The volume.
    pub layout: &'a Layout,
    /// Its options.
    pub opts: &'a MkfsOptions,
    /// Blocks and nodes in use.
    pub counts: Counts,
    /// Next segment and block of each log.
    pub positions: [(SegNo, u16); 6],
    /// Summaries of the data logs.
    pub data: [&'a RawSummaryBlock; 3],
    /// Whether they are stored in the short form.
    pub compact: bool,
    /// Summaries of the node logs.
    pub nodes: [&'a RawSummaryBlock; 3],
    /// NAT entries that are in no block of the NAT.
    pub nat: &'a [RawNatJournalEntry],
    /// SIT entries that are in no block of the SIT.
    pub sit: &'a [RawSitJournalEntry],
    /// No block without data has storage.
    pub trimmed: bool,
}

/// Blocks and nodes in use on a new volume.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Blocks that hold data or nodes, or are reserved.
    pub blocks: u64,
    /// Nodes, inodes included.
    pub nodes: u64,
    /// Inodes.
    pub inodes: u64,
    /// Number after the last node.
    pub next_nid: u32,
    /// Segments of the logs.
    pub segments: u32,
}

/// The parts of the checkpoint area.
pub struct Packs {
    /// The first pack, from its first checkpoint block to its last.
    first: Vec<Block>,
    /// Both checkpoint blocks of the second pack: version 0, so the first one rules.
    second: Block,
    /// The last blocks of the first pack's segment.
    nat_bits: Vec<Block>,
}

impl Packs {
    /// The parts with their places, in the order in which they are written.
    #[must_use]
    pub fn parts(&self, geo: &Geometry) -> [(BlockAddr, &[Block]); 4] {
        let (first, second) = (geo.pack_addr(0), geo.pack_addr(1));
        let last = second.offset(self.first.len().saturating_sub(1) as u32);
        let nat_bits = first.offset(BLOCKS_PER_SEG.saturating_sub(self.nat_bits.len() as u32));
        let empty = slice::from_ref(&self.second);
        [(second, empty), (last, empty), (nat_bits, &self.nat_bits), (first, &self.first)]
    }
}

impl FirstCheckpoint<'_> {
    /// Encodes it with a version. The function counts the numbers in use of a NAT block.
    pub fn packs(&self, version: u32, in_use: impl Fn(u32) -> u32) -> Result<Packs, Unencodable> {
        let geo = &self.layout.geo;
        let contents = Contents {
            header: &self.header(version.into()),
            sit_bitmap: &vec![0; geo.sit_bitmap_bytes()],
            nat_bitmap: &vec![0; geo.nat_bitmap_bytes()],
            orphans: &[],
            data: self.data,
            compact: self.compact,
            nodes: Some(self.nodes),
            nat: self.nat,
            sit: self.sit,
            kbytes_written: 0,
        };
        let Encoded { blocks: mut first, header, crc } = contents.encode(geo, RawCheckpoint::seal)?;
        let mut second = header.clone();
        second.view_mut::<RawCheckpoint>().checkpoint_ver = U64::ZERO;
        RawCheckpoint::seal(&mut second);
        first.push(header);
        Ok(Packs { first, second, nat_bits: nat_bits(geo, version.into(), crc, in_use) })
    }

    fn header(&self, version: u64) -> Block {
        let mut block = Block::zeroed();
        let cp = block.view_mut::<RawCheckpoint>();
        cp.checkpoint_ver = U64::new(version);
        let (reserve, counts) = (&self.layout.reserve, &self.counts);
        cp.user_block_count = U64::new(reserve.user_block_count);
        cp.valid_block_count = U64::new(counts.blocks);
        cp.rsvd_segment_count = U32::new(reserve.rsvd_segment_count);
        cp.overprov_segment_count = U32::new(reserve.overprov_segment_count);
        cp.free_segment_count = U32::new(self.layout.geo.segment_count_main.saturating_sub(counts.segments));
        cp.valid_node_count = U32::new(counts.nodes as u32);
        cp.valid_inode_count = U32::new(counts.inodes as u32);
        cp.next_free_nid = U32::new(counts.next_nid);
        cp.cur_node_segno = [U32::new(SegNo::NONE.0); 8];
        cp.cur_data_segno = [U32::new(SegNo::NONE.0); 8];
        for (log, (seg, blkoff)) in LogType::ALL.into_iter().zip(self.positions) {
            cp.set_position(&LogPosition { log, seg, blkoff, alloc_type: 0 });
        }
        // nat_bits always fit: the largest NAT needs 116 of the segment's 512 blocks, the largest pack 68.
        let mut flags = CpFlags::UMOUNT | CpFlags::NAT_BITS;
        flags.set(CpFlags::TRIMMED, self.trimmed);
        flags.set(CpFlags::LARGE_NAT_BITMAP, self.opts.large_nat_bitmap);
        cp.ckpt_flags = U32::new(flags.bits());
        // A bitmap that runs on into the payload leaves no room for the checksum at the end of the block.
        let offset = if self.opts.large_nat_bitmap { CHECKSUM_OFFSET_MIN } else { CHECKSUM_OFFSET_MAX };
        cp.checksum_offset = U32::new(offset);
        block
    }
}

impl Content {
    /// The checkpoint of these files.
    pub(crate) fn packs(
        &self,
        layout: &Layout,
        opts: &MkfsOptions,
        trimmed: bool,
        version: u32,
    ) -> Result<Packs, Unencodable> {
        use LogType::{ColdData, ColdNode, HotData, HotNode, WarmData, WarmNode};
        // In the order in which mkfs.f2fs lists them in the SIT journal.
        let logs: &[LogType] = if opts.has(Features::RO) {
            &[HotNode, HotData]
        } else {
            &[HotNode, WarmNode, ColdNode, HotData, WarmData, ColdData]
        };
        let nodes = self.nodes.len() as u64;
        let counts = Counts {
            blocks: nodes + self.data.len() as u64,
            nodes,
            inodes: nodes,
            next_nid: self.next_free_nid().0,
            segments: logs.len() as u32,
        };
        let checkpoint = FirstCheckpoint {
            layout,
            opts,
            counts,
            positions: LogType::ALL.map(|log| (layout.curseg(log), self.valid_blocks(log))),
            data: [&self.data_summary(), &EMPTY, &EMPTY],
            compact: true,
            nodes: [&self.node_summary(), &EMPTY_NODES, &EMPTY_NODES],
            nat: &self.nat_journal(layout),
            sit: &self.sit_journal(layout, logs),
            trimmed,
        };
        // The inodes are in the journal; only block 0 has anything, the entries of the virtual inodes.
        checkpoint.packs(version, |block| if block == 0 { 3 } else { 0 })
    }

    fn valid_blocks(&self, log: LogType) -> u16 {
        let blocks = match log {
            LogType::HotData => self.data.len(),
            LogType::HotNode => self.nodes.len(),
            _ => 0,
        };
        // At most five files.
        blocks as u16
    }

    fn nat_journal(&self, layout: &Layout) -> Vec<RawNatJournalEntry> {
        let start = layout.curseg_start(LogType::HotNode);
        let entry =
            |ino: Ino, i| RawNatJournalEntry::new(ino.nid(), RawNatEntry::new(0, ino, start.offset(i)));
        self.nodes.iter().zip(0..).map(|((ino, _), i)| entry(*ino, i)).collect()
    }

    /// An entry for each log, so that empty segments have a type too.
    fn sit_journal(&self, layout: &Layout, logs: &[LogType]) -> Vec<RawSitJournalEntry> {
        let entry = |&log: &LogType| {
            let valid = self.valid_blocks(log);
            let mut map = [0; SIT_MAP_BYTES];
            (0..valid.into()).for_each(|i| msb::put(&mut map, i, true));
            RawSitJournalEntry::new(layout.curseg(log), RawSitEntry::new(log, valid, &map, 0))
        };
        logs.iter().map(entry).collect()
    }

    fn data_summary(&self) -> RawSummaryBlock {
        let mut summary = EMPTY;
        for (dst, (entry, _)) in summary.entries.iter_mut().zip(&self.data) {
            *dst = *entry;
        }
        summary
    }

    fn node_summary(&self) -> RawSummaryBlock {
        let mut summary = EMPTY_NODES;
        for (dst, (ino, _)) in summary.entries.iter_mut().zip(&self.nodes) {
            *dst = RawSummary::node(ino.nid());
        }
        summary
    }
}
