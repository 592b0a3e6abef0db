//! Sections that must be written in order.
use super::{Log, Space};
use crate::block::shared;
use crate::error::Result;
use crate::health::invariant;
use segno_format::sit::LogType;
use segno_format::summary::RawSummaryBlock;
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Corrupt, SecNo, SegNo, Structure};
use std::collections::BTreeSet;

/// State that a crash left after the checkpoint and that recovery needs.
#[derive(Debug, Default)]
pub(crate) struct CrashedLogs {
    /// Whether the chain or the journal holds anything to replay.
    pub replay: bool,
    /// Segments of logged nodes, and of the data they name.
    pub nodes: BTreeSet<SegNo>,
    pub data: BTreeSet<SegNo>,
}

/// Blocks that logs can still write in their present sections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogRoom {
    pub data: [u64; 3],
    pub nodes: [u64; 3],
    /// Logs in sections without a write pointer from which recovery could continue.
    pub without_pointer: u64,
}

impl Space {
    /// Reports a valid block beyond a write pointer as damage: the device does not have it.
    pub(crate) fn check_pointers(&self) -> Result<()> {
        for (sec, pointer) in self.dev.pointers() {
            if self.with_table(|t| t.valid_in_section(sec)) == 0 {
                continue;
            }
            let start = self.geo.seg_start(self.geo.sec_start(sec));
            let behind = (pointer..self.geo.blocks_per_sec()).map(|off| start.offset(off));
            if let Some(addr) = behind.into_iter().find(|&a| self.is_valid(a)) {
                let why = "a valid block is beyond the zone's write pointer";
                let at = addr.0.into();
                return Err(Corrupt::block(Structure::SitBlock, at, why, at, pointer.into()).into());
            }
        }
        Ok(())
    }

    /// Continues each log at the write pointer of its zone after a crash: nothing is overwritten and no other section
    /// is needed. A log whose zone is full had moved on, to a section of `found` that only fsyncs of the crashed
    /// mount refer to, or to one that is free again. If anything is to be replayed, a log in a section
    /// without write pointer moves to another segment.
    pub(crate) fn resume_logs(&self, found: &CrashedLogs) -> Result<()> {
        let mut moved = Vec::new();
        for log in &self.logs {
            let mut guard = log.lock();
            let sec = self.geo.sec_of(guard.segno);
            match self.dev.pointer(sec) {
                None if !found.replay => {}
                Some(p) if p < self.geo.blocks_per_sec() => self.resume_log_at(&mut guard, sec, p)?,
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
                Some((sec, p)) => self.resume_log_at(&mut log, sec, p)?,
                None => self.switch(&mut log, true)?,
            }
        }
        Ok(())
    }

    fn resume_log_at(&self, log: &mut Log, sec: SecNo, pointer: u32) -> Result<()> {
        let inside = sec.0 < self.geo.section_count && pointer < self.geo.blocks_per_sec();
        invariant!(self.health, inside, "a log would continue beyond its zone");
        let segno = SegNo(self.geo.sec_start(sec).0 + pointer / BLOCKS_PER_SEG);
        if segno != log.segno {
            let summary = if self.with_table(|t| t.valid_in_segment(segno)) > 0 {
                *self.summary_of_closed(segno)?
            } else {
                RawSummaryBlock::empty(log.kind.summary_type())
            };
            self.with_table(|t| {
                t.open(segno, log.kind);
                t.retype_section(sec, log.kind);
            });
            self.leave_for(log, segno, summary);
        }
        (log.next, log.ssr) = (pointer % BLOCKS_PER_SEG, false);
        // A canary that is still unwritten stays so.
        let canary = self.with_table(|t| t.is_canary(log.segno, log.next));
        log.next += u32::from(canary);
        Ok(())
    }

    /// Moves a log back to a block that it has left out, if nothing was written after that block: the write
    /// pointer is there.
    pub(super) fn return_to_pointer(&self, log: &mut Log) -> Result<()> {
        let at = log.position(&self.geo);
        let Some(stamp) = self.dev.stamp_before(at) else { return Ok(()) };
        match log.next.checked_sub(1) {
            Some(next) => log.next = next,
            // It is the last one of the segment before.
            None => self.dev.write(BlockAddr(at.0 - 1), &[stamp])?,
        }
        Ok(())
    }

    /// Room left in the logs' sections: a hint. Takes no lock, as every change calls it.
    pub(crate) fn log_room(&self) -> LogRoom {
        let mut left = LogRoom::default();
        for kind in LogType::ALL {
            let (sec, blocks) = self.logs[kind.idx()].place();
            let of_class = if kind.is_node() { &mut left.nodes } else { &mut left.data };
            of_class[kind.idx() % 3] = blocks.into();
            left.without_pointer += u64::from(self.dev.pointer(sec).is_none());
        }
        left
    }

    /// Fills allocated blocks that nothing will be written to with zeros, where sections are written in order.
    pub(crate) fn fill_unwritten(&self, addrs: &[BlockAddr]) -> Result<()> {
        let zero = shared(Block::zeroed());
        let blocks = addrs.iter().filter(|_| self.dev.is_zoned()).map(|&a| (a, zero.clone()));
        self.dev.write_scattered(&mut blocks.collect::<Vec<_>>())
    }

    /// A log enters a free section. Nothing in it is needed, so its zone may be reset only now. With a journal its first block is for
    /// the stamp.
    pub(super) fn enter_section(&self, log: &mut Log) -> Result<()> {
        let sec = self.geo.sec_of(log.segno);
        if !self.dev.is_zoned() || self.geo.sec_start(sec) != log.segno {
            return Ok(());
        }
        let valid = self.with_table(|t| t.valid_in_section(sec));
        invariant!(self.health, valid == 0, "a zone with valid blocks is reset");
        if self.dev.pointer(sec).is_some() && self.dev.stamp().is_some() {
            log.next = 1;
        }
        self.dev.reset_section(sec)
    }

    /// Resets the zones of sections that a checkpoint freed completely; no log has entered them yet.
    pub(crate) fn reset_freed(&self, freed: &[SegNo]) -> Result<u64> {
        let mut resets = 0;
        for run in freed.chunk_by(|a, b| self.geo.sec_of(*a) == self.geo.sec_of(*b)) {
            if let Some(&first) = run.first().filter(|_| run.len() as u32 == self.geo.segs_per_sec) {
                let valid = self.with_table(|t| t.valid_in_section(self.geo.sec_of(first)));
                invariant!(self.health, valid == 0, "a freed zone has valid blocks");
                self.dev.reset_section(self.geo.sec_of(first))?;
                resets += run.len() as u64;
            }
        }
        Ok(resets)
    }

    /// Resets or finishes partly written zones in which no log continues, as the number of active zones is limited.
    pub(crate) fn close_idle_zones(&self) -> Result<()> {
        let current: BTreeSet<SecNo> = self.log_states().iter().map(|l| self.geo.sec_of(l.segno)).collect();
        let without_log: Vec<(SecNo, u32)> =
            self.dev.pointers().filter(|(sec, _)| !current.contains(sec)).collect();
        for (sec, pointer) in without_log {
            if self.with_table(|t| t.is_free_section(sec)) {
                self.dev.reset_section(sec)?;
            } else if pointer > 0 && pointer < self.geo.blocks_per_sec() {
                self.dev.finish_section(sec)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::error::Error;
    use crate::health::{Health, test_health};
    use crate::meta::{Device, test_geometry};
    use crate::options::AllocMode;
    use crate::space::Loaded;
    use segno_device::MemDevice;
    use segno_format::checkpoint::RawCheckpoint;
    use segno_format::summary::{JOURNAL_BYTES, Journal};
    use std::sync::Arc;
    use zerocopy::FromZeros;

    /// An empty volume, with a log in each of the first segments.
    fn space() -> (Space, Arc<Health>) {
        let (geo, health) = (test_geometry(), test_health());
        let dev = Arc::new(Device::new(Arc::new(MemDevice::new(25_600)), geo));
        let logs = LogType::ALL.map(|kind| {
            let summary = Box::new(RawSummaryBlock::empty(kind.summary_type()));
            Log { kind, segno: SegNo(kind.idx() as u32), next: 0, ssr: false, summary, fsyncs: 0 }
        });
        let pack = Loaded {
            cp: &RawCheckpoint::new_zeroed(),
            bitmap: vec![0; geo.sit_bitmap_bytes()],
            journal: &Journal::decode(&[0; JOURNAL_BYTES]),
            logs,
            ro_image: false,
        };
        let clock = Arc::new(SystemClock);
        (Space::load(geo, dev, health.clone(), AllocMode::default(), clock, pack).unwrap(), health)
    }

    #[test]
    fn a_log_continues_inside_its_zone_only() {
        let geo = test_geometry();
        let places = [
            (3, geo.blocks_per_sec() - 1, true),
            (3, geo.blocks_per_sec(), false),
            (geo.section_count, 0, false),
        ];
        for (sec, pointer, inside) in places {
            let (space, health) = space();
            let [log, ..] = &space.logs;
            // The first log, at the place of the fourth.
            space.with_table(|t| t.close(geo.sec_start(SecNo(3))));
            let resumed = space.resume_log_at(&mut log.lock(), SecNo(sec), pointer);
            let why = "a log would continue beyond its zone";
            match resumed {
                Ok(()) => assert!(inside),
                Err(Error::Invariant(found)) => assert!(!inside && found == why, "{found}"),
                Err(e) => panic!("{e}"),
            }
            assert_eq!(health.is_stopped(), !inside);
        }
    }
}
