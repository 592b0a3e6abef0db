//! Reads the source in large pieces on several threads. A piece that fails is read block by block at the end.
use super::{BadBlocks, Candidate, Found, ScanOptions};
use crate::RescueError;
use segno_device::BlockDevice;
use segno_format::checkpoint::{CHECKSUM_OFFSET_MAX, CHECKSUM_OFFSET_MIN, RawCheckpoint};
use segno_format::superblock::RawSuperblock;
use segno_format::{Block, F2FS_MAGIC};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks of a piece: 4 MiB.
const PIECE: u64 = 1024;
/// Superblocks and checkpoint blocks that are remembered; a volume has two and four.
const FEW: usize = 4096;

struct Scan<'a> {
    device: &'a dyn BlockDevice,
    options: &'a ScanOptions<'a>,
    next: AtomicU64,
    done: AtomicU64,
    /// Pieces that could not be read as a whole.
    failed: Mutex<Vec<u64>>,
    progress: &'a (dyn Fn(u64) + Sync),
}

pub(super) fn all(
    device: &dyn BlockDevice,
    options: &ScanOptions<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Found, RescueError> {
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let scan = Scan { device, options, next, done, failed: Mutex::default(), progress };
    let mut found = std::thread::scope(|threads| {
        let workers: Vec<_> = (0..options.threads.max(1)).map(|_| threads.spawn(|| scan.work())).collect();
        workers.into_iter().filter_map(|w| w.join().ok()).fold(Found::default(), Found::and)
    });
    let mut failed = scan.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    failed.sort_unstable();
    for first in failed {
        scan.one_by_one(first, &mut found);
    }
    if options.stop.load(Ordering::Relaxed) { Err(RescueError::Interrupted) } else { Ok(found) }
}

impl Scan<'_> {
    fn work(&self) -> Found {
        let mut found = Found::default();
        let mut buffer = vec![Block::zeroed(); PIECE as usize];
        let blocks = self.device.block_count();
        while !self.options.stop.load(Ordering::Relaxed) {
            let first = self.next.fetch_add(PIECE, Ordering::Relaxed);
            if first >= blocks {
                break;
            }
            let count = PIECE.min(blocks - first);
            let part = buffer.get_mut(..count as usize).unwrap_or_default();
            let known_bad = self.options.known_bad.intersects(first..first + count);
            if known_bad || self.device.read(first, part).is_err() {
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).push(first);
            } else {
                (first..).zip(part.iter()).for_each(|(at, block)| found.look(block, at, blocks));
            }
            (self.progress)(self.done.fetch_add(count, Ordering::Relaxed) + count);
        }
        found
    }

    fn one_by_one(&self, first: u64, found: &mut Found) {
        let blocks = self.device.block_count();
        let mut one = [Block::zeroed()];
        for at in first..blocks.min(first + PIECE) {
            if self.options.stop.load(Ordering::Relaxed) {
                return;
            }
            if self.options.known_bad.contains(at) || self.device.read(at, &mut one).is_err() {
                found.bad.add(at);
            } else {
                one.iter().for_each(|block| found.look(block, at, blocks));
            }
        }
    }
}

impl Found {
    fn and(mut self, other: Self) -> Self {
        self.nodes.extend(other.nodes);
        self.superblocks.extend(other.superblocks);
        self.checkpoints.extend(other.checkpoints);
        self
    }

    fn look(&mut self, block: &Block, at: u64, blocks: u64) {
        // The scan was refused if these did not fit.
        let (at, blocks) = (at as u32, blocks as u32);
        if let Some(node) = Candidate::of(block, at, blocks) {
            self.nodes.push(node);
        }
        if block.u32_at(1024) == F2FS_MAGIC
            && self.superblocks.len() < FEW
            && RawSuperblock::from_block(&block.0).parse(at.into()).is_ok()
        {
            self.superblocks.push(at);
        }
        if is_checkpoint(block) && self.checkpoints.len() < FEW {
            self.checkpoints.push(at);
        }
    }
}

/// The cheap signs are looked at before the checksum.
fn is_checkpoint(block: &Block) -> bool {
    let cp: &RawCheckpoint = block.view();
    let offset = cp.checksum_offset.get();
    (offset == CHECKSUM_OFFSET_MAX || offset == CHECKSUM_OFFSET_MIN)
        && cp.total_blocks(0).is_ok()
        && RawCheckpoint::verify(block, 0).is_ok()
}

impl BadBlocks {
    fn intersects(&self, range: std::ops::Range<u64>) -> bool {
        self.ranges().iter().any(|r| r.start < range.end && range.start < r.end)
    }
}
