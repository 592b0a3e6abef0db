//! NAT, SIT, summaries and checkpoint of the volume, written once, when everything is placed.
use super::main_area::{Image, LogRun};
use crate::{Error, Result};
use segno_format::bits::msb;
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::RawNatEntry;
use segno_format::sit::{LogType, RawSitEntry, SIT_MAP_BYTES};
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Ino, Nid, SegNo};
use segno_layout::{nat_block, sit_block};
use segno_mkfs::{Counts, FirstCheckpoint, Layout, MkfsOptions};
use std::ops::Range;
use zerocopy::{FromZeros, IntoBytes};

/// Owners of blocks, and places of nodes.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// By block of the main area; empty on volumes without summaries.
    summaries: Vec<RawSummary>,
    /// Inode and block in the main area, by number of the node.
    nat: Vec<Option<(Ino, u32)>>,
}

/// Writes the tables of one volume.
pub(crate) struct Writer<'a> {
    pub(crate) image: &'a Image<'a>,
    pub(crate) layout: &'a Layout,
    pub(crate) options: &'a MkfsOptions,
    pub(crate) tables: &'a Tables,
    pub(crate) logs: &'a [LogRun],
}

impl Tables {
    pub(crate) fn new(summaries: u32, nids: u32) -> Self {
        Self { summaries: vec![RawSummary::default(); summaries as usize], nat: vec![None; nids as usize] }
    }

    pub(crate) fn node(&mut self, nid: Nid, ino: Ino, rel: u32) {
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
        if self.layout.geo.has_ssa {
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
            self.image.write(self.layout.geo.nat_addr(number, false).0.into(), &block.0)?;
        }
        Ok(())
    }

    fn write_sit(&self) -> Result<()> {
        let mut entries = vec![RawSitEntry::new_zeroed(); self.layout.geo.segment_count_main as usize];
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
        for number in 0..self.layout.geo.sit_blocks() {
            let block = sit_block(Block::zeroed(), &self.layout.geo, number, of);
            self.image.write(self.layout.geo.sit_addr(number, false).0.into(), &block.0)?;
        }
        Ok(())
    }

    fn write_summaries(&self) -> Result<()> {
        for run in self.logs {
            for (segment, _) in run.each() {
                let summary = self.tables.summary_of(segment.0 * BLOCKS_PER_SEG, run.log.summary_type());
                self.image.write(self.layout.geo.ssa_addr(segment).0.into(), summary.as_bytes())?;
            }
        }
        Ok(())
    }

    fn write_packs(&self, counts: Counts, version: u32) -> Result<()> {
        let summary = |log| {
            let start = self.log(log).map_or(u32::MAX, |run| run.next().0.0 * BLOCKS_PER_SEG);
            self.tables.summary_of(start, log.summary_type())
        };
        let [d0, d1, d2, n0, n1, n2] = LogType::ALL.map(summary);
        let checkpoint = FirstCheckpoint {
            layout: self.layout,
            opts: self.options,
            counts,
            // Of a read-only volume only two logs count; the others are stored as segment 0.
            positions: LogType::ALL.map(|log| self.log(log).map_or((SegNo(0), 0), LogRun::next)),
            data: [&d0, &d1, &d2],
            compact: false,
            nodes: [&n0, &n1, &n2],
            nat: &[],
            sit: &[],
            trimmed: false,
        };
        let packs = checkpoint.packs(version, |block| self.nids_in_use(block));
        let packs = packs.map_err(|_| Error::Invariant("the layout has room for the checkpoint"))?;
        let mut parts = packs.parts(&self.layout.geo).into_iter();
        parts.try_for_each(|(at, blocks)| self.image.write(at.0.into(), blocks.as_bytes()))
    }

    fn log(&self, log: LogType) -> Option<&LogRun> {
        self.logs.iter().find(|r| r.log == log)
    }

    fn nids_in_use(&self, block: u32) -> u32 {
        let nids = block * NAT_PER_BLOCK..(block + 1) * NAT_PER_BLOCK;
        // Number 0 is never free.
        nids.filter(|&n| n == 0 || self.nat_entry(Nid(n)).block_addr.get() != 0).count() as u32
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

    /// Next segment and block of the log.
    fn next(&self) -> (SegNo, u16) {
        let at = self.start + self.blocks;
        (SegNo(at / BLOCKS_PER_SEG), (at % BLOCKS_PER_SEG) as u16)
    }
}
