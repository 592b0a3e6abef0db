//! Sections that must be written in order.
use super::{Log, Segments};
use crate::error::Result;
use segno_format::{Block, BlockAddr, Corrupt, SegNo, Structure};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Segments {
    /// A valid block that the device does not have is damage.
    pub(crate) fn check_pointers(&self) -> Result<()> {
        for (sec, pointer) in self.dev.pointers() {
            if self.with_table(|t| t.valid_in_section(sec)) == 0 {
                continue;
            }
            let start = self.geo.seg_start(self.geo.sec_start(sec));
            let behind = (pointer..self.geo.blocks_per_sec()).map(|off| start.offset(off));
            if let Some(addr) = behind.into_iter().find(|&a| self.is_valid(a)) {
                let why = "a valid block lies behind the zone's write pointer";
                return Err(Corrupt::block(
                    Structure::SitBlock,
                    addr.0.into(),
                    why,
                    addr.0.into(),
                    pointer.into(),
                )
                .into());
            }
        }
        Ok(())
    }

    /// Moves the logs whose zones a crash left elsewhere to new sections.
    pub(crate) fn renew_misplaced(&self) -> Result<()> {
        for log in &self.logs {
            let mut log = log.lock();
            if self.dev.is_misplaced(log.position(&self.geo)) {
                self.switch(&mut log, true)?;
            }
        }
        Ok(())
    }

    /// Gives up blocks that were handed out and will not be written. Where sections are written in order, zeros are.
    pub(crate) fn give_up(&self, addrs: &[BlockAddr]) -> Result<()> {
        let mut zeros: Vec<_> = Vec::new();
        if self.dev.is_zoned() {
            let zero = Arc::new(Block::zeroed());
            zeros.extend(addrs.iter().map(|&a| (a, zero.clone())));
        }
        let written = self.dev.write_scattered(&mut zeros);
        self.abandon(addrs);
        written
    }

    /// A log enters a section that is free: nothing in it is of value, and so it may have to be emptied only now.
    pub(super) fn enter_section(&self, log: &Log) -> Result<()> {
        let sec = self.geo.sec_of(log.segno);
        if self.geo.sec_start(sec) == log.segno { self.dev.reset_section(sec) } else { Ok(()) }
    }

    /// Empties the zones of sections of which a checkpoint freed every segment; nobody else has them yet.
    pub(crate) fn reset_freed(&self, freed: &[SegNo]) -> Result<u64> {
        let mut resets = 0;
        for run in freed.chunk_by(|a, b| self.geo.sec_of(*a) == self.geo.sec_of(*b)) {
            if let Some(&first) = run.first().filter(|_| run.len() as u32 == self.geo.segs_per_sec) {
                self.dev.reset_section(self.geo.sec_of(first))?;
                resets += run.len() as u64;
            }
        }
        Ok(resets)
    }

    /// After a mount: sections in the middle of which nobody will go on are emptied or finished, as only so many may be
    /// active.
    pub(crate) fn tidy_zones(&self) -> Result<()> {
        let current: BTreeSet<u32> = self.log_states().iter().map(|l| self.geo.sec_of(l.segno)).collect();
        let left: Vec<(u32, u32)> = self.dev.pointers().filter(|(sec, _)| !current.contains(sec)).collect();
        for (sec, pointer) in left {
            if self.with_table(|t| t.is_section_free(sec)) {
                self.dev.reset_section(sec)?;
            } else if pointer > 0 && pointer < self.geo.blocks_per_sec() {
                self.dev.finish_section(sec)?;
            }
        }
        Ok(())
    }
}
