//! Logs beyond the six, so that extents of files written at the same time do not interleave.
//!
//! A stream exists in memory only. At a checkpoint its segment looks like any partly used one: the SIT has its valid
//! blocks, the summary area its summary, and no log of the pack is open in it. When space is short a stream opens no
//! segment and passes requests to the log of its type.
use super::log::Log;
use super::stats::Opener;
use super::{Placement, SegmentPin, Space, Table};
use crate::error::Result;
use crate::health::invariant;
use crate::lock::{Mutex, rank};
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, SecNo, SegNo};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Upper limit of a claim in bytes.
const CLAIM_MAX: u64 = 1 << 30;
const SEG_BYTES: u64 = BLOCKS_PER_SEG as u64 * BLOCK_SIZE as u64;
/// A claim takes up to this fraction of the free sections, divided by the number of streams.
const CLAIM_DIVISOR: u64 = 8;

/// A data log in memory.
pub struct Stream {
    pub kind: LogType,
    /// Used by one file only.
    pub exclusive: bool,
    tail: Mutex<Tail, { rank::LOG }>,
}

/// A stream of several files, created when first needed.
#[derive(Debug, Default)]
pub struct SharedStream(Mutex<Option<Arc<Stream>>, { rank::LOG }>);

impl SharedStream {
    pub fn get(&self, kind: LogType, space: &Space) -> Arc<Stream> {
        self.0.lock().get_or_insert_with(|| space.new_stream(kind, false)).clone()
    }
    pub fn made(&self) -> Option<Arc<Stream>> {
        self.0.lock().clone()
    }
}

/// Write position of a stream.
#[derive(Default)]
struct Tail {
    log: Option<Log>,
    /// Pin on the log's segment.
    pin: Option<SegmentPin>,
    /// The summary changed since it was last passed to the summary area.
    changed: bool,
    /// The unused rest of the claim.
    claim: Option<Range<SecNo>>,
    /// Length of the claim when it was made, in sections.
    claimed: u32,
    /// The stream opens no more segments.
    ended: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("kind", &self.kind).field("exclusive", &self.exclusive).finish()
    }
}

impl Space {
    /// Creates a stream; it uses no space before its first block.
    pub fn new_stream(&self, kind: LogType, exclusive: bool) -> Arc<Stream> {
        let stream = Arc::new(Stream { kind, exclusive, tail: Mutex::default() });
        self.streams.lock().push(stream.clone());
        self.alloc.streams.fetch_add(1, Ordering::Relaxed);
        stream
    }

    /// Streams in use, as (shared, exclusive).
    pub fn stream_counts(&self) -> (u64, u64) {
        let streams = self.streams.lock();
        let exclusive = streams.iter().filter(|s| s.exclusive).count() as u64;
        (streams.len() as u64 - exclusive, exclusive)
    }

    /// Like [`Space::allocate`]. Without `may_open` the stream ends with its segment, and the log of its type
    /// continues.
    pub fn allocate_in(&self, stream: &Stream, may_open: bool, owners: &[RawSummary]) -> Result<Placement> {
        let mut out = self.placement(owners.len());
        let begun = self.alloc.begin();
        {
            let mut tail = stream.tail.lock();
            while let Some(rest) = owners.get(out.addrs.len()..).filter(|r| !r.is_empty()) {
                if tail.log.as_ref().is_none_or(Log::is_full) && !self.advance(stream, &mut tail, may_open) {
                    break;
                }
                let Some(log) = tail.log.as_mut() else { break };
                self.take_run(log, rest, &mut out)?;
                tail.changed = true;
            }
        }
        self.alloc.end(begun);
        let typed = stream.tail.lock().log.as_ref().is_none_or(|log| log.kind == stream.kind);
        invariant!(self.health, typed, "a stream is in a segment of another type");
        let rest = owners.get(out.addrs.len()..).unwrap_or_default();
        if !rest.is_empty() {
            self.alloc.refused.fetch_add(1, Ordering::Relaxed);
            out.append(self.allocate(stream.kind, rest)?);
        }
        let all = out.addrs.len() == owners.len();
        invariant!(self.health, all, "a stream allocated a different number of blocks than requested");
        Ok(out)
    }

    /// Like [`Space::note_fsync`], for this stream.
    pub fn note_fsync_in(&self, stream: &Stream) {
        if let Some(log) = stream.tail.lock().log.as_mut() {
            self.prepare_for_fsyncs(log);
        }
    }

    /// Moves the stream to its next segment; false if it may not open one or none is free.
    fn advance(&self, stream: &Stream, tail: &mut Tail, may_open: bool) -> bool {
        let old = tail.log.as_ref().map(|log| log.segno);
        self.leave(tail);
        if tail.ended {
            return false;
        }
        let turn = self.opening.lock();
        let may_open = may_open && !self.leaves_to_nodes();
        let (next, pin) = self.pin(|t| {
            let next = self.next_segment(t, stream, tail, old, may_open);
            if next.is_some_and(|(seg, _)| t.is_free_section(self.geo.sec_of(seg))) {
                self.alloc.opened_section(Opener::Stream);
            }
            next.iter().for_each(|&(seg, _)| t.retype(seg, stream.kind));
            (next, next.iter().map(|&(seg, _)| seg).collect())
        });
        drop(turn);
        let Some((segno, next)) = next else { return false };
        let summary = if next > 0 {
            self.summary_of_closed(segno)
        } else {
            Ok(Arc::new(RawSummaryBlock::empty(stream.kind.summary_type())))
        };
        // A segment whose summary cannot be read is left to cleaning, which reports it.
        let Ok(summary) = summary else { return false };
        self.alloc.opened.fetch_add(1, Ordering::Relaxed);
        tail.pin = Some(pin);
        tail.log =
            Some(Log { kind: stream.kind, segno, next, ssr: false, summary: Box::new(*summary), fsyncs: 0 });
        true
    }

    fn next_segment(
        &self,
        t: &mut Table,
        stream: &Stream,
        tail: &mut Tail,
        old: Option<SegNo>,
        may_open: bool,
    ) -> Option<(SegNo, u32)> {
        if let Some(seg) = old.and_then(|old| t.next_in_section(old)) {
            return Some((seg, 0));
        }
        if let Some(parked) = (!stream.exclusive).then(|| t.take_parked(stream.kind, old)).flatten() {
            return Some(parked);
        }
        if !may_open {
            return None;
        }
        if let Some(seg) = tail.claim.as_mut().and_then(|claim| t.advance(claim)) {
            return Some((seg, 0));
        }
        let after = tail.claim.take().map(|old| {
            t.release(&old);
            old.end
        });
        let streams = self.alloc.streams.load(Ordering::Relaxed).max(1);
        let share = t.free_sections() / (CLAIM_DIVISOR * streams);
        let most = share.min(CLAIM_MAX / u64::from(self.geo.segs_per_sec) / SEG_BYTES).max(1) as u32;
        let want = if after.is_some() { tail.claimed.saturating_mul(2).clamp(1, most) } else { 1 };
        let mut claim = t.claim(after, want)?;
        let how = match after {
            None => &self.alloc.first,
            Some(after) if after == claim.start => &self.alloc.adjacent,
            Some(after) if t.is_free_section(after) => &self.alloc.broken_by_claim,
            Some(_) => &self.alloc.broken_by_use,
        };
        how.fetch_add(1, Ordering::Relaxed);
        invariant!(self.health, claim.start < claim.end && claim.end.0 <= self.geo.section_count, "a claim is empty or beyond the main area", else return None);
        tail.claimed = claim.end.0 - claim.start.0;
        let seg = t.advance(&mut claim);
        tail.claim = Some(claim);
        seg.map(|seg| (seg, 0))
    }

    /// Closes the stream's segment.
    fn leave(&self, tail: &mut Tail) {
        let Some(log) = tail.log.take() else { return };
        invariant!(self.health, tail.pin.is_some(), "a stream is in a segment that it has not pinned", else return);
        self.ssa.lock().insert(log.segno, Arc::new(*log.summary));
        tail.changed = false;
        tail.pin = None;
        if !log.is_full() {
            self.with_table(|t| t.park(log.segno, log.next));
        }
    }

    /// Releases what the stream holds; without `ended` it may be used again.
    fn close_stream(&self, stream: &Stream, ended: bool) {
        let mut tail = stream.tail.lock();
        tail.ended |= ended;
        self.leave(&mut tail);
        if let Some(claim) = tail.claim.take() {
            self.with_table(|t| t.release(&claim));
        }
    }

    /// Ends the stream for good; later writes to it use the log of its type.
    pub fn end_stream(&self, stream: &Arc<Stream>) {
        self.close_stream(stream, true);
        let mut streams = self.streams.lock();
        let before = streams.len();
        streams.retain(|s| !Arc::ptr_eq(s, stream));
        invariant!(self.health, streams.len() + 1 == before, "an unknown stream is ended", else return);
        self.alloc.streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Releases what every stream holds.
    pub fn close_streams(&self) {
        let streams = self.streams.lock().clone();
        streams.iter().for_each(|s| self.close_stream(s, false));
    }

    /// Passes the summaries of the streams' segments to the summary area for a checkpoint.
    pub(super) fn park_streams(&self) {
        let streams = self.streams.lock().clone();
        for stream in streams {
            let mut tail = stream.tail.lock();
            if !std::mem::take(&mut tail.changed) {
                continue;
            }
            if let Some(log) = &tail.log {
                self.ssa.lock().insert(log.segno, Arc::new(*log.summary));
                self.alloc.parked.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The summary of the segment, if a stream has it open.
    pub(super) fn stream_summary(&self, seg: SegNo) -> Option<Arc<RawSummaryBlock>> {
        let streams = self.streams.lock().clone();
        streams.iter().find_map(|s| {
            let tail = s.tail.lock();
            tail.log.as_ref().filter(|log| log.segno == seg).map(|log| Arc::new(*log.summary))
        })
    }
}
