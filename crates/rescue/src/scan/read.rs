//! Reads the source in large pieces on several threads. Holes of image files are left out, and of blocks that a sparse image repeats the
//! first one is read. A piece that fails is read block by block at the end.
use super::{ADDRESSES, Candidate, Found, ScanOptions};
use crate::RescueError;
use segno_device::BlockDevice;
use segno_format::checkpoint::{CHECKSUM_OFFSET_MAX, CHECKSUM_OFFSET_MIN, RawCheckpoint};
use segno_format::superblock::RawSuperblock;
use segno_format::{Block, F2FS_MAGIC};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks of a piece: 4 MiB.
const PIECE: u64 = 1024;
/// Superblocks and checkpoint blocks that are remembered; a volume has two and four.
const FEW: usize = 4096;
const SECTOR: usize = 512;
/// Sectors of a block.
const SECTORS: u64 = 8;

struct Scan<'a> {
    device: &'a dyn BlockDevice,
    options: &'a ScanOptions<'a>,
    blocks: u64,
    next: AtomicU64,
    done: AtomicU64,
    /// Pieces that could not be read as a whole.
    failed: Mutex<Vec<Range<u64>>>,
    progress: &'a (dyn Fn(u64) + Sync),
}

pub(super) fn all(
    device: &dyn BlockDevice,
    options: &ScanOptions<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Found, RescueError> {
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let blocks = device.block_count().min(ADDRESSES);
    let scan = Scan { device, options, blocks, next, done, failed: Mutex::default(), progress };
    let mut found = std::thread::scope(|threads| {
        let workers: Vec<_> = (0..options.threads.max(1)).map(|_| threads.spawn(|| scan.work())).collect();
        workers.into_iter().filter_map(|w| w.join().ok()).fold(Found::default(), Found::and)
    });
    let mut failed = scan.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    failed.sort_unstable_by_key(|piece| piece.start);
    for piece in failed {
        scan.one_by_one(piece, &mut found);
    }
    progress(blocks);
    if options.stop.load(Ordering::Relaxed) { Err(RescueError::Interrupted) } else { Ok(found) }
}

impl Scan<'_> {
    /// Takes the next piece to read, or what is known to be unreadable, which may be a hole of the image that ddrescue has made.
    fn next_piece(&self) -> Option<Range<u64>> {
        let bad = self.options.known_bad;
        loop {
            let from = self.next.load(Ordering::Relaxed);
            let first = self.device.next_data(from).min(bad.next(from).unwrap_or(u64::MAX));
            if from >= self.blocks || first >= self.blocks {
                return None;
            }
            let repeated = self.device.repeats_until(first);
            let (end, next) = match bad.end_of(first) {
                Some(end) => (end, end),
                None if repeated - first > PIECE && bad.next(first).is_none_or(|bad| bad >= repeated) => {
                    (first + 1, repeated)
                }
                None => (first + PIECE, first + PIECE),
            };
            let (end, next) = (end.min(self.blocks), next.min(self.blocks));
            let taken = self.next.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                return Some(first..end);
            }
        }
    }

    fn work(&self) -> Found {
        let mut found = Found::default();
        let mut buffer = vec![Block::zeroed(); PIECE as usize];
        while !self.options.stop.load(Ordering::Relaxed)
            && let Some(piece) = self.next_piece()
        {
            let (first, end) = (piece.start, piece.end);
            let known_bad = self.options.known_bad.next(first).is_some_and(|bad| bad < end);
            let part = buffer.get_mut(..(end - first).min(PIECE) as usize).unwrap_or_default();
            if known_bad || self.device.read(first, part).is_err() {
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
            } else {
                (first..).zip(part.iter()).for_each(|(at, block)| found.look(block, at, self.blocks));
            }
            (self.progress)(self.done.fetch_max(end, Ordering::Relaxed).max(end));
        }
        found
    }

    fn one_by_one(&self, piece: Range<u64>, found: &mut Found) {
        let mut one = [Block::zeroed()];
        let mut at = piece.start;
        while at < piece.end && !self.options.stop.load(Ordering::Relaxed) {
            let bad = self.options.known_bad.end_of(at).map(|end| end.min(piece.end));
            let end = bad.unwrap_or(at + 1);
            if bad.is_some() || self.device.read(at, &mut one).is_err() {
                found.bad.add(at..end);
            } else {
                one.iter().for_each(|block| found.look(block, at, self.blocks));
            }
            at = end;
        }
    }
}

impl Found {
    fn and(mut self, other: Self) -> Self {
        self.nodes.extend(other.nodes);
        self.superblocks.extend(other.superblocks);
        self.marks.extend(other.marks);
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
        for (sector, bytes) in (0..).zip(block.0.chunks_exact(SECTOR)) {
            if bytes.starts_with(&F2FS_MAGIC.to_le_bytes()) && self.marks.len() < FEW {
                self.marks.push(u64::from(at) * SECTORS + sector);
            }
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
