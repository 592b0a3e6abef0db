//! Reading the SIT at mount and writing it at a checkpoint.
use super::log::LogCell;
use super::{Counts, Log, SegmentPin, SitState, Space, Table, Tables};
use crate::block::shared;
use crate::clock::Clock;
use crate::error::Result;
use crate::health::{Health, invariant};
use crate::lock::Mutex;
use crate::meta::Device;
use crate::options::AllocMode;
use segno_format::bits::msb;
use segno_format::checkpoint::RawCheckpoint;
use segno_format::geometry::SIT_PER_BLOCK;
use segno_format::sit::{LogType, RawSitBlock, RawSitJournalEntry, SIT_JOURNAL_MAX};
use segno_format::summary::Journal;
use segno_format::{BLOCKS_PER_SEG, Block, Corrupt, Geometry, SegNo, Structure};
use segno_layout::{flip, sit_block, sit_entries};
use std::collections::BTreeMap;
use std::sync::Arc;

/// SIT blocks read per request at mount.
const READ_AHEAD: u32 = 256;

/// State of the SIT that a checkpoint stores outside the SIT blocks.
pub struct SitFlush {
    pub journal: Vec<RawSitJournalEntry>,
    pub bitmap: Vec<u8>,
    /// SIT blocks written.
    pub blocks: u64,
}

/// State of the main area in the checkpoint pack.
pub struct Loaded<'a> {
    pub cp: &'a RawCheckpoint,
    pub bitmap: Vec<u8>,
    pub journal: &'a Journal<RawSitJournalEntry>,
    pub logs: [Log; 6],
    /// `ro` images have two logs and no summaries.
    pub ro_image: bool,
}

impl Space {
    /// Reads the SIT and opens the logs where the checkpoint left them.
    pub fn load(
        geo: Geometry,
        dev: Arc<Device>,
        health: Arc<Health>,
        mode: AllocMode,
        clock: Arc<dyn Clock>,
        pack: Loaded<'_>,
    ) -> Result<Self> {
        let mut table = Table::new(&geo, health.clone());
        read_blocks(&geo, &dev, &pack.bitmap, &mut table)?;
        let newer = sit_entries(pack.journal, &geo)?;
        newer.iter().try_for_each(|(seg, entry)| table.load(*seg, entry))?;
        let journal = newer.into_keys().collect();
        check_logs(&geo, &table, &pack)?;
        if !pack.ro_image {
            pack.logs.iter().for_each(|l| table.open_loaded(l.segno, l.kind));
        }
        Ok(Self {
            geo,
            counts: Counts::of(pack.cp, geo.max_nid()),
            dev,
            mode,
            reserved_sections: pack.cp.rsvd_segment_count.get() / geo.segs_per_sec.max(1),
            overprov_sections: pack.cp.overprov_segment_count.get() / geo.segs_per_sec.max(1),
            tables: Arc::new(Tables::new(table, health.clone())),
            health,
            logs: pack.logs.map(|log| LogCell::new(log, geo.segs_per_sec)),
            shared_up_to: Default::default(),
            opening: Mutex::default(),
            streams: Mutex::default(),
            alloc: Default::default(),
            ssa: Mutex::new(BTreeMap::new()),
            sit: Mutex::new(SitState { bitmap: pack.bitmap, journal }),
            elapsed_before: pack.cp.elapsed_time.get(),
            mounted_at: clock.uptime(),
            clock,
        })
    }

    /// Writes the entries changed by the boundary: to the summary journal if all of them fit, else to the alternate
    /// copies of the SIT blocks.
    pub fn flush_sit(&self) -> Result<SitFlush> {
        let changed: Vec<SegNo> = self.with_table(|t| t.frozen());
        // Only checkpoints change it, and they run one at a time.
        let mut state = self.sit.lock().clone();
        let mut all = state.journal.clone();
        all.extend(&changed);
        let mut journal = Vec::new();
        let mut written = 0;
        let bits = self.geo.sit_blocks() as usize;
        invariant!(self.health, state.bitmap.len() * 8 >= bits, "the SIT bitmap is shorter than the SIT");
        if all.len() <= SIT_JOURNAL_MAX {
            journal = self.with_table(|t| {
                let entry = |&seg| RawSitJournalEntry::new(seg, t.entry_at_boundary(seg));
                all.iter().map(entry).collect()
            });
            state.journal = all;
        } else {
            let mut blocks: Vec<u32> = all.iter().map(|s| s.0 / SIT_PER_BLOCK).collect();
            blocks.dedup();
            let mut out = Vec::with_capacity(blocks.len());
            for b in blocks {
                let block = self
                    .with_table(|t| sit_block(Block::zeroed(), &self.geo, b, |seg| t.entry_at_boundary(seg)));
                out.push((self.geo.sit_addr(b, flip(&mut state.bitmap, b)), shared(block)));
            }
            written = out.len() as u64;
            self.dev.write_scattered(&mut out)?;
            state.journal.clear();
        }
        let bitmap = state.bitmap.clone();
        *self.sit.lock() = state;
        Ok(SitFlush { journal, bitmap, blocks: written })
    }

    /// Called once the checkpoint is durable: blocks it freed may be reused. Returns the segments that became free,
    /// pinned so that they can be discarded before a log opens them.
    pub fn committed(&self) -> SegmentPin {
        self.pin(|t| ((), t.committed())).1
    }

    /// Pins the given segments that are free and in no open section.
    pub fn pin_free(&self, segs: &[SegNo]) -> SegmentPin {
        let free =
            |t: &Table| segs.iter().copied().filter(|&s| t.is_free(s) && !t.is_section_busy(s)).collect();
        self.pin(|t| ((), free(t))).1
    }
}

fn read_blocks(geo: &Geometry, dev: &Device, bitmap: &[u8], table: &mut Table) -> Result<()> {
    let total = geo.sit_blocks();
    let mut buf = vec![Block::zeroed(); READ_AHEAD.min(total) as usize];
    let mut b = 0;
    while b < total {
        let second = msb::test(bitmap, b as usize);
        let run =
            (b..total.min(b + READ_AHEAD)).take_while(|&i| msb::test(bitmap, i as usize) == second).count();
        let Some(part) = buf.get_mut(..run) else { break };
        dev.read_into(geo.sit_addr(b, second), part)?;
        for (i, block) in (b..).zip(part.iter()) {
            if !block.is_zero() {
                load_block(geo, i, block.view(), table)?;
            }
        }
        b += run as u32;
    }
    Ok(())
}

fn load_block(geo: &Geometry, b: u32, raw: &RawSitBlock, table: &mut Table) -> Result<()> {
    let first = b * SIT_PER_BLOCK;
    for (seg, entry) in (first..geo.segment_count_main).zip(&raw.entries) {
        if entry.vblocks.get() != 0 || entry.mtime.get() != 0 {
            table.load(SegNo(seg), entry)?;
        }
    }
    Ok(())
}

/// Checks that the write position of each log is unused and, for a log that only appends, everything after it.
fn check_logs(geo: &Geometry, table: &Table, pack: &Loaded<'_>) -> Result<()> {
    for log in &pack.logs {
        let idle = !matches!(log.kind, LogType::HotData | LogType::HotNode);
        if pack.ro_image && idle {
            continue;
        }
        let end = if log.ssr { log.next + 1 } else { BLOCKS_PER_SEG };
        if let Some(off) = (log.next..end).find(|&o| table.is_valid(log.segno, o)) {
            let (at, why) = (geo.seg_start(log.segno).offset(off), "a log would overwrite a valid block");
            let found = off.into();
            return Err(
                Corrupt::block(Structure::Checkpoint, at.0.into(), why, found, log.next.into()).into()
            );
        }
    }
    Ok(())
}
