//! Reads blocks that are not stored yet, from the cache, or from the store; and reads ahead.
use crate::log::read::cache::Cache;
use crate::log::read::prefetch::Streams;
use crate::log::state::State;
use crate::stats::Cause;
use crate::wire::names::ObjectId;
use crate::wire::pieces::{OBJECT_BLOCKS, PIECE_BLOCKS};
use crate::{Result, StoreError};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use segno_format::{BLOCK_SIZE, Block};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of requests of one read at a time.
const READ_REQUESTS: usize = 32;
/// Maximum number of requests that read ahead. Each has 8 MiB if possible, so a stream needs only eight of
/// them.
const PREFETCH_REQUESTS: usize = 32;

pub(crate) struct Reader {
    state: Arc<Mutex<State>>,
    pub cache: Cache,
    streams: Mutex<Streams>,
    prefetches: Arc<Semaphore>,
    handle: Handle,
}

/// Blocks to be read from an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectRange {
    pub id: ObjectId,
    pub offset: u16,
    pub len: u16,
    /// Blocks of the object.
    blocks: u16,
    /// Index of their first block in the request.
    at: usize,
}

impl ObjectRange {
    fn pieces(&self) -> Range<u32> {
        let (from, to) = (u32::from(self.offset), u32::from(self.offset) + u32::from(self.len));
        from / PIECE_BLOCKS..to.div_ceil(PIECE_BLOCKS)
    }
}

impl Reader {
    pub(crate) fn new(state: Arc<Mutex<State>>, cache: Cache, handle: Handle) -> Self {
        let zone_blocks = state.lock().map.geometry.zone_blocks;
        let most = (cache.prefetch_bytes() / BLOCK_SIZE) as u64;
        let streams = Mutex::new(Streams::new(zone_blocks, most));
        Self { state, cache, streams, prefetches: Arc::new(Semaphore::new(PREFETCH_REQUESTS)), handle }
    }

    /// Reads blocks. Blocks that were never written are zeros.
    pub(crate) async fn read(&self, addr: u64, into: &mut [Block], cause: Cause) -> Result<()> {
        loop {
            let ranges = self.ranges(addr, into.len() as u64, Some(&mut *into));
            match self.read_ranges(&ranges, into, cause).await {
                // Commits were merged meanwhile, and their blocks are in another object.
                Err(StoreError::Missing { .. }) if self.ranges(addr, into.len() as u64, None) != ranges => {}
                done => return done,
            }
        }
    }

    async fn read_ranges(&self, ranges: &[ObjectRange], into: &mut [Block], cause: Cause) -> Result<()> {
        let read =
            |range: ObjectRange| self.cache.pieces(range.id, range.pieces(), range.blocks.into(), cause);
        let mut read = stream::iter(ranges.to_vec()).map(read).buffered(READ_REQUESTS);
        for range in ranges {
            let Some(pieces) = read.try_next().await? else { break };
            let target = into.get_mut(range.at..range.at + usize::from(range.len)).unwrap_or_default();
            for (offset, block) in (u32::from(range.offset)..).zip(target) {
                copy_block(&pieces, offset, block).ok_or_else(|| {
                    StoreError::corrupt(
                        crate::wire::names::Name::Object(range.id),
                        "it ends before its blocks",
                    )
                })?;
            }
        }
        Ok(())
    }

    /// The ranges of a range that are in objects, consecutive ones joined. All other blocks are copied to the
    /// target, if there is one.
    fn ranges(&self, addr: u64, count: u64, mut into: Option<&mut [Block]>) -> Vec<ObjectRange> {
        let state = self.state.lock();
        let (mut ranges, mut begin) = (Vec::<ObjectRange>::new(), 0usize);
        for (zone, start, len) in state.map.geometry.zone_ranges(addr, count) {
            if let Some(target) = into.as_deref_mut().and_then(|t| t.get_mut(begin..begin + usize::from(len)))
            {
                target.iter_mut().for_each(|block| block.0.fill(0));
            }
            let extents = state.map.zone(zone).into_iter().flat_map(|z| z.extents.within(start, start + len));
            for e in extents {
                let at = begin + usize::from(e.start - start);
                if let Some(content) = state.content.get(&e.object) {
                    let target = into.as_deref_mut().and_then(|t| t.get_mut(at..at + usize::from(e.len)));
                    for (offset, block) in (e.offset..).zip(target.unwrap_or_default()) {
                        if let Some(bytes) = content.block(offset) {
                            block.0.copy_from_slice(bytes);
                        }
                    }
                    continue;
                }
                let Some(object) = state.map.object(e.object) else { continue };
                let offset = object.base + e.offset;
                match ranges.last_mut() {
                    Some(last)
                        if last.id == object.id
                            && last.offset + last.len == offset
                            && last.at + usize::from(last.len) == at =>
                    {
                        last.len += e.len;
                    }
                    _ => ranges.push(ObjectRange {
                        id: object.id,
                        offset,
                        len: e.len,
                        blocks: object.blocks,
                        at,
                    }),
                }
            }
            begin += usize::from(len);
        }
        ranges
    }

    /// Records a read that begins, and reads ahead of it if it follows another one.
    pub(crate) fn note(self: &Arc<Self>, addr: u64, count: u64) {
        let careful = self.cache.is_wasteful();
        self.streams.lock().note(addr, count, careful, |from, count| self.read_ahead(from, count, true));
    }

    /// Starts to read blocks into the cache, as many as may be read ahead at a time.
    pub(crate) fn prefetch(self: &Arc<Self>, addr: u64, count: u64) {
        self.read_ahead(addr, count, false);
    }

    /// Like [`Self::prefetch`]; returns the end of the requested blocks. Errors are left to the reads that
    /// need the blocks.
    fn read_ahead(self: &Arc<Self>, addr: u64, count: u64, follows: bool) -> u64 {
        // Further requests would find no permit.
        let count = count.min(self.prefetches.available_permits() as u64 * u64::from(OBJECT_BLOCKS));
        for range in self.ranges(addr, count, None) {
            let Ok(turn) = self.prefetches.clone().try_acquire_owned() else { return addr + range.at as u64 };
            let mut pieces = range.pieces();
            // The read before it reads the piece that both share, and need not wait for this whole request.
            if follows && range.at == 0 && !u32::from(range.offset).is_multiple_of(PIECE_BLOCKS) {
                pieces.start += 1;
            }
            self.start(&range, pieces, turn);
        }
        addr + count
    }

    /// Starts to read pieces. Reads that need one of them wait for it from now on.
    fn start(self: &Arc<Self>, range: &ObjectRange, pieces: Range<u32>, turn: OwnedSemaphorePermit) {
        let (id, blocks) = (range.id, range.blocks.into());
        let missing = self.cache.begin(id, pieces);
        if missing.is_empty() {
            return;
        }
        let reader = self.clone();
        self.handle.spawn(async move {
            // A block that is missing is fetched again by the read that needs it, which reports the error.
            let _left_to_readers = reader.cache.fetch_all(id, missing, blocks, Cause::Readahead).await;
            drop(turn);
        });
    }
}

fn copy_block(pieces: &HashMap<u32, Bytes>, offset: u32, into: &mut Block) -> Option<()> {
    let piece = pieces.get(&(offset / PIECE_BLOCKS))?;
    let at = (offset % PIECE_BLOCKS) as usize * BLOCK_SIZE;
    into.0.copy_from_slice(piece.get(at..at + BLOCK_SIZE)?);
    Some(())
}
