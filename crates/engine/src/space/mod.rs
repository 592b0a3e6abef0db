//! Space in the main area: valid blocks, free segments, and the write position of each log.
//!
//! A block is *allocated* (a log hands out its address), *written*, then *published* (its SIT bit is set and the
//! index points at it). A checkpoint before the last step ignores the block. A segment with unpublished blocks is
//! neither free nor a victim.
mod adopt;
mod ages;
mod alloc;
mod boundary;
mod counts;
mod free;
mod index;
mod log;
mod membership;
mod parked;
mod pin;
mod placement;
mod runs;
mod share;
mod sit;
mod stats;
mod stream;
mod table;
mod zone;

pub use counts::{Counts, Values};
pub use log::Log;
use log::LogCell;
pub use pin::{SegmentPin, Tables};
pub use placement::Placement;
pub use sit::{Loaded, SitFlush};
pub use stream::{SharedStream, Stream};
pub use table::{FIRST_SECOND, Table};
pub(crate) use zone::{CrashedLogs, LogRoom};

use crate::block::{SharedBlock, shared};
use crate::clock::Clock;
use crate::error::Result;
use crate::health::Health;
use crate::lock::{Mutex, rank};
use crate::meta::Device;
use crate::options::AllocMode;
use crate::sync::atomic::AtomicU64;
use segno_format::sit::LogType;
use segno_format::summary::RawSummaryBlock;
use segno_format::{Block, BlockAddr, Geometry, SegNo};
use stats::AllocStats;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Segment table, logs, streams and counters of one volume.
pub struct Space {
    pub geo: Geometry,
    /// Blocks and nodes in use or reserved; they decide ENOSPC.
    pub counts: Counts,
    dev: Arc<Device>,
    mode: AllocMode,
    /// Sections that only cleaning and checkpoints may use.
    pub reserved_sections: u32,
    /// Total number of sections set aside at format time.
    pub overprov_sections: u32,
    health: Arc<Health>,
    tables: Arc<Tables>,
    logs: [LogCell; 6],
    /// With fewer free sections data logs share theirs, a hint from above; the lock is held to open one.
    shared_up_to: AtomicU64,
    opening: Mutex<(), { rank::SIT }>,
    streams: Mutex<Vec<Arc<Stream>>, { rank::META }>,
    pub alloc: AllocStats,
    /// Summaries of finished segments that are not on the device yet.
    ssa: Mutex<BTreeMap<SegNo, Arc<RawSummaryBlock>>, { rank::META }>,
    sit: Mutex<SitState, { rank::SIT }>,
    /// Seconds the volume had been mounted before this mount; base of the SIT clock.
    elapsed_before: u64,
    clock: Arc<dyn Clock>,
    mounted_at: Duration,
}

/// State of the SIT that a checkpoint stores outside the SIT blocks.
#[derive(Clone, Debug, Default)]
struct SitState {
    bitmap: Vec<u8>,
    /// Segments whose newest entry is in the SIT journal.
    journal: BTreeSet<SegNo>,
}

impl Space {
    /// Seconds on the clock of SIT mtimes.
    pub fn now(&self) -> u64 {
        self.elapsed_before + self.clock.uptime().saturating_sub(self.mounted_at).as_secs()
    }

    /// Sections that a log may open.
    pub fn free_sections(&self) -> u64 {
        self.tables.free_sections()
    }

    /// Reads or changes the tables under their lock.
    pub fn with_table<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        self.tables.with(f)
    }

    /// Pins the segments that `choose` returns, under the same hold of the lock.
    pub fn pin<R>(&self, choose: impl FnOnce(&mut Table) -> (R, Vec<SegNo>)) -> (R, SegmentPin) {
        self.tables.pin(choose)
    }

    /// Frees a block that the checkpoint in progress replaced by `new`; the checkpoint no longer refers to `old`. If
    /// the node is not `live` any more, only the checkpoint keeps `new`.
    pub fn displace(&self, new: BlockAddr, old: BlockAddr, live: bool) -> Result<()> {
        let now = self.now();
        self.with_table(|t| {
            if old.is_real() {
                t.place_frozen(&[old], false, live, now)?;
            }
            if live { Ok(()) } else { t.set_valid(&[new], false, now) }
        })
    }

    /// Frees blocks. They are not reused before the next checkpoint.
    pub fn invalidate(&self, addrs: &[BlockAddr]) -> Result<()> {
        let now = self.now();
        self.with_table(|t| t.set_valid(addrs, false, now))
    }

    /// Whether the block's SIT bit is set.
    pub fn is_valid(&self, addr: BlockAddr) -> bool {
        self.geo.seg_of(addr).is_some_and(|(s, off)| self.with_table(|t| t.is_valid(s, off)))
    }

    /// The first real address whose SIT bit is clear.
    pub fn first_unused(&self, addrs: &[BlockAddr]) -> Option<BlockAddr> {
        let used = |t: &Table, a: BlockAddr| self.geo.seg_of(a).is_some_and(|(s, off)| t.is_valid(s, off));
        self.with_table(|t| addrs.iter().copied().find(|&a| a.is_real() && !used(t, a)))
    }

    /// The newest copy of a segment's summary.
    pub fn summary(&self, seg: SegNo) -> Result<Arc<RawSummaryBlock>> {
        for log in &self.logs {
            let log = log.lock();
            if log.segno == seg {
                return Ok(Arc::new(*log.summary));
            }
        }
        self.stream_summary(seg).map_or_else(|| self.summary_of_closed(seg), Ok)
    }

    /// Writes the summaries of finished segments and of segments open in streams. Entries for blocks of the last
    /// checkpoint do not change, so overwriting summaries in place is always safe.
    /// Returns their number.
    pub fn write_summaries(&self) -> Result<u64> {
        self.park_streams();
        let waiting: Vec<(SegNo, Arc<RawSummaryBlock>)> =
            self.ssa.lock().iter().map(|(&s, b)| (s, b.clone())).collect();
        let mut out: Vec<(BlockAddr, SharedBlock)> = waiting
            .iter()
            .map(|(s, raw)| {
                let mut block = Block::zeroed();
                *block.view_mut::<RawSummaryBlock>() = **raw;
                (self.geo.ssa_addr(*s), shared(block))
            })
            .collect();
        let written_blocks = out.len() as u64;
        self.dev.write_scattered(&mut out)?;
        let mut ssa = self.ssa.lock();
        for (s, written) in waiting {
            // The segment may have been reused and finished again meanwhile.
            if ssa.get(&s).is_some_and(|now| Arc::ptr_eq(now, &written)) {
                ssa.remove(&s);
            }
        }
        Ok(written_blocks)
    }

    /// State and summary of every log. With `spare`, each log skips the block at the reported position, so that only
    /// another implementation writes there.
    pub fn log_snapshot(&self, spare: bool) -> Result<[Log; 6]> {
        let mut written = Ok(());
        let snapshot = LogType::ALL.map(|t| {
            let mut log = self.logs[t.idx()].lock();
            self.move_on(&mut log);
            written = std::mem::replace(&mut written, Ok(())).and_then(|()| self.return_to_pointer(&mut log));
            let snapshot = Log::clone(&log);
            if spare {
                self.keep_canary_block(&mut log);
            }
            snapshot
        });
        written.map(|()| snapshot)
    }

    /// State of every log, for the checkpoint and for reports.
    pub fn log_states(&self) -> [Log; 6] {
        LogType::ALL.map(|t| Log::clone(&self.logs[t.idx()].lock()))
    }
}
