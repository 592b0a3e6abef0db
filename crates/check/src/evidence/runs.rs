//! Blocks in order of their addresses: runs of neighbours, several reads in flight.
use crate::evidence::Reader;
use segno_device::{Buffer, Reading};
use segno_format::{Block, BlockAddr};
use std::collections::VecDeque;

/// Most blocks of a run: 256 KiB.
const RUN: u32 = 64;
/// Requests in flight.
const REQUESTS: usize = 32;
/// Blocks in flight, of all threads together: 1.5 MiB.
pub(crate) const IN_FLIGHT: u32 = 384;

/// Consecutive blocks to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub start: BlockAddr,
    pub count: u32,
}

impl Run {
    /// One past its last block.
    pub(crate) fn end(self) -> BlockAddr {
        self.start.offset(self.count)
    }
}

/// Joins ascending addresses to runs. A run may include gaps of up to `gap` unwanted blocks.
pub(crate) fn join(addrs: impl IntoIterator<Item = BlockAddr>, gap: u32) -> impl Iterator<Item = Run> {
    let mut addrs = addrs.into_iter().peekable();
    std::iter::from_fn(move || {
        let start = addrs.next()?;
        let mut run = Run { start, count: 1 };
        while let Some(addr) = addrs
            .next_if(|addr| addr.0.saturating_sub(run.end().0) <= gap && addr.0.saturating_sub(start.0) < RUN)
        {
            run.count = addr.0.saturating_sub(start.0).saturating_add(1);
        }
        Some(run)
    })
}

/// Reads runs as `next` names them, and passes their blocks on in that order. A run that cannot be read is
/// left out: a caller that needs one of its blocks reads that block alone, and then the error names it. At
/// least one run is in flight, and more up to `limit` blocks.
pub(crate) fn read(
    reader: Reader<'_>,
    limit: u32,
    mut next: impl FnMut() -> Option<Run>,
    mut each: impl FnMut(Run, &[Block]),
) {
    let mut flight: VecDeque<(Run, Reading)> = VecDeque::new();
    let (mut blocks, mut spare) = (0u32, Vec::<Buffer>::new());
    loop {
        while flight.len() < REQUESTS
            && blocks < limit
            && let Some(run) = next()
        {
            blocks = blocks.saturating_add(run.count);
            flight.push_back((run, reader.start(run.start, buffer(&mut spare, run.count as usize))));
        }
        let Some((run, reading)) = flight.pop_front() else { return };
        blocks = blocks.saturating_sub(run.count);
        if let Ok(buffer) = reading.wait() {
            each(run, buffer.blocks());
            spare.truncate((limit / RUN) as usize);
            spare.push(buffer);
        }
    }
}

/// A buffer for `count` blocks, from `spare` if one is large enough. Sizes are powers of two, because many
/// different sizes would fragment the heap.
fn buffer(spare: &mut Vec<Buffer>, count: usize) -> Buffer {
    let fits = spare.iter().position(|b| b.capacity() >= count);
    let mut buffer = fits.map_or_else(|| Buffer::new(count.next_power_of_two()), |i| spare.swap_remove(i));
    buffer.resize(count);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::{BlockDevice, MemDevice};

    #[test]
    fn neighbours_are_joined_over_small_gaps() {
        let joined = |addrs: &[u32]| {
            join(addrs.iter().map(|&a| BlockAddr(a)), 16).map(|r| (r.start.0, r.count)).collect::<Vec<_>>()
        };
        assert_eq!(joined(&[]), []);
        assert_eq!(joined(&[5, 6, 23, 40]), [(5, 36)], "gaps of 16");
        assert_eq!(joined(&[5, 22, 40]), [(5, 18), (40, 1)], "a gap of 17");
        let all: Vec<u32> = (0..200).collect();
        assert_eq!(joined(&all), [(0, 64), (64, 64), (128, 64), (192, 8)]);
    }

    #[test]
    fn runs_arrive_in_order_and_whole() {
        let device = MemDevice::new(4000);
        for addr in 0..4000u64 {
            let mut block = Block::zeroed();
            block.set_u32_at(0, addr as u32);
            device.write(addr, &[&block]).unwrap();
        }
        let runs: Vec<_> =
            join((0..4000).filter(|a| a % 100 < 30 || a % 7 == 0).map(BlockAddr), 16).collect();
        let (mut list, mut seen) = (runs.iter().copied(), Vec::new());
        read(
            Reader::new(&device),
            IN_FLIGHT,
            || list.next(),
            |run, blocks| {
                assert!((run.start.0..).zip(blocks).all(|(a, b)| b.u32_at(0) == a));
                assert_eq!(blocks.len(), run.count as usize);
                seen.push(run);
            },
        );
        assert_eq!(seen, runs);
        // Past the end of the device: left out.
        let mut list =
            [Run { start: BlockAddr(3999), count: 2 }, Run { start: BlockAddr(1), count: 1 }].into_iter();
        let mut seen = Vec::new();
        read(Reader::new(&device), 1, || list.next(), |run, _| seen.push(run.start.0));
        assert_eq!(seen, [1]);
    }
}
