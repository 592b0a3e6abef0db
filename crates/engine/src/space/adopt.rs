//! Adding blocks to the volume that no log of this mount allocated.
use super::Space;
use super::log::LogCell;
use crate::error::Result;
use crate::health::invariant;
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{BlockAddr, Corrupt, Structure};
use std::sync::Arc;

impl Space {
    /// Makes a data block written before a crash valid, and stores its owner. A segment without valid blocks becomes
    /// a warm data segment. A log in the segment must be past the block.
    pub fn adopt(&self, addr: BlockAddr, owner: RawSummary) -> Result<()> {
        let bad = |why| Corrupt::block(Structure::RollForward, addr.0.into(), why, addr.0.into(), 0);
        let (seg, off) = self.geo.seg_of(addr).ok_or_else(|| bad("data block outside the main area"))?;
        if self.dev.is_unwritten(addr) {
            return Err(bad("data block beyond the write pointer of its zone").into());
        }
        let now = self.now();
        if let Some(kind) = self.set_owner_in_log(addr, owner) {
            return if kind.is_node() {
                Err(bad("data block in a segment of nodes").into())
            } else {
                self.with_table(|t| t.set_valid(&[addr], true, now))
            };
        }
        let (empty, log) = self.with_table(|t| (t.valid_in_segment(seg) == 0, t.log_of(seg)));
        if empty {
            self.with_table(|t| t.retype_section(self.geo.sec_of(seg), LogType::WarmData));
        } else if log.is_node() {
            return Err(bad("data block in a segment of nodes").into());
        }
        let mut summary = *self.summary(seg)?;
        // The checkpoint in force may still have data here that recovery has freed: its owners stay.
        if summary.entry_type != SummaryType::Data as u8 {
            summary = RawSummaryBlock::empty(SummaryType::Data);
        }
        let entry = summary.entries.get_mut(off as usize);
        invariant!(self.health, entry.map(|e| *e = owner).is_some(), "a block is beyond its segment");
        self.ssa.lock().insert(seg, Arc::new(summary));
        self.with_table(|t| t.set_valid(&[addr], true, now))
    }

    /// Stores the owner of a block in the summary of the log that has its segment open, if any.
    fn set_owner_in_log(&self, addr: BlockAddr, owner: RawSummary) -> Option<LogType> {
        let (seg, off) = self.geo.seg_of(addr)?;
        let mut log = self.logs.iter().map(LogCell::lock).find(|log| log.segno == seg)?;
        if let Some(entry) = log.summary.entries.get_mut(off as usize) {
            *entry = owner;
        }
        Some(log.kind)
    }
}
