//! A zoned device on top of another one, so that recording, cutting and failing devices work for it as well.
//!
//! The device underneath stores only bytes. A block of a sequential zone is stored scrambled, so that no
//! written block is all zeros: a zone is written up to its first block of zeros. A mark after the last
//! written block means that the zone was finished. After a power cut, a zone ends before the first block that
//! did not arrive.
use segno_device::{BlockDevice, MemDevice, Zone, ZoneCondition, ZoneKind};
use segno_format::{BLOCK_SIZE, Block};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Blocks of a zone: one segment.
pub(crate) const ZONE: u64 = 512;
/// Zones of a volume without write pointer, at its start: the superblocks and all metadata are there.
pub(crate) const CONVENTIONAL: u64 = 9;
/// Atomic write unit of a drive.
const SECTOR: usize = 512;
const PAD: u8 = 0xA6;
/// The mark of a finished zone, which no scrambled block equals.
const FINISHED: [u8; BLOCK_SIZE] = [0x39; BLOCK_SIZE];

/// The device.
pub struct ZoneLayer {
    inner: Arc<dyn BlockDevice>,
    /// Number of zones that have no write pointer, at the start.
    conventional: u64,
    /// The sequential zones.
    states: Vec<Mutex<State>>,
}

#[derive(Clone, Copy)]
struct State {
    /// Blocks that are written.
    written: u64,
    finished: bool,
}

impl State {
    /// Where the write pointer is.
    fn pointer(self) -> u64 {
        if self.finished { ZONE } else { self.written }
    }

    /// Blocks underneath that hold anything.
    fn held(self) -> u64 {
        self.written + u64::from(self.finished)
    }

    fn condition(self) -> ZoneCondition {
        match self.pointer() {
            0 => ZoneCondition::Empty,
            ZONE.. => ZoneCondition::Full,
            _ => ZoneCondition::Closed,
        }
    }
}

impl ZoneLayer {
    /// Opens an existing device whose first zones are conventional.
    pub fn open(inner: Arc<dyn BlockDevice>, conventional: u64) -> io::Result<Self> {
        let starts = sequential(&*inner, conventional);
        let states =
            starts.map(|start| Ok(Mutex::new(state(&*inner, start, 0)?))).collect::<io::Result<_>>()?;
        Ok(Self { inner, conventional, states })
    }

    /// Cuts each of these sequential zones before the first block that is missing or incomplete.
    pub fn settle(device: &MemDevice, zones: Range<u64>) -> io::Result<()> {
        for start in zones.step_by(ZONE as usize) {
            let held = state(device, start, 0)?.held();
            device.discard(start + held, ZONE - held)?;
        }
        Ok(())
    }

    /// Start and state of the zone that contains a block; `None` for a zone without write pointer.
    fn zone_of(&self, addr: u64) -> Option<(u64, MutexGuard<'_, State>)> {
        let zone = (addr / ZONE).checked_sub(self.conventional)?;
        let state = self.states.get(zone as usize)?;
        Some((addr / ZONE * ZONE, state.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn append(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        let Some((start, mut zone)) = self.zone_of(addr) else {
            return self.inner.write(addr, blocks);
        };
        let (count, pointer) = (blocks.len() as u64, start + zone.pointer());
        if addr != pointer || pointer + count > start + ZONE {
            return Err(io::Error::other(format!(
                "{count} blocks at {addr}, but the zone goes on at {pointer}"
            )));
        }
        let scrambled: Vec<Block> = blocks.iter().map(|b| scramble(b)).collect();
        let done = self.inner.write(addr, &scrambled.iter().collect::<Vec<_>>());
        match done {
            Ok(()) => zone.written += count,
            // It may have been done in part.
            Err(_) => *zone = state(&*self.inner, start, zone.written)?,
        }
        done
    }
}

/// Starts of the zones that have a pointer.
fn sequential(device: &dyn BlockDevice, conventional: u64) -> impl Iterator<Item = u64> + use<> {
    (conventional..device.block_count() / ZONE).map(|zone| zone * ZONE)
}

/// The written part of a zone, of which the first `known` blocks are known to be written.
fn state(device: &dyn BlockDevice, start: u64, known: u64) -> io::Result<State> {
    let mut block = [Block::zeroed()];
    for written in known..ZONE {
        device.read(start + written, &mut block)?;
        let [Block(bytes)] = &block;
        let finished = *bytes == FINISHED;
        if finished || bytes.chunks(SECTOR).any(|sector| sector.iter().all(|&b| b == 0)) {
            return Ok(State { written, finished });
        }
    }
    Ok(State { written: ZONE, finished: false })
}

/// A block as it is stored underneath.
pub fn scramble(block: &Block) -> Block {
    let mut scrambled = Block::zeroed();
    for (to, from) in scrambled.0.iter_mut().zip(&block.0) {
        *to = from ^ PAD;
    }
    scrambled
}

impl BlockDevice for ZoneLayer {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)?;
        for (at, block) in (addr..).zip(into) {
            if let Some((start, zone)) = self.zone_of(at) {
                *block = if at < start + zone.written { scramble(block) } else { Block::zeroed() };
            }
        }
        Ok(())
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.append(addr, blocks)
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        if self.zone_of(addr).is_none() {
            return self.inner.write_fua(addr, blocks);
        }
        // Durable together with all preceding blocks of its zone.
        self.append(addr, blocks)?;
        self.inner.flush()
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }

    /// Resets the zones inside the range.
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        let inside = |&start: &u64| start >= addr && start + ZONE <= addr + count;
        sequential(&*self.inner, self.conventional)
            .filter(inside)
            .try_for_each(|start| self.reset_zone(start))
    }

    fn read_only(&self) -> bool {
        self.inner.read_only()
    }

    fn zones(&self) -> io::Result<Vec<Zone>> {
        let zone = |number: u64| {
            let start = number * ZONE;
            let (kind, condition, pointer) = match self.zone_of(start) {
                None => (ZoneKind::Conventional, ZoneCondition::NoPointer, start),
                Some((_, zone)) => (ZoneKind::Sequential, zone.condition(), start + zone.pointer()),
            };
            Zone { start, blocks: ZONE, capacity: ZONE, pointer, kind, condition }
        };
        Ok((0..self.block_count() / ZONE).map(zone).collect())
    }

    /// A reset is durable at once.
    fn reset_zone(&self, start: u64) -> io::Result<()> {
        let Some((_, mut zone)) = self.zone_of(start) else {
            return Err(io::Error::other(format!("no zone to reset at {start}")));
        };
        let zeros = Block::zeroed();
        if zone.held() > 0 {
            self.inner.write_fua(start, &vec![&zeros; zone.held() as usize])?;
        }
        *zone = State { written: 0, finished: false };
        Ok(())
    }

    fn finish_zone(&self, start: u64) -> io::Result<()> {
        let Some((start, mut zone)) = self.zone_of(start) else {
            return Err(io::Error::other(format!("no zone to finish at {start}")));
        };
        if zone.pointer() < ZONE {
            self.inner.write(start + zone.written, &[&Block(FINISHED)])?;
            zone.finished = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = CONVENTIONAL * ZONE;

    fn device(mem: &Arc<MemDevice>) -> ZoneLayer {
        ZoneLayer::open(mem.clone(), CONVENTIONAL).unwrap()
    }

    fn filled(byte: u8) -> Block {
        Block([byte; BLOCK_SIZE])
    }

    #[test]
    fn a_zone_is_written_in_order_and_reset_whole() {
        let mem = Arc::new(MemDevice::new(12 * ZONE));
        let zoned = device(&mem);
        zoned.write(START, &[&filled(0), &filled(7)]).unwrap();
        assert!(zoned.write(START + 3, &[&filled(1)]).is_err() && zoned.write(START, &[&filled(1)]).is_err());
        zoned.write(5, &[&filled(3)]).unwrap();
        let again = device(&mem);
        let mut back = [Block::zeroed(), Block::zeroed(), filled(9)];
        again.read(START, &mut back).unwrap();
        assert_eq!(back.map(|b| b.0[0]), [0, 7, 0]);
        assert_eq!(again.zones().unwrap()[CONVENTIONAL as usize].pointer, START + 2);
        again.discard(START, ZONE).unwrap();
        again.write(START, &[&filled(4)]).unwrap();
        again.finish_zone(START).unwrap();
        assert!(again.write(START + 1, &[&filled(1)]).is_err());
        assert_eq!(device(&mem).zones().unwrap()[CONVENTIONAL as usize].condition, ZoneCondition::Full);
    }

    #[test]
    fn what_arrived_behind_a_gap_is_gone_after_a_cut() {
        let mem = Arc::new(MemDevice::new(12 * ZONE));
        device(&mem).write(START, &[&filled(1), &filled(2), &filled(3), &filled(4)]).unwrap();
        let mut torn = [Block::zeroed()];
        mem.read(START + 2, &mut torn).unwrap();
        torn[0].0[3 * SECTOR..].fill(0);
        mem.write(START + 2, &[&torn[0]]).unwrap();
        ZoneLayer::settle(&mem, START..mem.block_count()).unwrap();
        let pointer = |mem: &Arc<MemDevice>| device(mem).zones().unwrap()[CONVENTIONAL as usize].pointer;
        assert_eq!(pointer(&mem), START + 2);
        device(&mem).write(START + 2, &[&filled(5)]).unwrap();
        assert_eq!(pointer(&mem), START + 3, "the block behind the torn one does not come back");
    }
}
