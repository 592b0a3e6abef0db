//! Space in the main area: which blocks are valid, which segments are free, where each log writes next.
//!
//! A block is *allocated* (a log hands out its address), *written*, then *published* (its SIT bit is set and the index
//! points at it). A checkpoint between the first and the last sees nothing of it. Segments with unpublished blocks are
//! neither free nor victims.
mod adopt;
mod alloc;
mod boundary;
mod free;
mod index;
mod log;
mod runs;
mod sit;
mod stats;
mod stream;
mod table;
mod zone;

use log::LogCell;
pub use log::{Log, LogSnapshot, LogState};
pub use sit::{Loaded, SitFlush};
pub use stream::{SharedStream, Stream};
pub use table::Table;
pub(crate) use zone::{Left, LeftBehind};

use crate::error::Result;
use crate::lock::{Mutex, rank};
use crate::meta::Device;
use crate::options::AllocMode;
use crate::sync::atomic::{AtomicU64, Ordering};
use segno_format::sit::LogType;
use segno_format::summary::RawSummaryBlock;
use segno_format::{Block, BlockAddr, Geometry, SegNo};
use stats::AllocStats;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// See the module.
pub struct Segments {
    pub geo: Geometry,
    dev: Arc<Device>,
    mode: AllocMode,
    /// Sections that only cleaning and checkpoints may use.
    pub reserved_sections: u32,
    /// Sections set aside at format time in all.
    pub overprov_sections: u32,
    table: Mutex<Table, { rank::SEGMENT }>,
    logs: [LogCell; 6],
    streams: Mutex<Vec<Arc<Stream>>, { rank::META }>,
    pub alloc: AllocStats,
    /// Summaries of finished segments that are not on the device yet.
    ssa: Mutex<BTreeMap<SegNo, Arc<RawSummaryBlock>>, { rank::META }>,
    sit: Mutex<SitState, { rank::SIT }>,
    /// Seconds the volume had been mounted before this mount; base of the SIT clock.
    elapsed_before: u64,
    mounted_at: Instant,
    /// Free sections, readable without the table's lock.
    free_sections: AtomicU64,
}

/// What the checkpoint stores of the SIT besides its blocks.
#[derive(Clone, Debug, Default)]
struct SitState {
    bitmap: Vec<u8>,
    /// Segments whose newest entry is in the SIT journal.
    journal: BTreeSet<SegNo>,
}

impl Segments {
    /// Seconds on the clock of SIT mtimes.
    pub fn now(&self) -> u64 {
        self.elapsed_before + self.mounted_at.elapsed().as_secs()
    }

    /// Sections that a log may open.
    pub fn free_sections(&self) -> u64 {
        self.free_sections.load(Ordering::Relaxed)
    }

    /// Looks at or changes the tables under their lock.
    pub fn with_table<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.table.lock();
        let r = f(&mut table);
        self.free_sections.store(table.free_sections(), Ordering::Relaxed);
        r
    }

    /// A block was written and the index now points at it. `old` is the block it replaces, if any.
    pub fn publish(&self, new: BlockAddr, old: BlockAddr) -> Result<()> {
        let now = self.now();
        self.with_table(|t| {
            t.settle(&[new], &self.geo);
            t.validate(new, now, &self.geo)?;
            if old.is_real() { t.invalidate(old, now, &self.geo) } else { Ok(()) }
        })
    }

    /// Many blocks at once, as (new, replaced).
    pub fn publish_all(&self, blocks: &[(BlockAddr, BlockAddr)]) -> Result<()> {
        let now = self.now();
        let new: Vec<BlockAddr> = blocks.iter().map(|&(new, _)| new).collect();
        let old: Vec<BlockAddr> = blocks.iter().map(|&(_, old)| old).filter(|a| a.is_real()).collect();
        self.with_table(|t| {
            t.settle(&new, &self.geo);
            t.flip(&new, true, now, &self.geo)?;
            t.flip(&old, false, now, &self.geo)
        })
    }

    /// The checkpoint on its way wrote these blocks.
    pub fn place_all(&self, addrs: &[BlockAddr]) -> Result<()> {
        let now = self.now();
        self.with_table(|t| {
            t.settle(addrs, &self.geo);
            t.place_frozen(addrs, true, true, now, &self.geo)
        })
    }

    /// What one of them replaces is none of the checkpoint's. If the node is no longer `live`, the new block is only the
    /// checkpoint's.
    pub fn displace(&self, new: BlockAddr, old: BlockAddr, live: bool) -> Result<()> {
        let now = self.now();
        self.with_table(|t| {
            if old.is_real() {
                t.place_frozen(&[old], false, live, now, &self.geo)?;
            }
            if live { Ok(()) } else { t.invalidate(new, now, &self.geo) }
        })
    }

    /// Blocks that the index names and that are written later: until [`Segments::abandon`] nobody moves them.
    pub fn expect(&self, addrs: &[BlockAddr]) {
        self.with_table(|t| {
            addrs.iter().filter_map(|a| self.geo.seg_of(*a)).for_each(|(seg, _)| t.unsettle(seg, 1));
        });
    }

    /// Allocated blocks that were not published after all.
    pub fn abandon(&self, addrs: &[BlockAddr]) {
        self.with_table(|t| t.settle(addrs, &self.geo));
    }

    /// A block is no longer part of the volume. It is not reused before the next checkpoint.
    pub fn invalidate(&self, addr: BlockAddr) -> Result<()> {
        let now = self.now();
        self.with_table(|t| t.invalidate(addr, now, &self.geo))
    }

    /// Many blocks at once.
    pub fn invalidate_all(&self, addrs: &[BlockAddr]) -> Result<()> {
        let now = self.now();
        self.with_table(|t| t.flip(addrs, false, now, &self.geo))
    }

    /// Whether the SIT says the block is in use.
    pub fn is_valid(&self, addr: BlockAddr) -> bool {
        self.geo.seg_of(addr).is_some_and(|(s, off)| self.with_table(|t| t.is_valid(s, off)))
    }

    /// The first of the real addresses that the SIT says is not in use.
    pub fn first_unused(&self, addrs: &[BlockAddr]) -> Option<BlockAddr> {
        let used = |t: &Table, a: BlockAddr| self.geo.seg_of(a).is_some_and(|(s, off)| t.is_valid(s, off));
        self.with_table(|t| addrs.iter().copied().find(|&a| a.is_real() && !used(t, a)))
    }

    /// The summary of a segment, wherever its newest copy is.
    pub fn summary(&self, seg: SegNo) -> Result<Arc<RawSummaryBlock>> {
        for log in &self.logs {
            let log = log.lock();
            if log.segno == seg {
                return Ok(Arc::new(*log.summary));
            }
        }
        if let Some(s) = self.stream_summary(seg) {
            return Ok(s);
        }
        if let Some(s) = self.ssa.lock().get(&seg) {
            return Ok(s.clone());
        }
        Ok(Arc::new(*self.dev.read(self.geo.ssa_addr(seg))?.view()))
    }

    /// Writes the summaries of finished segments and of those that streams are in. Their entries for blocks of the last checkpoint do not change, so
    /// overwriting them in place is safe at any moment.
    pub fn write_summaries(&self) -> Result<()> {
        self.park_streams();
        let waiting: Vec<(SegNo, Arc<RawSummaryBlock>)> =
            self.ssa.lock().iter().map(|(&s, b)| (s, b.clone())).collect();
        let mut out: Vec<(BlockAddr, Arc<Block>)> = waiting
            .iter()
            .map(|(s, raw)| {
                let mut block = Block::zeroed();
                *block.view_mut::<RawSummaryBlock>() = **raw;
                (self.geo.ssa_addr(*s), Arc::new(block))
            })
            .collect();
        self.dev.write_scattered(&mut out)?;
        let mut ssa = self.ssa.lock();
        for (s, written) in waiting {
            // A segment may have been reused and finished again meanwhile.
            if ssa.get(&s).is_some_and(|now| Arc::ptr_eq(now, &written)) {
                ssa.remove(&s);
            }
        }
        Ok(())
    }

    /// State and summary of every log. With `spare`, what follows goes behind the position told: nobody who knows that
    /// writes there.
    pub fn log_snapshot(&self, spare: bool) -> LogSnapshot {
        LogType::ALL.map(|t| {
            let mut log = self.logs[t.idx()].lock();
            self.move_on(&mut log);
            let snapshot = (log.state(), log.summary.clone());
            if spare {
                self.spare_position(&mut log);
            }
            snapshot
        })
    }

    /// State of every log, for the checkpoint and for reports.
    pub fn log_states(&self) -> [LogState; 6] {
        LogType::ALL.map(|t| self.logs[t.idx()].lock().state())
    }
}
