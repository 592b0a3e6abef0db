//! Blocks on their way before they are asked for. Who goes through a part of the main area in order, as one does who looks at
//! one inode after the other, finds the next ones in memory: two batches, one that is used and one that is read.
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use segno_device::{BlockDevice, Buffer, Reading};
use segno_format::{Block, BlockAddr};
use std::ops::Range;
use std::sync::Arc;

/// Blocks of the first batch, and the most of one: doubled from one to the next.
const BLOCKS: (u32, u32) = (16, 128);
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
    Wanted(Buffer),
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
        next.iter().for_each(|b| b.begin(dev));
        batch.look(dev, addr.0, look)
    }

    /// So many blocks were read that nobody had read ahead. If they go on where others ended, the next ones are begun.
    pub fn missed(&self, dev: &dyn BlockDevice, addr: BlockAddr, count: u32, end: u32) {
        let next = self.0.lock().go_on(addr.0, addr.0.saturating_add(count), end);
        next.iter().for_each(|b| b.begin(dev));
    }

    /// These blocks were written: what was read of them before is not to be used.
    pub fn wrote(&self, addr: BlockAddr, count: usize) {
        let written = addr.0..addr.0.saturating_add(count as u32);
        self.0.lock().batches.retain(|b| !b.is_hit(&written));
    }
}

impl Plan {
    fn find(&mut self, addr: u32, end: u32) -> Option<(Arc<Batch>, Option<Arc<Batch>>)> {
        let batch = self.batches.iter().find(|b| b.blocks.contains(&addr))?.clone();
        let is_last = self.batches.last().is_some_and(|b| Arc::ptr_eq(b, &batch));
        let twice = batch.blocks.len() as u32 * 2;
        let next = if is_last { self.add(batch.blocks.end, twice, end) } else { None };
        Some((batch, next))
    }

    fn go_on(&mut self, from: u32, to: u32, end: u32) -> Option<Arc<Batch>> {
        let goes_on = from.wrapping_sub(self.next) < GAP;
        self.next = to;
        if goes_on { self.add(to, BLOCKS.0, end) } else { None }
    }

    fn add(&mut self, start: u32, blocks: u32, end: u32) -> Option<Arc<Batch>> {
        let blocks = start..start.saturating_add(blocks.min(BLOCKS.1)).min(end);
        if blocks.is_empty() {
            return None;
        }
        self.next = blocks.end;
        let over = (self.batches.len() >= BATCHES).then(|| self.batches.remove(0));
        let used = over.and_then(Batch::into_buffer).filter(|b| b.blocks().len() == blocks.len());
        let buffer = used.unwrap_or_else(|| Buffer::new(blocks.len()));
        let content = Mutex::new(Content::Wanted(buffer));
        let batch = Arc::new(Batch { blocks, stale: AtomicBool::new(false), content });
        self.batches.push(batch.clone());
        Some(batch)
    }
}

impl Batch {
    /// Marks it if something of it is in the range.
    fn is_hit(&self, written: &Range<u32>) -> bool {
        let hit = self.blocks.start < written.end && written.start < self.blocks.end;
        if hit {
            self.stale.store(true, Ordering::Release);
        }
        hit
    }

    /// It is in the plan before it is read, so that no write goes unnoticed.
    fn begin(&self, dev: &dyn BlockDevice) {
        self.content.lock().begin(dev, self.blocks.start);
    }

    fn look<R>(&self, dev: &dyn BlockDevice, addr: u32, look: impl FnOnce(&Block) -> R) -> Option<R> {
        let mut content = self.content.lock();
        content.begin(dev, self.blocks.start);
        let at = addr.checked_sub(self.blocks.start)? as usize;
        let seen = look(content.wait()?.blocks().get(at)?);
        (!self.stale.load(Ordering::Acquire)).then_some(seen)
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
    fn begin(&mut self, dev: &dyn BlockDevice, start: u32) {
        *self = match std::mem::replace(self, Self::Lost) {
            Self::Wanted(buffer) => Self::Coming(dev.start_read(start.into(), buffer)),
            begun => begun,
        };
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
