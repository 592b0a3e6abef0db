//! A device in front of another one: reads fall through, writes stay in memory.
use parking_lot::{Mutex, RwLock};
use segno_check::CheckError;
use segno_device::{BlockDevice, Zone, ZoneCondition, ZoneKind, ZoneLimits, check_bounds};
use segno_format::{BLOCK_SIZE, Block};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Lets a caller change a volume, or mount it, without a write to the device.
///
/// Blocks behind the end of the device cannot be written. Zones keep their rules: a sequential one is written at its pointer.
/// Memory: 4 KiB for each block written.
pub struct Overlay {
    base: Arc<dyn BlockDevice>,
    written: RwLock<BTreeMap<u64, Arc<[u8; BLOCK_SIZE]>>>,
    /// Zones as they are after the writes, once one was looked at.
    zones: Mutex<Option<Vec<Zone>>>,
    /// The last read that failed.
    failed: Mutex<Option<CheckError>>,
}

impl Overlay {
    /// An overlay without writes.
    #[must_use]
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self { base, written: RwLock::default(), zones: Mutex::default(), failed: Mutex::default() }
    }

    /// Addresses of the blocks that were written, ascending.
    #[must_use]
    pub fn written(&self) -> Vec<u64> {
        self.written.read().keys().copied().collect()
    }

    /// The last read that the device did not carry out.
    pub(crate) fn take_failed(&self) -> Option<CheckError> {
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
        *self.failed.lock() = Some(CheckError::Io { addr, count, source });
    }
}

impl BlockDevice for Overlay {
    fn block_count(&self) -> u64 {
        self.base.block_count()
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        // An address that cannot be is no failure of the device.
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
        let mut written = self.written.write();
        written.extend((addr..).zip(blocks.iter().map(|b| Arc::new(b.0))));
        Ok(())
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.write(addr, blocks)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// Contents of discarded blocks may be anything, so they stay.
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        check_bounds(self.block_count(), addr, count)
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

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;
    use segno_testkit::blocks::{read, write};
    use segno_testkit::{ZoneShape, ZonedDevice};

    #[test]
    fn writes_stay_in_memory() {
        let base = Arc::new(MemDevice::new(8));
        write(&*base, 0, &[1, 2, 3, 4]);
        let overlay = Overlay::new(base.clone());
        write(&overlay, 1, &[9, 8]);
        overlay.discard(0, 1).unwrap();
        assert_eq!(read(&overlay, 0, 5), [1, 9, 8, 4, 0]);
        assert_eq!(read(&*base, 0, 5), [1, 2, 3, 4, 0]);
        assert_eq!(overlay.written(), [1, 2]);
        assert_eq!(overlay.write(8, &[&Block::zeroed()]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    /// A replay in memory goes by the pointers, as it would on the device, which stays as it is.
    #[test]
    fn zones_are_written_in_order() {
        let shape =
            ZoneShape { zones: 3, conventional: 1, blocks: 8, capacity: 6, limits: ZoneLimits::default() };
        let base = Arc::new(ZonedDevice::new(shape));
        write(&*base, 8, &[1, 2]);
        let overlay = Overlay::new(base.clone());
        write(&overlay, 3, &[7]);
        write(&overlay, 10, &[3]);
        let refused = overlay.write(12, &[&Block::zeroed()]).unwrap_err();
        assert!(refused.to_string().contains("not at the pointer 11"), "{refused}");
        overlay.reset_zone(8).unwrap();
        write(&overlay, 8, &[9]);
        overlay.finish_zone(16).unwrap();
        let pointers = |d: &dyn BlockDevice| d.zones().unwrap().iter().map(|z| z.pointer).collect::<Vec<_>>();
        assert_eq!((pointers(&overlay), pointers(&*base)), (vec![0, 9, 24], vec![0, 10, 16]));
        assert_eq!(read(&*base, 8, 2), [1, 2]);
    }
}
