//! The zones of the main area. Each section is one; a section of a sequential zone must be written in order.
use crate::error::{Error, Result};
use segno_device::{BlockDevice, Operation, ZoneKind};
use segno_format::{BlockAddr, Geometry, SecNo};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of logs that write concurrently.
const LOGS: u32 = 6;
/// Used as a write pointer for a section without one.
const ANYWHERE: u32 = u32::MAX;

/// Write pointer of each section, as an offset in blocks.
pub struct Zones {
    pointers: Vec<AtomicU32>,
    pub per_sec: u32,
    first: BlockAddr,
}

impl Zones {
    /// Reads the zones of the device. A volume copied to a device without zones has no write pointers.
    pub fn load(dev: &dyn BlockDevice, geo: &Geometry) -> Result<Self> {
        let io = |source| Error::Io { op: Operation::ReadZones, at: 0, source };
        let per_sec = geo.blocks_per_sec();
        let zones = Self {
            pointers: geo.sections().map(|_| AtomicU32::new(ANYWHERE)).collect(),
            per_sec,
            first: BlockAddr(geo.main_blkaddr),
        };
        for z in dev.zones().map_err(io)?.iter().filter(|z| z.kind == ZoneKind::Sequential) {
            if z.start >= u64::from(geo.main_end()) {
                continue;
            }
            if z.capacity != z.blocks {
                return Err(unfit("zones with a capacity below their size"));
            }
            let into = z.start.checked_sub(zones.first.0.into()).filter(|n| n.is_multiple_of(per_sec.into()));
            let sec = into.map(|n| n / u64::from(per_sec)).filter(|_| z.blocks == u64::from(per_sec));
            let Some(pointer) = sec.and_then(|s| zones.pointers.get(s as usize)) else {
                return Err(unfit("zones that are not its sections"));
            };
            pointer.store(z.pointer.saturating_sub(z.start).min(per_sec.into()) as u32, Ordering::Relaxed);
        }
        let limits = dev.zone_limits();
        if [limits.open, limits.active].iter().any(|&n| n > 0 && n < LOGS) {
            return Err(unfit("fewer than six open zones"));
        }
        Ok(zones)
    }

    fn cell(&self, sec: SecNo) -> Option<&AtomicU32> {
        self.pointers.get(sec.idx()).filter(|p| p.load(Ordering::Relaxed) != ANYWHERE)
    }
    /// Write pointer of a section; `None` if it may be written in any order.
    pub fn pointer(&self, sec: SecNo) -> Option<u32> {
        self.cell(sec).map(|p| p.load(Ordering::Relaxed))
    }
    pub fn section_of(&self, addr: BlockAddr) -> Option<SecNo> {
        addr.0.checked_sub(self.first.0)?.checked_div(self.per_sec).map(SecNo)
    }
    pub fn start_of(&self, sec: SecNo) -> u64 {
        u64::from(self.first.0) + u64::from(sec.0) * u64::from(self.per_sec)
    }
    /// Order in which to write blocks of several sections: open zones first, then empty zones that the write
    /// fills, then other empty zones.
    pub fn write_order(&self, addr: BlockAddr, blocks: usize) -> u8 {
        match self.section_of(addr).and_then(|sec| self.pointer(sec)) {
            Some(0) if blocks < self.per_sec as usize => 2,
            Some(0) => 1,
            _ => 0,
        }
    }
    /// Advances the write pointer.
    pub fn wrote(&self, addr: BlockAddr, blocks: u32) {
        let Some(sec) = self.section_of(addr) else { return };
        if let Some(p) = self.cell(sec) {
            p.store(((addr.0 - self.first.0) % self.per_sec) + blocks, Ordering::Relaxed);
        }
    }
    pub fn set(&self, sec: SecNo, pointer: u32) {
        if let Some(p) = self.cell(sec) {
            p.store(pointer, Ordering::Relaxed);
        }
    }
    pub fn sections(&self) -> impl Iterator<Item = SecNo> + use<> {
        (0..self.pointers.len() as u32).map(SecNo)
    }
}

fn unfit(what: &'static str) -> Error {
    Error::Incompatible(what.to_owned(), "use")
}
