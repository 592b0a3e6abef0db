//! Allocating addresses, and moving a log to its next segment.
use super::log::Log;
use super::stats::Opener;
use super::table::Table;
use super::{Placement, Space};
use crate::error::{Error, Result};
use crate::health::invariant;
use crate::options::AllocMode;
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock};
use segno_format::{BLOCKS_PER_SEG, BlockAddr, SegNo};
use std::sync::Arc;

/// Number of fsyncs to one segment after which its rest is prepared.
const FSYNCS_TO_PREPARE: u32 = 4;
/// Number of segments (16 GiB) up to which a volume searches for free segments from the start, as F2FS does.
const SMALL_VOLUME: u32 = 8192;

/// Where a log continues.
#[derive(Clone, Copy, Debug)]
enum Next {
    Free(SegNo),
    /// A used segment with holes to fill.
    Hole(SegNo),
    /// A segment that a stream left; it is unused from this block on.
    Parked(SegNo, u32),
}

impl Next {
    fn segno(self) -> SegNo {
        let (Self::Free(seg) | Self::Hole(seg) | Self::Parked(seg, _)) = self;
        seg
    }
}

impl Space {
    /// Allocates one block per owner, in order.
    pub fn allocate(&self, kind: LogType, owners: &[RawSummary]) -> Result<Placement> {
        Ok(self.allocate_from(kind, Opener::Log(kind), owners)?.0)
    }

    /// Like [`Space::allocate`], for blocks that cleaning moves.
    pub fn allocate_moved(&self, kind: LogType, owners: &[RawSummary]) -> Result<Placement> {
        Ok(self.allocate_from(kind, Opener::Cleaning, owners)?.0)
    }

    /// Like [`Space::allocate`], for a node log. Also returns the position after the blocks.
    pub fn allocate_nodes(&self, kind: LogType, owners: &[RawSummary]) -> Result<(Placement, BlockAddr)> {
        self.allocate_from(kind, Opener::Log(kind), owners)
    }

    /// Returns the blocks, and the position of the log after them.
    fn allocate_from(
        &self,
        kind: LogType,
        opener: Opener,
        owners: &[RawSummary],
    ) -> Result<(Placement, BlockAddr)> {
        let mut log = self.logs[kind.idx()].lock();
        let begun = (!kind.is_node()).then(|| self.alloc.begin());
        let mut out = self.placement(owners.len());
        while let Some(rest) = owners.get(out.addrs.len()..).filter(|r| !r.is_empty()) {
            let (most, _turn) = self.may_take(&log, rest.len());
            let Some(rest) = rest.get(..most).filter(|r| !r.is_empty()) else {
                drop(log);
                log = self.lock_shared(kind);
                continue;
            };
            let place = if log.is_full() { self.switch_for(&mut log, false, opener) } else { Ok(()) };
            if let Err(e) = place {
                self.fill_unwritten(&out.addrs)?;
                return Err(e);
            }
            self.take_run(&mut log, rest, &mut out)?;
            // The format requires a position inside a segment at every checkpoint, so the next segment is opened now.
            // Without a next segment the allocated blocks are still good; the next caller gets the error.
            if log.is_full() {
                let _later = self.switch_for(&mut log, false, opener);
            }
        }
        let all = out.addrs.len() == owners.len();
        invariant!(self.health, all, "a log allocated a different number of blocks than requested");
        begun.into_iter().for_each(|b| self.alloc.end(b));
        Ok((out, log.position(&self.geo)))
    }

    /// Notes that an fsync is about to write to this log. After a few fsyncs to a segment its rest is prepared.
    pub fn note_fsync(&self, kind: LogType) {
        self.prepare_for_fsyncs(&mut self.logs[kind.idx()].lock());
    }

    pub(super) fn prepare_for_fsyncs(&self, log: &mut Log) {
        log.fsyncs = log.fsyncs.saturating_add(1);
        if log.fsyncs != FSYNCS_TO_PREPARE || log.ssr || log.is_full() {
            return;
        }
        // The locked log hands out no address past its position meanwhile. A device that cannot prepare blocks can
        // still write them.
        let _slower = self.dev.prepare(log.position(&self.geo), BLOCKS_PER_SEG - log.next);
    }

    /// Moves every log to another segment, a free one if possible. Recovery must do so before its first write.
    pub fn renew_logs(&self) -> Result<()> {
        for log in &self.logs {
            self.renew(&mut log.lock())?;
        }
        Ok(())
    }

    /// Moves the logs out of segments that recovery holds. Other logs continue after their canary, as a full
    /// volume may not have a segment for each log.
    pub fn leave_held_segments(&self) -> Result<()> {
        for log in &self.logs {
            let mut log = log.lock();
            let held = self.with_table(|t| !log.is_full() && t.is_held(log.segno, log.next));
            if held {
                self.renew(&mut log)?;
            }
        }
        Ok(())
    }

    fn renew(&self, log: &mut Log) -> Result<()> {
        // After its position a log may hold blocks that fsync wrote after the checkpoint. Recovery can be
        // repeated only as long as none of them is overwritten, so nothing is appended there; a hole in a
        // segment of the checkpoint is the last resort.
        match self.switch(log, true) {
            Err(Error::NoSpace) => self.switch(log, false),
            other => other,
        }
    }

    /// Keeps the canaries of the checkpoint in force, the blocks at the positions of the logs, until the next one is durable.
    /// A recovery that is cut off is repeated, and compares them again. Recovery must do so before its first write.
    pub fn keep_canaries(&self) {
        self.logs.iter().for_each(|log| self.keep_canary_block(&mut log.lock()));
    }

    /// Reserves the block at the position as a canary. A log that becomes full moves on at its next use or
    /// before the next checkpoint; not now, because the free segments are counted next. The last block of a
    /// zone is not reserved: the log would be in no section and need another one.
    pub(super) fn keep_canary_block(&self, log: &mut Log) {
        let in_order = self.dev.is_in_order(log.position(&self.geo));
        if log.is_full() || (in_order && log.left(self.geo.segs_per_sec) == 1) {
            return;
        }
        let (segno, from) = (log.segno, log.next + 1);
        let (ssr, kind) = (log.ssr, log.kind);
        // Linux writes at the position of a pack first. Segno never does, so a changed block there shows that the journal is not of this
        // volume any more.
        log.next = self.with_table(|t| {
            t.keep_canary(kind, segno, from - 1);
            if ssr { t.next_hole(segno, from).unwrap_or(BLOCKS_PER_SEG) } else { from }
        });
    }

    /// Moves a full log to its next segment.
    pub(super) fn move_on(&self, log: &mut Log) {
        if log.is_full() {
            // Without another segment the checkpoint finds no position to store.
            let _none = self.switch(log, false);
        }
    }

    /// Allocates blocks up to the end of the log's segment: at least one, unless it is full.
    pub(super) fn take_run(&self, log: &mut Log, owners: &[RawSummary], out: &mut Placement) -> Result<()> {
        let before = out.addrs.len();
        let segno = log.segno;
        let in_order = self.dev.is_zoned();
        self.with_table(|t| {
            invariant!(self.health, t.is_busy(segno), "a log writes to a segment that it has not opened");
            for &owner in owners {
                if log.is_full() {
                    break;
                }
                // After a crash a log continues in a zone that recovery holds as a whole.
                let unused =
                    if in_order { !t.is_valid(segno, log.next) } else { !t.is_held(segno, log.next) };
                invariant!(self.health, unused, "a log allocates a block that is in use");
                out.addrs.push(log.position(&self.geo));
                invariant!(self.health, log.set_owner(owner), "the position of a log is beyond its segment");
                let from = log.next + 1;
                log.next = if log.ssr { t.next_hole(segno, from).unwrap_or(BLOCKS_PER_SEG) } else { from };
            }
            out.hand_out(t, segno, (out.addrs.len() - before) as u32);
            Ok(())
        })
    }

    /// Leaves the log's segment and opens another: a free one, or one with holes when free ones are scarce.
    pub(super) fn switch(&self, log: &mut Log, only_free: bool) -> Result<()> {
        self.switch_for(log, only_free, Opener::Log(log.kind))
    }

    fn switch_for(&self, log: &mut Log, only_free: bool, opener: Opener) -> Result<()> {
        let next = self.with_table(|t| {
            let next = self.choose(t, log, only_free)?;
            if t.is_free_section(self.geo.sec_of(next.segno())) {
                self.alloc.opened_section(opener);
            }
            // Opened under the same lock, so that no other log chooses it.
            t.open(next.segno(), log.kind);
            Some(next)
        });
        let next = next.ok_or(Error::NoSpace)?;
        let segno = next.segno();
        let summary = match next {
            Next::Free(_) => RawSummaryBlock::empty(log.kind.summary_type()),
            Next::Hole(_) | Next::Parked(..) => {
                let closed = self.summary_of_closed(segno);
                let mut s = *closed.inspect_err(|_| self.with_table(|t| t.close(segno)))?;
                s.entry_type = log.kind.summary_type() as u8;
                s
            }
        };
        self.leave_for(log, segno, summary);
        log.next = match next {
            Next::Free(_) => 0,
            Next::Hole(_) => self.with_table(|t| t.next_hole(segno, 0)).unwrap_or(BLOCKS_PER_SEG),
            Next::Parked(_, next) => next,
        };
        log.ssr = matches!(next, Next::Hole(_));
        self.enter_section(log)
    }

    /// Switches a log to another segment, which is already open for it.
    pub(super) fn leave_for(&self, log: &mut Log, segno: SegNo, summary: RawSummaryBlock) {
        let finished = std::mem::replace(&mut *log.summary, summary);
        self.ssa.lock().insert(log.segno, Arc::new(finished));
        self.with_table(|t| t.close(log.segno));
        (log.segno, log.fsyncs) = (segno, 0);
    }

    /// Chooses the next segment: of the same section, one left by a stream, a free one, or one with holes.
    fn choose(&self, t: &mut Table, log: &Log, only_free: bool) -> Option<Next> {
        if !only_free {
            if let Some(seg) = t.next_in_section(log.segno) {
                return Some(Next::Free(seg));
            }
            if let Some((seg, next)) = t.take_parked(log.kind, Some(log.segno)) {
                return Some(Next::Parked(seg, next));
            }
            if let Some(seg) = self.want_ssr(t).then(|| ssr_victim(t, log)).flatten() {
                return Some(Next::Hole(seg));
            }
        }
        let hint = match log.kind {
            LogType::WarmData | LogType::ColdData if self.geo.segment_count_main > SMALL_VOLUME => log.segno,
            _ => SegNo(0),
        };
        match t.find_free(hint) {
            Some(seg) => Some(Next::Free(seg)),
            None if only_free || self.mode == AllocMode::Lfs => None,
            None => ssr_victim(t, log).map(Next::Hole),
        }
    }

    fn want_ssr(&self, t: &Table) -> bool {
        self.mode == AllocMode::Adaptive && t.free_sections() <= 2 * u64::from(self.reserved_sections)
    }

    pub(super) fn summary_of_closed(&self, seg: SegNo) -> Result<Arc<RawSummaryBlock>> {
        if let Some(s) = self.ssa.lock().get(&seg) {
            return Ok(s.clone());
        }
        Ok(Arc::new(*self.dev.read(self.geo.ssa_addr(seg))?.view()))
    }
}

/// The segment with the most holes: of the log's own type, else of another type of its class.
fn ssr_victim(t: &Table, log: &Log) -> Option<SegNo> {
    use LogType::{ColdData, ColdNode, HotData, HotNode, WarmData, WarmNode};
    let order = match log.kind {
        HotData => [HotData, WarmData, ColdData],
        WarmData => [WarmData, ColdData, HotData],
        ColdData => [ColdData, WarmData, HotData],
        HotNode => [HotNode, WarmNode, ColdNode],
        WarmNode => [WarmNode, ColdNode, HotNode],
        ColdNode => [ColdNode, WarmNode, HotNode],
    };
    order.into_iter().find_map(|t2| t.with_most_holes(t2, log.segno))
}
