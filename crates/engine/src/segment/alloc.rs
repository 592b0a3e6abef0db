//! Handing out addresses, and moving a log to its next segment.
use super::Segments;
use super::log::Log;
use super::table::Table;
use crate::error::{Error, Result};
use crate::lock::{MutexGuard, rank};
use crate::options::AllocMode;
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock};
use segno_format::{BLOCKS_PER_SEG, BlockAddr, SegNo};
use std::sync::Arc;

/// fsyncs to one segment after which more are expected.
const FSYNCS_TO_PREPARE: u32 = 4;
/// Volumes of at most this many segments (16 GiB) look for free segments from the start, as F2FS does.
const SMALL_VOLUME: u32 = 8192;

impl Segments {
    /// Hands out one block per owner, in order. They count as unpublished until [`Segments::publish`] or
    /// [`Segments::abandon`].
    pub fn allocate(&self, kind: LogType, owners: &[RawSummary]) -> Result<Vec<BlockAddr>> {
        let mut log = self.logs[kind.idx()].lock();
        let mut out = Vec::with_capacity(owners.len());
        for &owner in owners {
            match self.take(&mut log, owner) {
                Ok(addr) => out.push(addr),
                Err(e) => {
                    self.give_up(&out)?;
                    return Err(e);
                }
            }
        }
        Ok(out)
    }

    /// Hands out blocks of a node log together with the address that follows each in the log.
    pub fn allocate_nodes(
        &self,
        kind: LogType,
        owners: &[RawSummary],
    ) -> Result<Vec<(BlockAddr, BlockAddr)>> {
        let mut log = self.logs[kind.idx()].lock();
        let mut out = Vec::with_capacity(owners.len());
        for &owner in owners {
            match self.take(&mut log, owner) {
                Ok(addr) => out.push((addr, log.position(&self.geo))),
                Err(e) => {
                    let given: Vec<BlockAddr> = out.iter().map(|&(addr, _)| addr).collect();
                    self.give_up(&given)?;
                    return Err(e);
                }
            }
        }
        Ok(out)
    }

    /// An fsync is about to write to this log. Once it is clear that fsyncs fill the segment, the rest of it is prepared.
    pub fn note_fsync(&self, kind: LogType) {
        let mut log = self.logs[kind.idx()].lock();
        log.fsyncs = log.fsyncs.saturating_add(1);
        if log.fsyncs != FSYNCS_TO_PREPARE || log.ssr || log.is_full() {
            return;
        }
        // Nobody gets an address behind the position while the log is locked. A device that cannot prepare blocks can
        // still write them.
        let _slower = self.dev.prepare(log.position(&self.geo), BLOCKS_PER_SEG - log.next);
    }

    /// Moves every log to another segment, as recovery must before it writes anything; to a free one while there are.
    pub fn renew_logs(&self) -> Result<()> {
        for log in &self.logs {
            let mut log = log.lock();
            match self.switch(&mut log, true) {
                Err(Error::NoSpace) if !self.dev.is_zoned() => self.switch(&mut log, false)?,
                other => other?,
            }
        }
        Ok(())
    }

    /// Leaves the block at the position as it is. A log that is full then moves on when it is used, or before the next
    /// checkpoint: not now, as free segments are yet to be counted.
    pub(super) fn spare_position(&self, log: &mut Log) {
        if log.is_full() {
            return;
        }
        let (segno, from) = (log.segno, log.next + 1);
        let ssr = log.ssr;
        log.next =
            self.with_table(|t| if ssr { t.next_hole(segno, from).unwrap_or(BLOCKS_PER_SEG) } else { from });
    }

    /// Gives a full log a position.
    pub(super) fn move_on(&self, log: &mut Log) {
        if log.is_full() {
            // Without another segment the checkpoint finds no position to store.
            let _none = self.switch(log, false);
        }
    }

    fn take(&self, log: &mut MutexGuard<'_, Log, { rank::LOG }>, owner: RawSummary) -> Result<BlockAddr> {
        if log.is_full() {
            self.switch(log, false)?;
        }
        let addr = log.position(&self.geo);
        log.set_owner(owner);
        let (segno, from) = (log.segno, log.next + 1);
        let ssr = log.ssr;
        log.next = self.with_table(|t| {
            t.unsettle(segno, 1);
            if ssr { t.next_hole(segno, from).unwrap_or(BLOCKS_PER_SEG) } else { from }
        });
        // The format wants a position inside a segment at every checkpoint, so the next segment is found now. If there
        // is none the block handed out is still good; the next caller gets the error.
        if log.is_full() {
            let _later = self.switch(log, false);
        }
        Ok(addr)
    }

    /// Leaves the log's segment and opens another: a free one, or one with holes when free ones are scarce.
    pub(super) fn switch(&self, log: &mut Log, only_free: bool) -> Result<()> {
        let old = log.segno;
        let (segno, ssr) = self.with_table(|t| self.choose(t, log, only_free)).ok_or(Error::NoSpace)?;
        let summary = if ssr {
            let mut s = *self.summary_of_closed(segno)?;
            s.entry_type = Log::summary_type(log.kind) as u8;
            s
        } else {
            RawSummaryBlock::empty(Log::summary_type(log.kind))
        };
        let finished = Arc::new(*log.summary);
        self.ssa.lock().insert(old, finished);
        let next = self.with_table(|t| {
            t.close(old);
            t.open(segno, log.kind);
            if ssr { t.next_hole(segno, 0).unwrap_or(BLOCKS_PER_SEG) } else { 0 }
        });
        *log.summary = summary;
        log.fsyncs = 0;
        (log.segno, log.next, log.ssr) = (segno, next, ssr);
        self.enter_section(log)
    }

    /// Chooses the next segment and marks it as taken, so that no other log chooses it too.
    fn choose(&self, t: &mut Table, log: &Log, only_free: bool) -> Option<(SegNo, bool)> {
        let hole = if only_free || !self.want_ssr(t) { None } else { ssr_victim(t, log.kind) };
        let hint = match log.kind {
            LogType::WarmData | LogType::ColdData if self.geo.segment_count_main > SMALL_VOLUME => log.segno,
            _ => SegNo(0),
        };
        let same_section = !only_free;
        let next_in_section = t
            .find_free(log.segno, same_section, hint)
            .filter(|s| self.geo.sec_of(*s) == self.geo.sec_of(log.segno) && self.geo.segs_per_sec > 1);
        let (seg, ssr) = match (next_in_section, hole) {
            (Some(s), _) => (s, false),
            (None, Some(s)) => (s, true),
            (None, None) => match t.find_free(log.segno, same_section, hint) {
                Some(s) => (s, false),
                None if only_free || self.mode == AllocMode::Lfs => return None,
                None => (ssr_victim(t, log.kind)?, true),
            },
        };
        t.open(seg, log.kind);
        Some((seg, ssr))
    }

    fn want_ssr(&self, t: &Table) -> bool {
        self.mode == AllocMode::Adaptive && t.free_sections() <= 2 * u64::from(self.reserved_sections)
    }

    fn summary_of_closed(&self, seg: SegNo) -> Result<Arc<RawSummaryBlock>> {
        if let Some(s) = self.ssa.lock().get(&seg) {
            return Ok(s.clone());
        }
        Ok(Arc::new(*self.dev.read(self.geo.ssa_addr(seg))?.view()))
    }
}

/// The roomiest segment of the log's own type, else of another type of its class.
fn ssr_victim(t: &Table, kind: LogType) -> Option<SegNo> {
    use LogType::{ColdData, ColdNode, HotData, HotNode, WarmData, WarmNode};
    let order = match kind {
        HotData => [HotData, WarmData, ColdData],
        WarmData => [WarmData, ColdData, HotData],
        ColdData => [ColdData, WarmData, HotData],
        HotNode => [HotNode, WarmNode, ColdNode],
        WarmNode => [WarmNode, ColdNode, HotNode],
        ColdNode => [ColdNode, WarmNode, HotNode],
    };
    order.into_iter().find_map(|t2| t.roomiest(t2))
}
