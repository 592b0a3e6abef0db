//! NAT, SIT, summaries and checkpoint of the volume, written once, when everything is placed.
use super::SEGMENT_BLOCKS;
use super::main_area::{Image, LogRun};
use crate::{Error, Result};
use segno_format::bits::msb;
use segno_format::checkpoint::{
    CHECKSUM_OFFSET_MAX, CHECKSUM_OFFSET_MIN, CpFlags, LogPosition, RawCheckpoint,
};
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::RawNatEntry;
use segno_format::sit::{LogType, RawSitEntry, SIT_MAP_BYTES};
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Geometry, Nid, SegNo};
use segno_layout::{Contents, Encoded, nat_bits, nat_block, sit_block};
use segno_mkfs::{Layout, MkfsOptions};
use std::ops::Range;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromZeros, IntoBytes};

/// Owners of blocks, and places of nodes.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// By block of the main area; empty on volumes without summaries.
    summaries: Vec<RawSummary>,
    /// Inode and block in the main area, by number of the node.
    nat: Vec<Option<(Nid, u32)>>,
}

/// Counts of the checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) blocks: u64,
    pub(crate) nodes: u64,
    pub(crate) inodes: u64,
    pub(crate) next_nid: u32,
}

/// Writes the tables of one volume.
pub(crate) struct Writer<'a> {
    pub(crate) image: &'a Image<'a>,
    pub(crate) layout: &'a Layout,
    pub(crate) geo: &'a Geometry,
    pub(crate) options: &'a MkfsOptions,
    pub(crate) tables: &'a Tables,
    pub(crate) logs: &'a [LogRun],
}

impl Tables {
    pub(crate) fn new(summaries: u32, nids: u32) -> Self {
        Self { summaries: vec![RawSummary::default(); summaries as usize], nat: vec![None; nids as usize] }
    }

    pub(crate) fn node(&mut self, nid: Nid, ino: Nid, rel: u32) {
        if let Some(entry) = self.nat.get_mut(nid.0 as usize) {
            *entry = Some((ino, rel));
        }
        self.summary(rel, RawSummary::node(nid));
    }

    pub(crate) fn data(&mut self, rel: u32, nid: Nid, slot: u16, len: u32) {
        for (at, slot) in (rel..).zip(slot..).take(len as usize) {
            self.summary(at, RawSummary::data(nid, 0, slot));
        }
    }

    fn summary(&mut self, rel: u32, summary: RawSummary) {
        if let Some(place) = self.summaries.get_mut(rel as usize) {
            *place = summary;
        }
    }

    /// The summaries of the segment that begins at a block of the main area.
    fn summary_of(&self, start: u32, kind: SummaryType) -> RawSummaryBlock {
        let mut summary = RawSummaryBlock::empty(kind);
        let owners = self.summaries.get(start as usize..).unwrap_or_default();
        summary.entries.iter_mut().zip(owners).for_each(|(to, from)| *to = *from);
        summary
    }
}

impl Writer<'_> {
    /// Everything but the superblocks.
    pub(crate) fn write(&self, counts: Counts, version: u32) -> Result<()> {
        self.write_nat()?;
        self.write_sit()?;
        if self.geo.has_ssa {
            self.write_summaries()?;
        }
        self.write_packs(counts, version)
    }

    fn nat_entry(&self, nid: Nid) -> RawNatEntry {
        match self.tables.nat.get(nid.0 as usize) {
            Some(Some((ino, rel))) => RawNatEntry::new(0, *ino, BlockAddr(self.image.main + rel)),
            _ => RawNatEntry::without_node(nid),
        }
    }

    fn write_nat(&self) -> Result<()> {
        for number in 0..(self.tables.nat.len() as u32).div_ceil(NAT_PER_BLOCK) {
            let block = nat_block(Block::zeroed(), number, |nid| self.nat_entry(nid));
            self.image.write(self.geo.nat_addr(number, false).0.into(), &block.0)?;
        }
        Ok(())
    }

    fn write_sit(&self) -> Result<()> {
        let mut entries = vec![RawSitEntry::new_zeroed(); self.geo.segment_count_main as usize];
        for run in self.logs {
            for (segment, used) in run.each() {
                let mut map = [0; SIT_MAP_BYTES];
                (0..used as usize).for_each(|i| msb::put(&mut map, i, true));
                let entry = entries.get_mut(segment.idx());
                *entry.ok_or(Error::Invariant("each log ends in the main area"))? =
                    RawSitEntry::new(run.log, used, &map, 0);
            }
        }
        let of = |seg: SegNo| entries.get(seg.idx()).copied().unwrap_or_else(RawSitEntry::new_zeroed);
        for number in 0..self.geo.sit_blocks() {
            let block = sit_block(Block::zeroed(), self.geo, number, of);
            self.image.write(self.geo.sit_addr(number, false).0.into(), &block.0)?;
        }
        Ok(())
    }

    fn write_summaries(&self) -> Result<()> {
        for run in self.logs {
            for (segment, _) in run.each() {
                let summary = self.tables.summary_of(segment.0 * BLOCKS_PER_SEG, run.log.summary_type());
                self.image.write(self.geo.ssa_addr(segment).0.into(), summary.as_bytes())?;
            }
        }
        Ok(())
    }

    fn write_packs(&self, counts: Counts, version: u32) -> Result<()> {
        let mut header = self.checkpoint(counts);
        header.view_mut::<RawCheckpoint>().checkpoint_ver = U64::new(version.into());
        let summary = |log| {
            let run = self.logs.iter().find(|r| r.log == log);
            self.tables
                .summary_of(run.map_or(u32::MAX, |run| run.next().0.0 * BLOCKS_PER_SEG), log.summary_type())
        };
        let [d0, d1, d2, n0, n1, n2] = LogType::ALL.map(summary);
        let contents = Contents {
            header: &header,
            sit_bitmap: &vec![0; self.geo.sit_bitmap_bytes()],
            nat_bitmap: &vec![0; self.geo.nat_bitmap_bytes()],
            orphans: &[],
            data: [&d0, &d1, &d2],
            compact: false,
            nodes: Some([&n0, &n1, &n2]),
            nat: &[],
            sit: &[],
            kbytes_written: 0,
        };
        let encoded = contents.encode(self.geo, RawCheckpoint::seal);
        let Encoded { blocks, header, crc } =
            encoded.map_err(|_| Error::Invariant("the layout has room for the checkpoint"))?;
        let (first, second) = (u64::from(self.geo.pack_addr(0).0), u64::from(self.geo.pack_addr(1).0));
        let last = blocks.len() as u64;
        // An empty second pack of version 0, so that the first one rules.
        let mut empty = header.clone();
        empty.view_mut::<RawCheckpoint>().checkpoint_ver = U64::ZERO;
        RawCheckpoint::seal(&mut empty);
        self.image.write(second, &empty.0)?;
        self.image.write(second + last, &empty.0)?;
        self.image.write(first, blocks.as_bytes())?;
        self.image.write(first + last, &header.0)?;
        let bits = nat_bits(self.geo, version.into(), crc, |block| self.nids_in_use(block));
        self.image.write(first + SEGMENT_BLOCKS - bits.len() as u64, bits.as_bytes())
    }

    fn nids_in_use(&self, block: u32) -> u32 {
        let nids = block * NAT_PER_BLOCK..(block + 1) * NAT_PER_BLOCK;
        // Number 0 is never free.
        nids.filter(|&n| n == 0 || self.nat_entry(Nid(n)).block_addr.get() != 0).count() as u32
    }

    fn checkpoint(&self, counts: Counts) -> Block {
        let mut block = Block::zeroed();
        let cp: &mut RawCheckpoint = block.view_mut();
        let reserve = &self.layout.reserve;
        cp.user_block_count = U64::new(reserve.user_block_count);
        cp.valid_block_count = U64::new(counts.blocks);
        cp.rsvd_segment_count = U32::new(reserve.rsvd_segment_count);
        cp.overprov_segment_count = U32::new(reserve.overprov_segment_count);
        let used: u32 = self.logs.iter().map(LogRun::segments).sum();
        cp.free_segment_count = U32::new(self.layout.segment_count_main.saturating_sub(used));
        cp.valid_node_count = U32::new(counts.nodes as u32);
        cp.valid_inode_count = U32::new(counts.inodes as u32);
        cp.next_free_nid = U32::new(counts.next_nid);
        cp.cur_node_segno = [U32::new(SegNo::NONE.0); 8];
        cp.cur_data_segno = [U32::new(SegNo::NONE.0); 8];
        for log in LogType::ALL {
            // Of a read-only volume only two logs count; the others are stored as segment 0.
            let run = self.logs.iter().find(|r| r.log == log);
            let (seg, blkoff) = run.map_or((SegNo(0), 0), LogRun::next);
            cp.set_position(&LogPosition { log, seg, blkoff, alloc_type: 0 });
        }
        let mut flags = CpFlags::UMOUNT | CpFlags::NAT_BITS;
        flags.set(CpFlags::LARGE_NAT_BITMAP, self.options.large_nat_bitmap);
        cp.ckpt_flags = U32::new(flags.bits());
        // A bitmap that runs on into the payload leaves no room for the checksum at the end of the block.
        let offset = if self.options.large_nat_bitmap { CHECKSUM_OFFSET_MIN } else { CHECKSUM_OFFSET_MAX };
        cp.checksum_offset = U32::new(offset);
        block
    }
}

impl LogRun {
    /// Segments and their blocks in use.
    fn each(&self) -> impl Iterator<Item = (SegNo, u16)> {
        let (first, blocks) = (self.start / BLOCKS_PER_SEG, self.blocks);
        let segments: Range<u32> = 0..self.segments();
        segments.map(move |i| {
            let used = blocks.saturating_sub(i * BLOCKS_PER_SEG).min(BLOCKS_PER_SEG);
            (SegNo(first + i), used as u16)
        })
    }

    /// Segment and block where the log goes on.
    fn next(&self) -> (SegNo, u16) {
        let at = self.start + self.blocks;
        (SegNo(at / BLOCKS_PER_SEG), (at % BLOCKS_PER_SEG) as u16)
    }
}
