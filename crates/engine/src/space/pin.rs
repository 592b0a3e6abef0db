//! The tables with their lock, and segment pins.
use super::table::Table;
use crate::health::Health;
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicU64, Ordering};
use segno_format::SegNo;
use std::sync::Arc;

/// The tables, shared by [`Space`](super::Space) and pins.
pub struct Tables {
    table: Mutex<Table, { rank::SEGMENT }>,
    /// Free sections, readable without the lock: a hint. A log opens a section with the lock held.
    free_sections: AtomicU64,
    pub(super) health: Arc<Health>,
}

/// Keeps segments from being opened by a log and from being cleaned, until dropped.
#[must_use]
pub struct SegmentPin {
    tables: Arc<Tables>,
    segs: Vec<SegNo>,
}

impl Tables {
    pub fn new(table: Table, health: Arc<Health>) -> Self {
        let free = table.free_sections();
        Self { table: Mutex::new(table), free_sections: AtomicU64::new(free), health }
    }

    pub fn free_sections(&self) -> u64 {
        self.free_sections.load(Ordering::Relaxed)
    }

    pub fn with<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.table.lock();
        let r = f(&mut table);
        self.free_sections.store(table.free_sections(), Ordering::Relaxed);
        r
    }

    /// Pins the segments that `choose` returns, under the same hold of the lock.
    pub fn pin<R>(self: &Arc<Self>, choose: impl FnOnce(&mut Table) -> (R, Vec<SegNo>)) -> (R, SegmentPin) {
        let (chosen, segs) = self.with(|t| {
            let (chosen, segs) = choose(t);
            segs.iter().for_each(|&seg| t.pin(seg));
            (chosen, segs)
        });
        (chosen, SegmentPin { tables: self.clone(), segs })
    }
}

impl SegmentPin {
    pub fn segments(&self) -> &[SegNo] {
        &self.segs
    }

    /// Unpins segments with blocks that are valid, held or being written. The others are free once the pin is
    /// dropped.
    pub fn retain_free(&mut self) {
        let Self { tables, segs } = self;
        let held = tables.with(|t| {
            let held = segs.iter().all(|&seg| t.unpin(seg));
            segs.retain(|&seg| t.is_free(seg));
            segs.iter().for_each(|&seg| t.pin(seg));
            held
        });
        self.check(held);
    }

    fn check(&self, held: bool) {
        if !held {
            // The volume has stopped: every later change fails.
            let _stopped = self.tables.health.broken("a pinned segment has no pin");
        }
    }
}

impl Drop for SegmentPin {
    fn drop(&mut self) {
        let held = self.tables.with(|t| self.segs.iter().all(|&seg| t.unpin(seg)));
        self.check(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::test_health;
    use crate::meta::test_geometry;

    fn tables() -> (Arc<Tables>, Arc<Health>) {
        let health = test_health();
        let table = Table::new(&test_geometry(), health.clone());
        (Arc::new(Tables::new(table, health.clone())), health)
    }

    #[test]
    fn a_segment_is_free_once_its_last_pin_is_dropped() {
        let (tables, health) = tables();
        let pin = || tables.pin(|_| ((), vec![SegNo(3)])).1;
        let (first, second) = (pin(), pin());
        drop(first);
        assert!(!tables.with(|t| t.is_free(SegNo(3))));
        drop(second);
        assert!(tables.with(|t| t.is_free(SegNo(3))) && !health.is_stopped());
    }

    #[test]
    fn unpinning_too_often_stops_the_volume() {
        let (tables, health) = tables();
        let pin = tables.pin(|_| ((), vec![SegNo(3)])).1;
        assert!(tables.with(|t| t.unpin(SegNo(3))));
        drop(pin);
        assert!(health.is_stopped());
    }
}
