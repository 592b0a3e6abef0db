//! Handing out addresses, and moving a log to its next segment.
use super::Segments;
use super::log::Log;
use super::table::Table;
use crate::error::{Error, Result};
use crate::options::AllocMode;
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock};
use segno_format::{BLOCKS_PER_SEG, BlockAddr, SegNo};
use std::sync::Arc;

/// fsyncs to one segment after which more are expected.
const FSYNCS_TO_PREPARE: u32 = 4;
/// Volumes of at most this many segments (16 GiB) look for free segments from the start, as F2FS does.
const SMALL_VOLUME: u32 = 8192;

/// Where a log goes on.
#[derive(Clone, Copy, Debug)]
enum Next {
    Free(SegNo),
    /// To fill its holes.
    Hole(SegNo),
    /// A stream left it; it is unused from this block on.
    Parked(SegNo, u32),
}

impl Next {
    fn segno(self) -> SegNo {
        let (Self::Free(seg) | Self::Hole(seg) | Self::Parked(seg, _)) = self;
        seg
    }
}

impl Segments {
    /// Hands out one block per owner, in order. They count as unpublished until [`Segments::publish`] or
    /// [`Segments::abandon`].
    pub fn allocate(&self, kind: LogType, owners: &[RawSummary]) -> Result<Vec<BlockAddr>> {
        Ok(self.allocate_from(kind, owners)?.0)
    }

    /// Hands out blocks of a node log together with the address that follows each in the log.
    pub fn allocate_nodes(
        &self,
        kind: LogType,
        owners: &[RawSummary],
    ) -> Result<Vec<(BlockAddr, BlockAddr)>> {
        let (addrs, next) = self.allocate_from(kind, owners)?;
        let following: Vec<BlockAddr> = addrs.iter().skip(1).copied().chain([next]).collect();
        Ok(addrs.into_iter().zip(following).collect())
    }

    /// The blocks, and the position of the log behind them.
    fn allocate_from(&self, kind: LogType, owners: &[RawSummary]) -> Result<(Vec<BlockAddr>, BlockAddr)> {
        let mut log = self.logs[kind.idx()].lock();
        let begun = (!kind.is_node()).then(|| self.alloc.begin());
        let mut out = Vec::with_capacity(owners.len());
        while let Some(rest) = owners.get(out.len()..).filter(|r| !r.is_empty()) {
            let place = if log.is_full() { self.switch(&mut log, false) } else { Ok(()) };
            if let Err(e) = place {
                self.give_up(&out)?;
                return Err(e);
            }
            self.take_run(&mut log, rest, &mut out);
            // The format wants a position inside a segment at every checkpoint, so the next segment is found now. If
            // there is none the blocks handed out are still good; the next caller gets the error.
            if log.is_full() {
                let _later = self.switch(&mut log, false);
            }
        }
        begun.into_iter().for_each(|b| self.alloc.end(b));
        Ok((out, log.position(&self.geo)))
    }

    /// An fsync is about to write to this log. Once it is clear that fsyncs fill the segment, the rest of it is prepared.
    pub fn note_fsync(&self, kind: LogType) {
        self.prepare_for_fsyncs(&mut self.logs[kind.idx()].lock());
    }

    pub(super) fn prepare_for_fsyncs(&self, log: &mut Log) {
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
                Err(Error::NoSpace) => self.switch(&mut log, false)?,
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
        let (ssr, kind) = (log.ssr, log.kind);
        log.next = self.with_table(|t| {
            t.spare(kind, segno, from - 1);
            if ssr { t.next_hole(segno, from).unwrap_or(BLOCKS_PER_SEG) } else { from }
        });
    }

    /// Gives a full log a position.
    pub(super) fn move_on(&self, log: &mut Log) {
        if log.is_full() {
            // Without another segment the checkpoint finds no position to store.
            let _none = self.switch(log, false);
        }
    }

    /// Hands out as many blocks as the log's segment has, one at least unless it is full.
    pub(super) fn take_run(&self, log: &mut Log, owners: &[RawSummary], out: &mut Vec<BlockAddr>) {
        let before = out.len();
        let segno = log.segno;
        self.with_table(|t| {
            for &owner in owners {
                if log.is_full() {
                    break;
                }
                out.push(log.position(&self.geo));
                log.set_owner(owner);
                let from = log.next + 1;
                log.next = if log.ssr { t.next_hole(segno, from).unwrap_or(BLOCKS_PER_SEG) } else { from };
            }
            t.unsettle(segno, (out.len() - before) as u32);
        });
    }

    /// Leaves the log's segment and opens another: a free one, or one with holes when free ones are scarce.
    pub(super) fn switch(&self, log: &mut Log, only_free: bool) -> Result<()> {
        let next = self.with_table(|t| {
            let next = self.choose(t, log, only_free)?;
            // Taken at once, so that nobody else chooses it too.
            t.open(next.segno(), log.kind);
            Some(next)
        });
        let next = next.ok_or(Error::NoSpace)?;
        let segno = next.segno();
        let summary = match next {
            Next::Free(_) => RawSummaryBlock::empty(Log::summary_type(log.kind)),
            Next::Hole(_) | Next::Parked(..) => {
                let closed = self.summary_of_closed(segno);
                let mut s = *closed.inspect_err(|_| self.with_table(|t| t.close(segno)))?;
                s.entry_type = Log::summary_type(log.kind) as u8;
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

    /// Puts a log into another segment.
    pub(super) fn leave_for(&self, log: &mut Log, segno: SegNo, summary: RawSummaryBlock) {
        let finished = std::mem::replace(&mut *log.summary, summary);
        self.ssa.lock().insert(log.segno, Arc::new(finished));
        self.with_table(|t| {
            t.close(log.segno);
            t.open(segno, log.kind);
        });
        (log.segno, log.fsyncs) = (segno, 0);
    }

    /// Chooses the next segment: of the same section, one that a stream left, a free one, or one with holes.
    fn choose(&self, t: &mut Table, log: &Log, only_free: bool) -> Option<Next> {
        if !only_free {
            if let Some(seg) = t.next_in_section(log.segno) {
                return Some(Next::Free(seg));
            }
            if let Some((seg, next)) = t.take_parked(log.kind) {
                return Some(Next::Parked(seg, next));
            }
            if let Some(seg) = self.want_ssr(t).then(|| ssr_victim(t, log.kind)).flatten() {
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
            None => ssr_victim(t, log.kind).map(Next::Hole),
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
