//! A device in front of another one: reads fall through, writes stay in memory.
use crate::{BlockDevice, Zone, ZoneCondition, ZoneKind, ZoneLimits, check_bounds};
use parking_lot::{Mutex, RwLock};
use segno_format::{BLOCK_SIZE, Block};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lets a caller change a volume, or mount it, without a write to the device.
///
/// Blocks after the end of the device cannot be written. Zones keep their rules: a sequential one is written
/// at its pointer. Memory: 4 KiB for each block written, up to a limit.
pub struct Overlay {
    base: Arc<dyn BlockDevice>,
    written: RwLock<BTreeMap<u64, Arc<[u8; BLOCK_SIZE]>>>,
    /// Zones as they are after the writes, once one was looked at.
    zones: Mutex<Option<Vec<Zone>>>,
    /// The last read that failed.
    failed: Mutex<Option<FailedRead>>,
    /// Blocks that may be written.
    limit: u64,
    exhausted: AtomicBool,
}

/// A read that the device under an [`Overlay`] did not carry out.
#[derive(Debug)]
pub struct FailedRead {
    /// First block.
    pub addr: u64,
    /// Number of blocks.
    pub count: usize,
    /// The device's error.
    pub source: io::Error,
}

impl Overlay {
    /// An overlay without writes, and without a limit.
    #[must_use]
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self::with_limit(base, u64::MAX)
    }

    /// An overlay that keeps up to `limit` blocks. A write beyond it fails with
    /// [`io::ErrorKind::OutOfMemory`] and changes nothing.
    #[must_use]
    pub fn with_limit(base: Arc<dyn BlockDevice>, limit: u64) -> Self {
        Self {
            base,
            written: RwLock::default(),
            zones: Mutex::default(),
            failed: Mutex::default(),
            limit,
            exhausted: AtomicBool::new(false),
        }
    }

    /// Whether a write was refused because of the limit.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Acquire)
    }

    /// Addresses of the blocks that were written, ascending.
    #[must_use]
    pub fn written(&self) -> Vec<u64> {
        self.written.read().keys().copied().collect()
    }

    /// The last read that the device did not carry out.
    #[must_use]
    pub fn take_failed(&self) -> Option<FailedRead> {
        self.failed.lock().take()
    }

    /// Calls `change` with the zone of a block, if it has a pointer.
    fn in_zone(&self, addr: u64, change: impl FnOnce(&mut Zone) -> io::Result<()>) -> io::Result<()> {
        let mut zones = self.zones.lock();
        let zones = match &mut *zones {
            Some(zones) => zones,
            none => none.insert(self.base.zones()?),
        };
        let at = zones.partition_point(|z| z.start <= addr).checked_sub(1);
        let zone = at.and_then(|i| zones.get_mut(i)).filter(|z| z.kind == ZoneKind::Sequential);
        zone.map_or(Ok(()), change)
    }

    fn note(&self, addr: u64, count: usize, e: &io::Error) {
        let source = e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error);
        *self.failed.lock() = Some(FailedRead { addr, count, source });
    }

    /// Refuses a write that would need more blocks than the limit.
    fn check_limit(
        &self,
        written: &BTreeMap<u64, Arc<[u8; BLOCK_SIZE]>>,
        addr: u64,
        count: u64,
    ) -> io::Result<()> {
        let known = written.range(addr..addr.saturating_add(count)).count() as u64;
        let needed = (written.len() as u64).saturating_add(count).saturating_sub(known);
        if needed <= self.limit {
            return Ok(());
        }
        self.exhausted.store(true, Ordering::Release);
        let text = format!("more than {} blocks would be kept in memory", self.limit);
        Err(io::Error::new(io::ErrorKind::OutOfMemory, text))
    }
}

impl BlockDevice for Overlay {
    fn block_count(&self) -> u64 {
        self.base.block_count()
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        // An invalid address is not a failure of the device.
        check_bounds(self.block_count(), addr, into.len() as u64)?;
        self.base.read(addr, into).inspect_err(|e| self.note(addr, into.len(), e))?;
        let written = self.written.read();
        let end = addr.saturating_add(into.len() as u64);
        for (&at, bytes) in written.range(addr..end) {
            if let Some(block) = into.get_mut((at - addr) as usize) {
                block.0 = **bytes;
            }
        }
        Ok(())
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        let count = blocks.len() as u64;
        check_bounds(self.block_count(), addr, count)?;
        let mut written = self.written.write();
        self.check_limit(&written, addr, count)?;
        self.in_zone(addr, |zone| {
            let end = addr.saturating_add(count);
            if addr != zone.pointer || end > zone.start.saturating_add(zone.capacity) {
                let text = format!("block {addr} is not at the pointer {} of its zone", zone.pointer);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            zone.pointer = end;
            let full = end == zone.start.saturating_add(zone.capacity);
            zone.condition = if full { ZoneCondition::Full } else { ZoneCondition::ImplicitOpen };
            Ok(())
        })?;
        written.extend((addr..).zip(blocks.iter().map(|b| Arc::new(b.0))));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// Contents of discarded blocks may be anything, so they stay.
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        check_bounds(self.block_count(), addr, count)
    }

    fn prefetch(&self, addr: u64, count: u64) {
        self.base.prefetch(addr, count);
    }

    fn next_data(&self, addr: u64) -> u64 {
        let below = self.base.next_data(addr);
        self.written.read().range(addr..).next().map_or(below, |(&at, _)| at.min(below))
    }

    fn repeats_until(&self, addr: u64) -> u64 {
        let next = addr.saturating_add(1);
        let written = self.written.read();
        let below = if written.contains_key(&addr) { next } else { self.base.repeats_until(addr) };
        written.range(next..).next().map_or(below, |(&at, _)| at.min(below))
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.base.counters()
    }

    fn read_only(&self) -> bool {
        false
    }

    fn zones(&self) -> io::Result<Vec<Zone>> {
        self.zones.lock().clone().map_or_else(|| self.base.zones(), Ok)
    }

    fn zone_limits(&self) -> ZoneLimits {
        self.base.zone_limits()
    }

    fn reset_zone(&self, start: u64) -> io::Result<()> {
        self.in_zone(start, |zone| {
            (zone.pointer, zone.condition) = (zone.start, ZoneCondition::Empty);
            Ok(())
        })
    }

    fn finish_zone(&self, start: u64) -> io::Result<()> {
        self.in_zone(start, |zone| {
            (zone.pointer, zone.condition) = (zone.start.saturating_add(zone.blocks), ZoneCondition::Full);
            Ok(())
        })
    }
}
