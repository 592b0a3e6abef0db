//! The ranges of a device that are flushed apart, and the events of a log that are durable in each.
use crate::record::Event;
use segno_device::check_bounds;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

/// All ranges, ascending and without gaps. There is one if every flush covers the whole device.
#[derive(Clone, Debug)]
pub(super) struct Regions(Vec<Region>);

#[derive(Clone, Debug)]
struct Region {
    /// One past its last block; it starts where the one before ends.
    end: u64,
    /// For each length of the log, the number of its events before which all in this region are durable.
    settled: Vec<usize>,
}

impl Regions {
    /// Of a log over a device of this size. No event may lie outside the device or cross two regions.
    pub(super) fn new(block_count: u64, events: &[Event]) -> io::Result<Self> {
        let mut ends = BTreeSet::from([block_count]);
        for event in events {
            if let Event::Flush { within, .. } = event {
                let count = within.end.checked_sub(within.start).ok_or(io::ErrorKind::InvalidInput)?;
                check_bounds(block_count, within.start, count)?;
                ends.extend([within.start, within.end].into_iter().filter(|&end| end > 0));
            }
        }
        let starts = [0].into_iter().chain(ends.iter().copied());
        let regions = starts.zip(&ends).map(|(start, &end)| Region::new(start..end, events));
        let regions = Self(regions.collect());
        events.iter().filter_map(place).try_for_each(|blocks| regions.check(&blocks))?;
        Ok(regions)
    }

    fn check(&self, blocks: &Range<u64>) -> io::Result<()> {
        let region = self.0.get(self.of(blocks.start)).ok_or(io::ErrorKind::InvalidInput)?;
        check_bounds(region.end, blocks.start, blocks.end.saturating_sub(blocks.start))
    }

    /// Number of regions.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The region of an event; marks and flushes count for the first.
    pub(super) fn of_event(&self, event: &Event) -> usize {
        place(event).map_or(0, |blocks| self.of(blocks.start))
    }

    fn of(&self, addr: u64) -> usize {
        match self.0.len() {
            1 => 0,
            _ => self.0.partition_point(|region| region.end <= addr),
        }
    }

    /// The number of events before which all in this region are durable after a cut.
    pub(super) fn settled(&self, region: usize, cut: usize) -> usize {
        self.0.get(region).map_or(0, |region| region.settled(cut))
    }

    /// The number of events before which all are durable after a cut.
    pub(super) fn all_settled(&self, cut: usize) -> usize {
        self.0.iter().map(|region| region.settled(cut)).min().unwrap_or(0)
    }
}

impl Region {
    fn new(blocks: Range<u64>, events: &[Event]) -> Self {
        let mut settled = vec![0];
        let mut durable = 0;
        for (index, event) in events.iter().enumerate() {
            if let Event::Flush { covers, within } = event
                && within.start <= blocks.start
                && blocks.end <= within.end
            {
                durable = durable.max(index.min(*covers));
            }
            settled.push(durable);
        }
        Self { end: blocks.end, settled }
    }

    fn settled(&self, cut: usize) -> usize {
        self.settled.get(cut).or(self.settled.last()).copied().unwrap_or(0)
    }
}

/// Blocks that an event changes.
fn place(event: &Event) -> Option<Range<u64>> {
    match event {
        Event::Write { addr, blocks, .. } => Some(*addr..addr.saturating_add(blocks.len() as u64)),
        Event::Discard { addr, count } => Some(*addr..addr.saturating_add(*count)),
        Event::Flush { .. } | Event::Mark(_) => None,
    }
}
