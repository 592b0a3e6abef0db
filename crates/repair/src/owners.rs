//! The owner that the summaries name for a block.
use crate::error::Result;
use crate::volume::Volume;
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{BlockAddr, SegNo};
use segno_layout::Pack;
use std::collections::HashMap;

/// Summary blocks kept: 8 MiB.
const KEPT: usize = 2048;

pub(crate) struct Owners {
    logs: Vec<(SegNo, LogType)>,
    kept: HashMap<u32, Option<Box<RawSummaryBlock>>>,
}

impl Owners {
    pub(crate) fn new(vol: &Volume<'_>) -> Self {
        let logs = Pack::logs(&vol.geo).iter().map(|&log| (vol.pack.cp().position(log).seg, log)).collect();
        Self { logs, kept: HashMap::new() }
    }

    /// Whether a segment is that of a log, which has its summary in the pack.
    pub(crate) fn is_log(&self, seg: SegNo) -> bool {
        self.logs.iter().any(|(s, _)| *s == seg)
    }

    /// Summary of a segment; `None` for a log of nodes whose summary is not stored.
    pub(crate) fn segment(&mut self, vol: &Volume<'_>, seg: SegNo) -> Result<Option<&RawSummaryBlock>> {
        if self.kept.len() >= KEPT && !self.kept.contains_key(&seg.0) {
            self.kept.clear();
        }
        if !self.kept.contains_key(&seg.0) {
            let block = match self.logs.iter().find(|(s, _)| *s == seg) {
                Some(&(_, log)) => vol.summaries.of(log).map(|b| Box::new(*b)),
                None => Some(Box::new(*vol.reader.block(vol.geo.ssa_addr(seg))?.view::<RawSummaryBlock>())),
            };
            self.kept.insert(seg.0, block);
        }
        Ok(self.kept.get(&seg.0).and_then(|b| b.as_deref()))
    }

    /// Owner of a block, and what its segment holds.
    pub(crate) fn of(
        &mut self,
        vol: &Volume<'_>,
        addr: BlockAddr,
    ) -> Result<Option<(RawSummary, SummaryType)>> {
        let Some((seg, off)) = vol.geo.seg_of(addr) else { return Ok(None) };
        Ok(self.segment(vol, seg)?.and_then(|block| {
            let kind = block.parse_type(0).ok()?;
            Some((*block.entries.get(off as usize)?, kind))
        }))
    }
}
