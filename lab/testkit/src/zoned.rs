//! A zoned device in memory that enforces the rules of real ones and counts violations.
use parking_lot::Mutex;
use segno_device::{BlockDevice, MemDevice, Snapshot, check_bounds};
use segno_device::{Zone, ZoneCondition, ZoneKind, ZoneLimits};
use segno_format::{BLOCK_SIZE, Block};
use std::io;

/// Contents of unwritten blocks, as in Linux's null_blk.
const UNWRITTEN: Block = Block([0xFF; BLOCK_SIZE]);

/// The shape of a [`ZonedDevice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneShape {
    /// Zones in all; the first `conventional` of them have no write pointer.
    pub zones: u32,
    pub conventional: u32,
    pub blocks: u64,
    /// Blocks of a zone that can be written.
    pub capacity: u64,
    pub limits: ZoneLimits,
}

/// Counts since the device was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCounts {
    pub blocks_written: u64,
    pub resets: u64,
    pub finishes: u64,
    /// Refused commands that broke a rule.
    pub violations: u64,
}

/// The device.
#[derive(Debug)]
pub struct ZonedDevice {
    shape: ZoneShape,
    inner: MemDevice,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    zones: Vec<Zone>,
    /// The state that survives any power cut: the write pointer that the last flush covered, and whether the
    /// zone was reset since.
    durable: Vec<Durable>,
    /// Implicitly opened zones, oldest first.
    opened: Vec<usize>,
    counts: ZoneCounts,
    /// Commands left until the power cut; later ones fail without effect.
    commands_left: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Durable {
    pointer: u64,
    reset_since: bool,
}

impl ZonedDevice {
    /// All zones empty.
    #[must_use]
    pub fn new(shape: ZoneShape) -> Self {
        let zone = |i: u32| {
            let start = u64::from(i) * shape.blocks;
            let (kind, condition) = if i < shape.conventional {
                (ZoneKind::Conventional, ZoneCondition::NoPointer)
            } else {
                (ZoneKind::Sequential, ZoneCondition::Empty)
            };
            let capacity = if kind == ZoneKind::Sequential { shape.capacity } else { shape.blocks };
            Zone { start, blocks: shape.blocks, capacity, pointer: start, kind, condition }
        };
        let zones: Vec<Zone> = (0..shape.zones).map(zone).collect();
        let durable = zones.iter().map(|z| Durable { pointer: z.pointer, reset_since: false }).collect();
        let state =
            State { zones, durable, opened: Vec::new(), counts: ZoneCounts::default(), commands_left: None };
        let inner = MemDevice::new(u64::from(shape.zones) * shape.blocks);
        Self { shape, inner, state: Mutex::new(state) }
    }

    #[must_use]
    pub fn counts(&self) -> ZoneCounts {
        self.state.lock().counts
    }

    /// Cuts power after `commands` more writes, resets and finishes.
    pub fn cut_after(&self, commands: u64) {
        self.state.lock().commands_left = Some(commands);
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.state.lock().commands_left == Some(0)
    }

    /// The device after a power cut now. Each zone keeps what was flushed, and of the blocks after that the first `keep(blocks)`.
    #[must_use]
    pub fn after_cut(&self, mut keep: impl FnMut(u64) -> u64) -> Self {
        let mut state = self.state.lock().clone();
        let inner = MemDevice::from_snapshot(&self.inner.snapshot());
        for (zone, durable) in state.zones.iter_mut().zip(&state.durable) {
            if zone.kind == ZoneKind::Conventional {
                continue;
            }
            // Old contents never reappear here: a reset is taken as durable at once.
            let safe = if durable.reset_since { zone.start } else { durable.pointer };
            let written = zone.pointer.min(zone.start + zone.capacity);
            let kept = safe + keep(written.saturating_sub(safe)).min(written.saturating_sub(safe));
            if zone.condition != ZoneCondition::Full || kept < written {
                zone.pointer = kept;
                zone.condition = resting(zone);
            }
        }
        state.durable =
            state.zones.iter().map(|z| Durable { pointer: z.pointer, reset_since: false }).collect();
        state.opened.clear();
        state.commands_left = None;
        Self { shape: self.shape, inner, state: Mutex::new(state) }
    }

    /// The contents, without the rules of zones.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }

    /// Makes a zone read-only or offline, as wear does.
    pub fn set_condition(&self, zone: usize, condition: ZoneCondition) {
        if let Some(z) = self.state.lock().zones.get_mut(zone) {
            z.condition = condition;
        }
    }

    fn index(&self, addr: u64) -> usize {
        (addr / self.shape.blocks.max(1)) as usize
    }

    fn command<R>(&self, f: impl FnOnce(&mut State) -> io::Result<R>) -> io::Result<R> {
        let mut state = self.state.lock();
        match &mut state.commands_left {
            Some(0) => return Err(io::Error::other("the power is off")),
            Some(left) => *left -= 1,
            None => {}
        }
        let done = f(&mut state);
        if done.is_err() {
            state.counts.violations += 1;
        }
        done
    }

    fn zone_at<'a>(&self, state: &'a mut State, addr: u64) -> io::Result<(usize, &'a mut Zone)> {
        let i = self.index(addr);
        match state.zones.get_mut(i) {
            Some(z) if z.kind == ZoneKind::Sequential && z.start == addr => Ok((i, z)),
            _ => Err(refused(format!("no sequential zone starts at block {addr}"))),
        }
    }
}

fn is_open(zone: &Zone) -> bool {
    matches!(zone.condition, ZoneCondition::ImplicitOpen | ZoneCondition::ExplicitOpen)
}

fn is_active(zone: &Zone) -> bool {
    is_open(zone) || zone.condition == ZoneCondition::Closed
}

/// The condition of a zone that is not open.
fn resting(zone: &Zone) -> ZoneCondition {
    match zone.pointer - zone.start {
        0 => ZoneCondition::Empty,
        n if n >= zone.capacity => ZoneCondition::Full,
        _ => ZoneCondition::Closed,
    }
}

impl State {
    /// Opens a zone for a write; closes the oldest implicitly opened one if the limit is reached.
    fn open(&mut self, i: usize, limits: ZoneLimits) -> io::Result<()> {
        let Some(zone) = self.zones.get(i).copied() else { return Err(refused("no such zone".into())) };
        if is_open(&zone) {
            return Ok(());
        }
        let count = |f: fn(&Zone) -> bool| self.zones.iter().filter(|z| f(z)).count() as u32;
        if limits.active > 0 && !is_active(&zone) && count(is_active) >= limits.active {
            return Err(refused(format!("more than {} active zones", limits.active)));
        }
        if limits.open > 0 && count(is_open) >= limits.open {
            if self.opened.is_empty() {
                return Err(refused(format!("more than {} open zones", limits.open)));
            }
            let oldest = self.opened.remove(0);
            if let Some(z) = self.zones.get_mut(oldest) {
                z.condition = resting(z);
            }
        }
        if let Some(z) = self.zones.get_mut(i) {
            z.condition = ZoneCondition::ImplicitOpen;
        }
        self.opened.push(i);
        Ok(())
    }

    fn write(&mut self, i: usize, addr: u64, count: u64, limits: ZoneLimits) -> io::Result<()> {
        let Some(zone) = self.zones.get(i).copied() else { return Err(refused("no such zone".into())) };
        let bad = |why: &str| {
            let pointer = zone.pointer;
            Err(refused(format!(
                "write of {count} blocks at {addr}: {why} (zone at {}, pointer {pointer})",
                zone.start
            )))
        };
        match zone.condition {
            ZoneCondition::ReadOnly | ZoneCondition::Offline => return bad("the zone cannot be written"),
            ZoneCondition::Full => return bad("the zone is full"),
            _ if addr != zone.pointer => return bad("not at the write pointer"),
            _ if addr + count > zone.start + zone.capacity => return bad("beyond the zone's capacity"),
            _ => {}
        }
        self.open(i, limits)?;
        if let Some(z) = self.zones.get_mut(i) {
            z.pointer += count;
            if z.pointer == z.start + z.capacity {
                z.condition = ZoneCondition::Full;
                self.opened.retain(|&o| o != i);
            }
        }
        Ok(())
    }
}

fn refused(why: String) -> io::Error {
    io::Error::other(why)
}

impl BlockDevice for ZonedDevice {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }

    /// Blocks after a write pointer are undefined.
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)?;
        let state = self.state.lock();
        for (at, block) in (addr..).zip(into) {
            match state.zones.get(self.index(at)) {
                Some(z) if z.condition == ZoneCondition::Offline => {
                    return Err(refused("the zone is offline".into()));
                }
                Some(z) if z.kind == ZoneKind::Sequential && at >= z.pointer => *block = UNWRITTEN,
                _ => {}
            }
        }
        Ok(())
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        check_bounds(self.block_count(), addr, blocks.len() as u64)?;
        let count = blocks.len() as u64;
        self.command(|state| {
            let i = self.index(addr);
            let sequential = state.zones.get(i).is_some_and(|z| z.kind == ZoneKind::Sequential);
            if sequential {
                state.write(i, addr, count, self.shape.limits)?;
            } else if state
                .zones
                .get(self.index(addr + count.max(1) - 1))
                .is_some_and(|z| z.kind != ZoneKind::Conventional)
            {
                return Err(refused("a write crosses into a sequential zone".into()));
            }
            state.counts.blocks_written += count;
            self.inner.write(addr, blocks)
        })
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.write(addr, blocks)?;
        let mut state = self.state.lock();
        let i = self.index(addr);
        // Durable together with all preceding blocks of its zone.
        if let (Some(z), Some(d)) = (state.zones.get(i).copied(), state.durable.get_mut(i)) {
            *d = Durable { pointer: z.pointer, reset_since: false };
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.commands_left == Some(0) {
            return Err(io::Error::other("the power is off"));
        }
        state.durable =
            state.zones.iter().map(|z| Durable { pointer: z.pointer, reset_since: false }).collect();
        Ok(())
    }

    /// Resets the sequential zones inside the range; conventional zones are skipped.
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        check_bounds(self.block_count(), addr, count)?;
        let starts: Vec<u64> = {
            let state = self.state.lock();
            let inside = |z: &&Zone| z.start >= addr && z.start + z.blocks <= addr + count;
            state
                .zones
                .iter()
                .filter(inside)
                .filter(|z| z.kind == ZoneKind::Sequential)
                .map(|z| z.start)
                .collect()
        };
        starts.into_iter().try_for_each(|start| self.reset_zone(start))
    }

    fn read_only(&self) -> bool {
        false
    }

    fn zones(&self) -> io::Result<Vec<Zone>> {
        Ok(self.state.lock().zones.clone())
    }

    fn zone_limits(&self) -> ZoneLimits {
        self.shape.limits
    }

    fn reset_zone(&self, start: u64) -> io::Result<()> {
        self.command(|state| {
            let (i, zone) = self.zone_at(state, start)?;
            if matches!(zone.condition, ZoneCondition::ReadOnly | ZoneCondition::Offline) {
                return Err(refused(format!("the zone at block {start} cannot be reset")));
            }
            zone.pointer = zone.start;
            zone.condition = ZoneCondition::Empty;
            state.opened.retain(|&o| o != i);
            if let Some(d) = state.durable.get_mut(i) {
                *d = Durable { pointer: start, reset_since: true };
            }
            state.counts.resets += 1;
            self.inner.discard(start, self.shape.blocks)
        })
    }

    fn finish_zone(&self, start: u64) -> io::Result<()> {
        self.command(|state| {
            let (i, zone) = self.zone_at(state, start)?;
            zone.pointer = zone.start + zone.capacity;
            zone.condition = ZoneCondition::Full;
            state.opened.retain(|&o| o != i);
            if let Some(d) = state.durable.get_mut(i) {
                d.pointer = start + self.shape.capacity;
            }
            state.counts.finishes += 1;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{gathered, read, write};

    fn device(limits: ZoneLimits) -> ZonedDevice {
        ZonedDevice::new(ZoneShape { zones: 6, conventional: 1, blocks: 8, capacity: 6, limits })
    }
    fn refused(d: &ZonedDevice, addr: u64, blocks: &[u8]) {
        let before = (d.zones().unwrap(), d.counts().violations);
        gathered(blocks, |b| d.write(addr, b)).unwrap_err();
        assert_eq!((d.zones().unwrap(), d.counts().violations), (before.0, before.1 + 1));
    }

    #[test]
    fn writes_follow_the_pointer() {
        let d = device(ZoneLimits::default());
        write(&d, 3, &[1]);
        write(&d, 8, &[1, 2, 3]);
        refused(&d, 8, &[4]);
        refused(&d, 12, &[4]);
        refused(&d, 11, &[4, 5, 6, 7]);
        refused(&d, 7, &[1, 1]);
        write(&d, 11, &[4, 5, 6]);
        assert_eq!(d.zones().unwrap()[1].condition, ZoneCondition::Full);
        refused(&d, 14, &[7]);
        d.reset_zone(8).unwrap();
        assert_eq!(read(&d, 8, 2), [0xFF; 2]);
        write(&d, 8, &[9]);
        assert!(d.reset_zone(9).is_err() && d.reset_zone(0).is_err());
        d.finish_zone(8).unwrap();
        refused(&d, 9, &[1]);
        assert_eq!(read(&d, 8, 2), [9, 0]);
    }

    #[test]
    fn limits_hold() {
        let d = device(ZoneLimits { open: 2, active: 3 });
        write(&d, 8, &[1]);
        write(&d, 16, &[1]);
        write(&d, 24, &[1]);
        let closed: Vec<_> = d.zones().unwrap().iter().map(|z| z.condition).collect();
        assert_eq!(closed[1], ZoneCondition::Closed, "the one that was opened first");
        refused(&d, 32, &[1]);
        d.finish_zone(8).unwrap();
        write(&d, 32, &[1]);
    }

    #[test]
    fn worn_zones_refuse() {
        let d = device(ZoneLimits::default());
        write(&d, 8, &[1]);
        d.set_condition(1, ZoneCondition::ReadOnly);
        refused(&d, 9, &[1]);
        assert_eq!(read(&d, 8, 1), [1]);
        assert!(d.reset_zone(8).is_err());
        d.set_condition(1, ZoneCondition::Offline);
        assert!(d.read(8, &mut [Block::zeroed()]).is_err());
    }

    #[test]
    fn a_cut_keeps_what_was_flushed_and_a_prefix_of_the_rest() {
        let d = device(ZoneLimits::default());
        write(&d, 8, &[1, 2]);
        d.flush().unwrap();
        write(&d, 10, &[3, 4]);
        assert_eq!(read(&d.after_cut(|_| 0), 8, 4), [1, 2, 0xFF, 0xFF]);
        let torn = d.after_cut(|n| n / 2);
        assert_eq!(read(&torn, 8, 4), [1, 2, 3, 0xFF]);
        write(&torn, 11, &[5]);
        d.cut_after(1);
        write(&d, 12, &[5]);
        gathered(&[6], |b| d.write(13, b)).unwrap_err();
    }
}
