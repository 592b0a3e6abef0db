//! The owner of each block according to the summaries.
use crate::CheckError;
use crate::evidence::{Pack, Volume};
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{BlockAddr, SegNo};

/// Summary blocks read at once: 128 KiB.
pub(crate) const AHEAD: usize = 32;

pub(crate) struct Ssa<'v> {
    volume: &'v Volume<'v>,
    /// Segments of the logs, whose summaries are in the pack.
    logs: Vec<(SegNo, LogType)>,
    /// Recently read summaries, each in the place its segment number gives.
    cache: Vec<Option<(SegNo, Box<RawSummaryBlock>)>>,
}

/// A block's entry in a summary.
pub(crate) struct Stored {
    /// Address of the summary, for reports.
    pub at: u64,
    /// Type of the summary.
    pub kind: u8,
    pub entry: RawSummary,
}

impl Stored {
    /// Whether the block is a node's; `None` if the type of the summary is not known.
    pub(crate) fn is_node(&self) -> Option<bool> {
        [(SummaryType::Data, false), (SummaryType::Node, true)]
            .into_iter()
            .find_map(|(kind, is_node)| (kind as u8 == self.kind).then_some(is_node))
    }
}

impl<'v> Ssa<'v> {
    /// Keeps up to `slots` summary blocks.
    pub(crate) fn new(volume: &'v Volume<'v>, slots: usize) -> Self {
        let mut cache = Vec::new();
        cache.resize_with(slots.max(1), || None);
        let logs =
            Pack::logs(&volume.geo).iter().map(|&log| (volume.pack.cp().position(log).seg, log)).collect();
        Self { volume, logs, cache }
    }

    /// The summary in the pack of a segment that a log writes to; `Some(None)` if the pack does not have it.
    fn in_pack(&self, seg: SegNo) -> Option<Option<&'v RawSummaryBlock>> {
        self.logs.iter().find(|(s, _)| *s == seg).map(|(_, log)| self.volume.summaries.of(*log))
    }

    /// Whether a summary has an entry for a block.
    pub(crate) fn has_entry(&self, addr: BlockAddr) -> bool {
        let seg = self.volume.geo.seg_of(addr).filter(|_| self.volume.geo.has_ssa);
        seg.is_some_and(|(seg, _)| self.in_pack(seg).is_none_or(|block| block.is_some()))
    }

    /// The entry of a block of the main area; `None` if no summary has one.
    pub(crate) fn entry(&mut self, addr: BlockAddr) -> Result<Option<Stored>, CheckError> {
        let Some((seg, off)) = self.volume.geo.seg_of(addr).filter(|_| self.volume.geo.has_ssa) else {
            return Ok(None);
        };
        let (at, block) = match self.in_pack(seg) {
            Some(block) => {
                let start = self.volume.pack.cp().cp_pack_start_sum.get();
                // Without node summaries in the pack their entries are the footers, which the walk compares.
                let Some(block) = block else { return Ok(None) };
                (self.volume.pack.addr(start), block)
            }
            None => (self.volume.geo.ssa_addr(seg).0.into(), self.read(seg)?),
        };
        let entry = block.entries.get(off as usize).copied().unwrap_or_default();
        Ok(Some(Stored { at, kind: block.entry_type, entry }))
    }

    /// In a sequence also reads the summaries of the segments that follow, up to the first one that is kept or free.
    fn read(&mut self, seg: SegNo) -> Result<&RawSummaryBlock, CheckError> {
        static NONE: [u8; segno_format::BLOCK_SIZE] = [0; segno_format::BLOCK_SIZE];
        if !self.has(seg) {
            let sequence = seg.0.checked_sub(1).is_some_and(|s| self.has(SegNo(s)));
            let count = if sequence { AHEAD as u32 } else { 1 };
            let end = seg.0.saturating_add(count).min(self.volume.geo.segment_count_main);
            let wanted = |s: &SegNo| self.volume.sit.count(*s) != 0 && !self.has(*s);
            let more = (seg.0.saturating_add(1)..end).map(SegNo).take_while(wanted).count();
            let from = self.volume.geo.ssa_addr(seg);
            // Reading ahead may fail: the later summaries may not be needed.
            let blocks = match self.volume.reader.blocks(from, 1 + more as u32) {
                Ok(blocks) => blocks,
                Err(_) => vec![self.volume.reader.block(from)?],
            };
            let slots = self.cache.len();
            for (s, block) in (seg.0..).map(SegNo).zip(&blocks) {
                if let Some(slot) = self.cache.get_mut(s.idx() % slots) {
                    *slot = Some((s, Box::new(*block.view::<RawSummaryBlock>())));
                }
            }
        }
        let slot = self.cache.get(seg.idx() % self.cache.len()).and_then(Option::as_ref);
        Ok(slot.map_or(zerocopy::transmute_ref!(&NONE), |(_, b)| b))
    }

    fn has(&self, seg: SegNo) -> bool {
        let slot = self.cache.get(seg.idx() % self.cache.len()).and_then(Option::as_ref);
        slot.is_some_and(|(s, _)| *s == seg)
    }
}
