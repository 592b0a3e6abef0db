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
use segno_format::{Block, Features, Geometry, SegNo};
use segno_layout::{Contents, Encoded, Unencodable, nat_bits};
use zerocopy::little_endian::{U32, U64};

static EMPTY: RawSummaryBlock = RawSummaryBlock::empty(SummaryType::Data);
static EMPTY_NODES: RawSummaryBlock = RawSummaryBlock::empty(SummaryType::Node);

/// The parts of the checkpoint area.
pub(crate) struct Packs {
    /// The first pack, from its first checkpoint block to its last.
    pub first: Vec<Block>,
    /// Both checkpoint blocks of the second pack: version 0, so the first one rules.
    pub second: Block,
    /// The last blocks of the first pack's segment.
    pub nat_bits: Vec<Block>,
}

/// What a checkpoint is made from.
pub(crate) struct Source<'a> {
    pub layout: &'a Layout,
    pub geo: &'a Geometry,
    pub opts: &'a MkfsOptions,
    pub content: &'a Content,
    /// No block without data has storage.
    pub trimmed: bool,
}

impl Source<'_> {
    pub(crate) fn packs(&self, ver: u32) -> Result<Packs, Unencodable> {
        let mut header = self.checkpoint_block();
        header.view_mut::<RawCheckpoint>().checkpoint_ver = U64::new(ver.into());
        let contents = Contents {
            header: &header,
            sit_bitmap: &vec![0; self.geo.sit_bitmap_bytes()],
            nat_bitmap: &vec![0; self.geo.nat_bitmap_bytes()],
            orphans: &[],
            data: [&self.data_summary(), &EMPTY, &EMPTY],
            compact: true,
            nodes: Some([&self.node_summary(), &EMPTY_NODES, &EMPTY_NODES]),
            nat: &self.nat_journal(),
            sit: &self.sit_journal(),
            kbytes_written: 0,
        };
        let Encoded { mut blocks, header, crc } = contents.encode(self.geo, RawCheckpoint::seal)?;
        let mut second = header.clone();
        second.view_mut::<RawCheckpoint>().checkpoint_ver = U64::ZERO;
        RawCheckpoint::seal(&mut second);
        blocks.push(header);
        // The inodes are in the journal; only block 0 has anything, the entries of the virtual inodes.
        let nat_bits = nat_bits(self.geo, ver.into(), crc, |b| if b == 0 { 3 } else { 0 });
        Ok(Packs { first: blocks, second, nat_bits })
    }

    fn checkpoint_block(&self) -> Block {
        let mut block = Block::zeroed();
        let cp = block.view_mut::<RawCheckpoint>();
        self.put_counts(cp);
        self.put_logs(cp);
        cp.ckpt_flags = U32::new(self.flags().bits());
        // A bitmap that runs on into the payload leaves no room for the checksum at the end of the block.
        let offset = if self.opts.large_nat_bitmap { CHECKSUM_OFFSET_MIN } else { CHECKSUM_OFFSET_MAX };
        cp.checksum_offset = U32::new(offset);
        block
    }

    fn put_counts(&self, cp: &mut RawCheckpoint) {
        let (nodes, data) = (self.content.nodes.len(), self.content.data.len());
        let reserve = &self.layout.reserve;
        cp.user_block_count = U64::new(reserve.user_block_count);
        cp.valid_block_count = U64::new((nodes + data) as u64);
        cp.rsvd_segment_count = U32::new(reserve.rsvd_segment_count);
        cp.overprov_segment_count = U32::new(reserve.overprov_segment_count);
        let free = self.layout.segment_count_main.saturating_sub(self.logs().len() as u32);
        cp.free_segment_count = U32::new(free);
        cp.valid_node_count = U32::new(nodes as u32);
        cp.valid_inode_count = U32::new(nodes as u32);
        cp.next_free_nid = U32::new(self.content.next_free_nid().0);
    }

    fn put_logs(&self, cp: &mut RawCheckpoint) {
        cp.cur_node_segno = [U32::new(SegNo::NONE.0); 8];
        cp.cur_data_segno = [U32::new(SegNo::NONE.0); 8];
        for log in LogType::ALL {
            cp.set_position(&LogPosition {
                log,
                seg: self.layout.curseg(log),
                blkoff: self.valid_blocks(log),
                alloc_type: 0,
            });
        }
    }

    fn valid_blocks(&self, log: LogType) -> u16 {
        let blocks = match log {
            LogType::HotData => self.content.data.len(),
            LogType::HotNode => self.content.nodes.len(),
            _ => 0,
        };
        // At most five files.
        blocks as u16
    }

    fn flags(&self) -> CpFlags {
        // nat_bits always fit: the largest NAT needs 116 of the segment's 512 blocks, the largest pack 68.
        let mut flags = CpFlags::UMOUNT | CpFlags::NAT_BITS;
        flags.set(CpFlags::TRIMMED, self.trimmed);
        flags.set(CpFlags::LARGE_NAT_BITMAP, self.opts.large_nat_bitmap);
        flags
    }

    /// The logs in use, in the order in which mkfs.f2fs lists them in the SIT journal.
    fn logs(&self) -> &'static [LogType] {
        use LogType::{ColdData, ColdNode, HotData, HotNode, WarmData, WarmNode};
        if self.opts.has(Features::RO) {
            &[HotNode, HotData]
        } else {
            &[HotNode, WarmNode, ColdNode, HotData, WarmData, ColdData]
        }
    }

    fn nat_journal(&self) -> Vec<RawNatJournalEntry> {
        let start = self.layout.curseg_start(LogType::HotNode);
        let entry = |nid, i| RawNatJournalEntry::new(nid, RawNatEntry::new(0, nid, start.offset(i)));
        self.content.nodes.iter().zip(0..).map(|((nid, _), i)| entry(*nid, i)).collect()
    }

    /// An entry for each log, so that the empty ones have their type too.
    fn sit_journal(&self) -> Vec<RawSitJournalEntry> {
        let entry = |&log: &LogType| {
            let valid = self.valid_blocks(log);
            let mut map = [0; SIT_MAP_BYTES];
            (0..valid.into()).for_each(|i| msb::put(&mut map, i, true));
            RawSitJournalEntry::new(self.layout.curseg(log), RawSitEntry::new(log, valid, &map, 0))
        };
        self.logs().iter().map(entry).collect()
    }

    fn data_summary(&self) -> RawSummaryBlock {
        let mut summary = EMPTY;
        for (dst, (entry, _)) in summary.entries.iter_mut().zip(&self.content.data) {
            *dst = *entry;
        }
        summary
    }

    fn node_summary(&self) -> RawSummaryBlock {
        let mut summary = EMPTY_NODES;
        for (dst, (nid, _)) in summary.entries.iter_mut().zip(&self.content.nodes) {
            *dst = RawSummary::node(*nid);
        }
        summary
    }
}
