//! Read-ahead of node blocks for readers that go through the main area in order, as a scan of many inodes does. Two
//! batches: one in use and one being read.
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use segno_device::{BlockDevice, Buffer, Reading};
use segno_format::{Block, BlockAddr};
use std::ops::Range;
use std::sync::Arc;

/// Size in blocks of the first batch and of the largest one; each batch doubles the one before.
const BLOCKS: (u32, u32) = (16, 64);
/// Number of blocks that a sequential reader may skip, as they no longer hold nodes.
const GAP: u32 = 8;
const BATCHES: usize = 2;

/// A block it returns is as current as one read now: a batch that was written to is not used.
#[derive(Default)]
pub(super) struct NodeReadahead(Mutex<Plan, { rank::LEAF }>);

#[derive(Default)]
struct Plan {
    /// End of the last read that missed, or of the last batch.
    next: u32,
    /// Oldest first.
    batches: Vec<Arc<Batch>>,
}

struct Batch {
    blocks: Range<u32>,
    /// A block of the batch was written after its read started.
    stale: AtomicBool,
    /// Locked during the wait for the device: a waiter for the lock needs the same read.
    content: Mutex<Content, { rank::LEAF }>,
}

enum Content {
    Unread,
    InFlight(Reading),
    Ready(Buffer),
    Failed,
}

impl NodeReadahead {
    /// Passes a block that was read ahead to `look`. The first use of a batch starts the next batch, up to `end`.
    pub fn look<R>(
        &self,
        dev: &dyn BlockDevice,
        addr: BlockAddr,
        end: u32,
        look: impl FnOnce(&Block) -> R,
    ) -> Option<R> {
        let (batch, next) = self.0.lock().find(addr, end)?;
        next.into_iter().for_each(|n| n.begin(dev));
        batch.look(dev, addr, look)
    }

    /// Notes a read of blocks that were not read ahead. If it continues the last one, starts a batch.
    pub fn missed(&self, dev: &dyn BlockDevice, addr: BlockAddr, count: u32, end: u32) {
        let next = self.0.lock().continue_from(addr.0, addr.0.saturating_add(count), end);
        next.into_iter().for_each(|n| n.begin(dev));
    }

    /// Marks batches stale that overlap written blocks.
    pub fn wrote(&self, addr: BlockAddr, count: usize) {
        let written = addr.0..addr.0.saturating_add(count as u32);
        self.0.lock().batches.iter().for_each(|b| b.wrote(&written));
    }
}

impl Plan {
    fn find(&mut self, addr: BlockAddr, end: u32) -> Option<(Arc<Batch>, Option<Next>)> {
        let batch = self.batches.iter().find(|b| b.blocks.contains(&addr.0) && !b.is_stale())?.clone();
        let is_last = self.batches.last().is_some_and(|b| Arc::ptr_eq(b, &batch));
        let twice = batch.blocks.len() as u32 * 2;
        let next = if is_last { self.add(batch.blocks.end, twice, end) } else { None };
        Some((batch, next))
    }

    fn continue_from(&mut self, from: u32, to: u32, end: u32) -> Option<Next> {
        let is_sequential = from.wrapping_sub(self.next) < GAP;
        self.next = to;
        if is_sequential { self.add(to, BLOCKS.0, end) } else { None }
    }

    fn add(&mut self, start: u32, blocks: u32, end: u32) -> Option<Next> {
        let blocks = start..start.saturating_add(blocks.min(BLOCKS.1)).min(end);
        if blocks.is_empty() {
            return None;
        }
        self.next = blocks.end;
        let replaced = (self.batches.len() >= BATCHES).then(|| self.batches.remove(0));
        let (stale, content) = (AtomicBool::new(false), Mutex::new(Content::Unread));
        let batch = Arc::new(Batch { blocks, stale, content });
        self.batches.push(batch.clone());
        Some(Next { batch, replaced })
    }
}

/// A batch to start, and the one it replaces.
struct Next {
    batch: Arc<Batch>,
    replaced: Option<Arc<Batch>>,
}

impl Next {
    /// The batch is in the plan before it is read, so that no write is missed. The plan is not locked meanwhile.
    fn begin(self, dev: &dyn BlockDevice) {
        let spare = self.replaced.and_then(Batch::into_buffer);
        self.batch.content.lock().begin(dev, &self.batch.blocks, spare);
    }
}

impl Batch {
    fn wrote(&self, written: &Range<u32>) {
        if self.blocks.start < written.end && written.start < self.blocks.end {
            self.stale.store(true, Ordering::Release);
        }
    }

    fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    fn look<R>(&self, dev: &dyn BlockDevice, addr: BlockAddr, look: impl FnOnce(&Block) -> R) -> Option<R> {
        let mut content = self.content.lock();
        content.begin(dev, &self.blocks, None);
        let at = addr.0.checked_sub(self.blocks.start)? as usize;
        let seen = look(content.wait()?.blocks().get(at)?);
        (!self.is_stale()).then_some(seen)
    }

    /// Its buffer, if unreferenced.
    fn into_buffer(self: Arc<Self>) -> Option<Buffer> {
        let batch = Arc::into_inner(self)?;
        match std::mem::replace(&mut *batch.content.lock(), Content::Failed) {
            Content::Ready(buffer) => Some(buffer),
            _ => None,
        }
    }
}

impl Content {
    /// Starts the read, unless it was started before.
    fn begin(&mut self, dev: &dyn BlockDevice, blocks: &Range<u32>, spare: Option<Buffer>) {
        if matches!(self, Self::Unread) {
            let spare = spare.filter(|b| b.blocks().len() == blocks.len());
            let buffer = spare.unwrap_or_else(|| Buffer::new(blocks.len()));
            *self = Self::InFlight(dev.start_read(blocks.start.into(), buffer));
        }
    }

    /// Waits for the read. If it failed, the caller reads the block again and gets the error.
    fn wait(&mut self) -> Option<&Buffer> {
        *self = match std::mem::replace(self, Self::Failed) {
            Self::InFlight(reading) => reading.wait().map_or(Self::Failed, Self::Ready),
            other => other,
        };
        if let Self::Ready(buffer) = self { Some(buffer) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;
    use segno_format::BLOCK_SIZE;
    use segno_testkit::{CountDevice, Fault, FaultCall, FaultDevice, FaultError};

    const END: u32 = 1_000;

    /// Each block holds the low byte of its address.
    fn device() -> CountDevice<MemDevice> {
        let dev = MemDevice::new(END.into());
        for addr in 0..END {
            dev.write(addr.into(), &[&Block([addr as u8; BLOCK_SIZE])]).unwrap();
        }
        CountDevice::new(dev)
    }

    fn look(ahead: &NodeReadahead, dev: &dyn BlockDevice, addr: u32) -> Option<u8> {
        ahead.look(dev, BlockAddr(addr), END, |b| b.0[9])
    }

    /// Two adjacent runs of eight blocks.
    fn begun(dev: &dyn BlockDevice) -> NodeReadahead {
        let ahead = NodeReadahead::default();
        ahead.missed(dev, BlockAddr(100), 8, END);
        assert_eq!(look(&ahead, dev, 108), None, "one run is not sequential");
        ahead.missed(dev, BlockAddr(110), 8, END);
        ahead
    }

    #[test]
    fn sequential_reads_hit_the_readahead() {
        let dev = device();
        let ahead = begun(&dev);
        for addr in 118..END {
            assert_eq!(look(&ahead, &dev, addr), Some(addr as u8), "{addr}");
        }
        assert_eq!(look(&ahead, &dev, END), None);
        let counts = dev.counts();
        // 16, 32, and 64 from then on; each block once.
        assert_eq!((counts.reads, counts.blocks_read), (16, u64::from(END - 118)));
    }

    #[test]
    fn random_reads_start_no_readahead() {
        let (dev, ahead) = (device(), NodeReadahead::default());
        for addr in (0..END - 8).rev().step_by(3) {
            ahead.missed(&dev, BlockAddr(addr), 8, END);
        }
        assert_eq!(dev.counts().reads, 0);
    }

    #[test]
    fn a_batch_written_to_is_not_used() {
        let dev = device();
        let ahead = begun(&dev);
        assert_eq!(look(&ahead, &dev, 120), Some(120));
        ahead.wrote(BlockAddr(117), 1);
        assert_eq!(look(&ahead, &dev, 121), Some(121), "after the written block");
        ahead.wrote(BlockAddr(133), 1);
        assert_eq!(look(&ahead, &dev, 121), None);
        // The next batch, started with the first use of this one, is good.
        assert_eq!(look(&ahead, &dev, 134), Some(134));
    }

    #[test]
    fn a_failed_read_is_a_miss() {
        let second = Fault { call: FaultCall::Read, nth: 1, error: FaultError::Io, lasting: false };
        let dev = FaultDevice::new(device(), vec![second]);
        let ahead = begun(&dev);
        assert_eq!(look(&ahead, &dev, 118), Some(118));
        assert_eq!((look(&ahead, &dev, 134), look(&ahead, &dev, 165)), (None, None));
        assert_eq!(look(&ahead, &dev, 166), Some(166));
    }
}
