//! Sections that must be written in order.
use super::{Log, Segments};
use crate::error::Result;
use segno_format::sit::LogType;
use segno_format::summary::RawSummaryBlock;
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Corrupt, SegNo, Structure};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a crash left behind the checkpoint that recovery needs.
#[derive(Debug, Default)]
pub(crate) struct LeftBehind {
    /// Whether anything is to be replayed.
    pub replay: bool,
    /// Segments of nodes that were logged, and of the data that they name.
    pub nodes: BTreeSet<SegNo>,
    pub data: BTreeSet<SegNo>,
}

/// Blocks that logs can still write to the sections they are in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Left {
    pub data: [u64; 3],
    pub nodes: [u64; 3],
    /// Logs that are where no write pointer tells recovery how to go on.
    pub stuck: u64,
}

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

    /// After a crash: each log goes on behind what its zone holds, so nothing there is overwritten and no other section
    /// is needed. A log whose zone is full had moved on: to a section of `found`, which nothing but the crashed mount's
    /// fsyncs name, or to one that is free again. What has no write pointer is left if it must not be overwritten.
    pub(crate) fn go_on(&self, found: &LeftBehind) -> Result<()> {
        let mut moved = Vec::new();
        for log in &self.logs {
            let mut guard = log.lock();
            let sec = self.geo.sec_of(guard.segno);
            match self.dev.pointer(sec) {
                None if !found.replay => {}
                Some(p) if p < self.geo.blocks_per_sec() => self.go_on_at(&mut guard, sec, p)?,
                _ => moved.push(log),
            }
        }
        for log in moved {
            let mut log = log.lock();
            let of_kind = if log.kind.is_node() { &found.nodes } else { &found.data };
            let open = of_kind.iter().find_map(|&seg| {
                let sec = self.geo.sec_of(seg);
                let p = self.dev.pointer(sec).filter(|&p| p > 0 && p < self.geo.blocks_per_sec())?;
                self.with_table(|t| t.is_left_over(sec)).then_some((sec, p))
            });
            match open {
                Some((sec, p)) => self.go_on_at(&mut log, sec, p)?,
                None => self.switch(&mut log, true)?,
            }
        }
        Ok(())
    }

    fn go_on_at(&self, log: &mut Log, sec: u32, pointer: u32) -> Result<()> {
        let segno = SegNo(self.geo.sec_start(sec).0 + pointer / BLOCKS_PER_SEG);
        if segno != log.segno {
            let summary = if self.with_table(|t| t.valid_in_segment(segno)) > 0 {
                *self.summary_of_closed(segno)?
            } else {
                RawSummaryBlock::empty(Log::summary_type(log.kind))
            };
            self.leave_for(log, segno, summary);
        }
        (log.next, log.ssr) = (pointer % BLOCKS_PER_SEG, false);
        Ok(())
    }

    /// Takes no lock: every change asks.
    pub(crate) fn left(&self) -> Left {
        let mut left = Left::default();
        for kind in LogType::ALL {
            let (sec, blocks) = self.logs[kind.idx()].place();
            let of_class = if kind.is_node() { &mut left.nodes } else { &mut left.data };
            if let Some(of_log) = of_class.get_mut(kind.idx() % 3) {
                *of_log = blocks.into();
            }
            left.stuck += u64::from(self.dev.pointer(sec).is_none());
        }
        left
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

    /// Sections in the middle of which nobody will go on are emptied or finished, as only so many may be active.
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
