//! Blocks on their way before they are asked for. Who goes through a part of the main area in order, as one does who looks at
//! one inode after the other, finds the next ones in memory: two batches, one that is used and one that is read.
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use segno_device::{BlockDevice, Buffer, Reading};
use segno_format::{Block, BlockAddr};
use std::ops::Range;
use std::sync::Arc;

/// Blocks of the first batch, and the most of one: doubled from one to the next.
const BLOCKS: (u32, u32) = (16, 64);
/// So many blocks may be left out by who goes through in order: they hold something else by now.
const GAP: u32 = 8;
const BATCHES: usize = 2;

/// See the module. What it gives is as good as read now: a batch that was written to is not used.
#[derive(Default)]
pub(super) struct Ahead(Mutex<Plan, { rank::LEAF }>);

#[derive(Default)]
struct Plan {
    /// Where the last read ended that found no batch, or the last batch.
    next: u32,
    /// The older one first.
    batches: Vec<Arc<Batch>>,
}

struct Batch {
    blocks: Range<u32>,
    /// Something in it was written since it was begun.
    stale: AtomicBool,
    /// Locked while it is waited for: whoever waits for the lock wants what is being read.
    content: Mutex<Content, { rank::LEAF }>,
}

enum Content {
    Wanted,
    Coming(Reading),
    There(Buffer),
    Lost,
}

impl Ahead {
    /// Looks at the block at an address, if it was read ahead. The first one of a batch has the next batch begun, up to `end`.
    pub fn look<R>(
        &self,
        dev: &dyn BlockDevice,
        addr: BlockAddr,
        end: u32,
        look: impl FnOnce(&Block) -> R,
    ) -> Option<R> {
        let (batch, next) = self.0.lock().find(addr.0, end)?;
        next.into_iter().for_each(|n| n.begin(dev));
        batch.look(dev, addr.0, look)
    }

    /// So many blocks were read that nobody had read ahead. If they go on where others ended, the next ones are begun.
    pub fn missed(&self, dev: &dyn BlockDevice, addr: BlockAddr, count: u32, end: u32) {
        let next = self.0.lock().go_on(addr.0, addr.0.saturating_add(count), end);
        next.into_iter().for_each(|n| n.begin(dev));
    }

    /// These blocks were written: what was read of them before is not to be used.
    pub fn wrote(&self, addr: BlockAddr, count: usize) {
        let written = addr.0..addr.0.saturating_add(count as u32);
        self.0.lock().batches.iter().for_each(|b| b.wrote(&written));
    }
}

impl Plan {
    fn find(&mut self, addr: u32, end: u32) -> Option<(Arc<Batch>, Option<Next>)> {
        let batch = self.batches.iter().find(|b| b.blocks.contains(&addr) && !b.is_stale())?.clone();
        let is_last = self.batches.last().is_some_and(|b| Arc::ptr_eq(b, &batch));
        let twice = batch.blocks.len() as u32 * 2;
        let next = if is_last { self.add(batch.blocks.end, twice, end) } else { None };
        Some((batch, next))
    }

    fn go_on(&mut self, from: u32, to: u32, end: u32) -> Option<Next> {
        let goes_on = from.wrapping_sub(self.next) < GAP;
        self.next = to;
        if goes_on { self.add(to, BLOCKS.0, end) } else { None }
    }

    fn add(&mut self, start: u32, blocks: u32, end: u32) -> Option<Next> {
        let blocks = start..start.saturating_add(blocks.min(BLOCKS.1)).min(end);
        if blocks.is_empty() {
            return None;
        }
        self.next = blocks.end;
        let over = (self.batches.len() >= BATCHES).then(|| self.batches.remove(0));
        let (stale, content) = (AtomicBool::new(false), Mutex::new(Content::Wanted));
        let batch = Arc::new(Batch { blocks, stale, content });
        self.batches.push(batch.clone());
        Some(Next { batch, over })
    }
}

/// A batch to begin, and the one that made room for it.
struct Next {
    batch: Arc<Batch>,
    over: Option<Arc<Batch>>,
}

impl Next {
    /// It is in the plan before it is read, so that no write goes unnoticed. The plan is not locked meanwhile.
    fn begin(self, dev: &dyn BlockDevice) {
        let spare = self.over.and_then(Batch::into_buffer);
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

    fn look<R>(&self, dev: &dyn BlockDevice, addr: u32, look: impl FnOnce(&Block) -> R) -> Option<R> {
        let mut content = self.content.lock();
        content.begin(dev, &self.blocks, None);
        let at = addr.checked_sub(self.blocks.start)? as usize;
        let seen = look(content.wait()?.blocks().get(at)?);
        (!self.is_stale()).then_some(seen)
    }

    /// Its memory, if nobody uses it.
    fn into_buffer(self: Arc<Self>) -> Option<Buffer> {
        let batch = Arc::into_inner(self)?;
        match std::mem::replace(&mut *batch.content.lock(), Content::Lost) {
            Content::There(buffer) => Some(buffer),
            _ => None,
        }
    }
}

impl Content {
    /// Unless somebody else has.
    fn begin(&mut self, dev: &dyn BlockDevice, blocks: &Range<u32>, spare: Option<Buffer>) {
        if matches!(self, Self::Wanted) {
            let spare = spare.filter(|b| b.blocks().len() == blocks.len());
            let buffer = spare.unwrap_or_else(|| Buffer::new(blocks.len()));
            *self = Self::Coming(dev.start_read(blocks.start.into(), buffer));
        }
    }

    /// What cannot be read ahead is read again by whoever needs it, and fails there.
    fn wait(&mut self) -> Option<&Buffer> {
        *self = match std::mem::replace(self, Self::Lost) {
            Self::Coming(reading) => reading.wait().map_or(Self::Lost, Self::There),
            come => come,
        };
        if let Self::There(buffer) = self { Some(buffer) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::{CountDevice, Fault, FaultCall, FaultDevice, FaultError, MemDevice};
    use segno_format::BLOCK_SIZE;

    const END: u32 = 1_000;

    /// Each block holds the low byte of its address.
    fn device() -> CountDevice<MemDevice> {
        let dev = MemDevice::new(END.into());
        for addr in 0..END {
            dev.write(addr.into(), &[&Block([addr as u8; BLOCK_SIZE])]).unwrap();
        }
        CountDevice::new(dev)
    }

    fn look(ahead: &Ahead, dev: &dyn BlockDevice, addr: u32) -> Option<u8> {
        ahead.look(dev, BlockAddr(addr), END, |b| b.0[9])
    }

    /// Two runs of eight, the second behind the first.
    fn begun(dev: &dyn BlockDevice) -> Ahead {
        let ahead = Ahead::default();
        ahead.missed(dev, BlockAddr(100), 8, END);
        assert_eq!(look(&ahead, dev, 108), None, "one run is none behind another");
        ahead.missed(dev, BlockAddr(110), 8, END);
        ahead
    }

    #[test]
    fn who_goes_on_finds_what_follows() {
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
    fn who_jumps_about_has_nothing_read() {
        let (dev, ahead) = (device(), Ahead::default());
        for addr in (0..END - 8).rev().step_by(3) {
            ahead.missed(&dev, BlockAddr(addr), 8, END);
        }
        assert_eq!(dev.counts().reads, 0);
    }

    #[test]
    fn what_was_written_since_is_not_used() {
        let dev = device();
        let ahead = begun(&dev);
        assert_eq!(look(&ahead, &dev, 120), Some(120));
        ahead.wrote(BlockAddr(117), 1);
        assert_eq!(look(&ahead, &dev, 121), Some(121), "behind what was written");
        ahead.wrote(BlockAddr(133), 1);
        assert_eq!(look(&ahead, &dev, 121), None);
        // The next batch, begun with the first look at this one, is good.
        assert_eq!(look(&ahead, &dev, 134), Some(134));
    }

    #[test]
    fn what_cannot_be_read_is_not_there() {
        let second = Fault { call: FaultCall::Read, nth: 1, error: FaultError::Io, lasting: false };
        let dev = FaultDevice::new(device(), vec![second]);
        let ahead = begun(&dev);
        assert_eq!(look(&ahead, &dev, 118), Some(118));
        assert_eq!((look(&ahead, &dev, 134), look(&ahead, &dev, 165)), (None, None));
        assert_eq!(look(&ahead, &dev, 166), Some(166));
    }
}
