//! The bounded search for the contents of a device.
mod remains;

use crate::contents::signatures::{self, FRONT};
use crate::contents::{Contents, Kind};
use crate::{BlockDevice, Zone, ZoneCondition, ZoneKind};
use segno_format::Block;
use std::io;
use std::ops::Range;

/// Blocks at the start of a device that are read: 16 MiB.
const HEAD: u64 = 4096;
/// Blocks of one read, and of a sample.
const PIECE: u64 = 64;
/// Samples of the blocks after the head, evenly spread from the end.
const SAMPLES: u64 = 64;

impl Contents {
    /// Reads at most 32 MiB of the device.
    pub fn of(device: &dyn BlockDevice) -> io::Result<Self> {
        let mut zones = device.zones()?;
        zones.retain(|z| z.kind == ZoneKind::Sequential);
        let zeros = zones.iter().all(|z| z.condition == ZoneCondition::Empty);
        let kind = kind(device)?;
        let mut search = Search { device, zones, remains: false, zeros };
        search.all()?;
        let rest = if search.zeros { Kind::Zeros } else { Kind::Unknown };
        Ok(Self { kind: kind.unwrap_or(rest), remains: search.remains })
    }
}

fn kind(device: &dyn BlockDevice) -> io::Result<Option<Kind>> {
    let count = device.block_count();
    let mut front = vec![Block::zeroed(); FRONT.min(count) as usize];
    device.read(0, &mut front)?;
    let mut last = vec![Block::zeroed(); count.min(1) as usize];
    device.read(count.saturating_sub(1), &mut last)?;
    Ok(signatures::find(&front, &last))
}

struct Search<'a> {
    device: &'a dyn BlockDevice,
    /// Those that have to be written in order.
    zones: Vec<Zone>,
    remains: bool,
    zeros: bool,
}

impl Search<'_> {
    fn all(&mut self) -> io::Result<()> {
        let blocks = self.device.block_count();
        let head = HEAD.min(blocks);
        for at in (0..head).step_by(PIECE as usize) {
            self.piece(at..head.min(at + PIECE))?;
        }
        let step = ((blocks - head) / SAMPLES).max(PIECE);
        for end in (0..SAMPLES).map_while(|i| (blocks - head).checked_sub(i * step)).map(|left| head + left) {
            self.piece(end.saturating_sub(PIECE).max(head)..end)?;
        }
        // With large sections or zones the first checkpoint pack is after the head.
        let starts = (0..u64::BITS).map(|n| 1u64 << n).filter(|at| (HEAD..blocks).contains(at));
        starts.into_iter().try_for_each(|at| self.piece(at..at + 1))
    }

    /// An empty zone may read as anything.
    fn is_empty_zone(&self, at: u64) -> bool {
        let next = self.zones.partition_point(|z| z.start + z.blocks <= at);
        self.zones.get(next).is_some_and(|z| z.start <= at && z.condition == ZoneCondition::Empty)
    }

    fn piece(&mut self, range: Range<u64>) -> io::Result<()> {
        let settled = self.remains && !self.zeros;
        if settled || self.is_empty_zone(range.start) || self.is_empty_zone(range.end.saturating_sub(1)) {
            return Ok(());
        }
        let mut blocks = vec![Block::zeroed(); (range.end - range.start) as usize];
        self.device.read(range.start, &mut blocks)?;
        self.zeros &= blocks.iter().all(Block::is_zero);
        self.remains |= remains::are_in(&blocks, range.start);
        Ok(())
    }
}
