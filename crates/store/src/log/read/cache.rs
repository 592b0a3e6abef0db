//! Pieces that were read, cached in memory and on local disk up to a number of bytes. Objects never change,
//! so an entry is never stale.
use crate::local::disk::Disk;
use crate::log::read::memory::{Key, Memory, Use};
use crate::log::upload::backing::Backing;
use crate::stats::Cause;
use crate::wire::names::{Name, ObjectId};
use crate::wire::pieces;
use crate::{Result, StoreError};
use bytes::Bytes;
use futures_util::future::try_join_all;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::watch;

/// The cache, and the requests that fill it.
pub(crate) struct Cache {
    backing: Arc<Backing>,
    disk: Option<Arc<Disk>>,
    volume: [u8; 16],
    limit: usize,
    state: Mutex<State>,
}

struct State {
    memory: Memory,
    /// Pieces that are being read; the sender is dropped when they are there, or the read failed.
    loading: HashMap<Key, watch::Receiver<()>>,
}

/// Pieces that one request reads.
pub(crate) struct Fetch {
    range: Range<u32>,
    /// Whether they are on local disk.
    local: bool,
    _loading: watch::Sender<()>,
}

impl Cache {
    pub(crate) fn new(
        backing: Arc<Backing>,
        disk: Option<Arc<Disk>>,
        volume: [u8; 16],
        limit: usize,
    ) -> Self {
        let state = Mutex::new(State { memory: Memory::new(limit), loading: HashMap::new() });
        Self { backing, disk, volume, limit, state }
    }

    /// Returns pieces of an object of `blocks` blocks. Missing pieces are read with as few requests as
    /// possible; pieces that are already being read are awaited.
    pub(crate) async fn pieces(
        &self,
        id: ObjectId,
        range: Range<u32>,
        blocks: u32,
        cause: Cause,
    ) -> Result<HashMap<u32, Bytes>> {
        let mut found = HashMap::new();
        while found.len() < range.len() {
            let (fetches, waits) = self.plan(id, range.clone(), &mut found, Use::Now);
            found.extend(self.fetch_all(id, fetches, blocks, cause).await?);
            for mut wait in waits {
                // Ends with an error, as nothing is ever sent.
                let _ended = wait.changed().await;
            }
        }
        Ok(found)
    }

    /// Plans requests for the pieces that are neither cached nor being read. Others wait for them from now
    /// on.
    pub(crate) fn begin(&self, id: ObjectId, range: Range<u32>) -> Vec<Fetch> {
        self.plan(id, range, &mut HashMap::new(), Use::Later).0
    }

    pub(crate) async fn fetch_all(
        &self,
        id: ObjectId,
        fetches: Vec<Fetch>,
        blocks: u32,
        cause: Cause,
    ) -> Result<Vec<(u32, Bytes)>> {
        let read = fetches.into_iter().map(|fetch| self.fetch(id, fetch, blocks, cause));
        Ok(try_join_all(read).await?.into_iter().flatten().collect())
    }

    /// Keeps the blocks of an object that was just stored: small changes of a file read the blocks that they
    /// change.
    pub(crate) fn keep(&self, id: ObjectId, slices: &[&[u8]]) {
        let pieces = pieces::split(slices);
        let mut state = self.state.lock();
        (0..).zip(pieces).for_each(|(piece, bytes)| state.memory.keep((id, piece), bytes));
    }

    /// Whether less than half of the data read is used.
    pub(crate) fn is_wasteful(&self) -> bool {
        self.state.lock().memory.is_wasteful()
    }

    /// Bytes that may be read ahead.
    pub(crate) fn prefetch_bytes(&self) -> usize {
        Memory::prefetch_limit(self.limit)
    }

    /// Collects cached pieces, and decides which requests to make and which to wait for.
    fn plan(
        &self,
        id: ObjectId,
        range: Range<u32>,
        found: &mut HashMap<u32, Bytes>,
        why: Use,
    ) -> (Vec<Fetch>, Vec<watch::Receiver<()>>) {
        let mut state = self.state.lock();
        let (mut fetches, mut waits) = (Vec::<Fetch>::new(), Vec::new());
        for piece in range {
            let key = (id, piece);
            if found.contains_key(&piece) {
                continue;
            }
            if let Some(bytes) = state.memory.find(&key, why) {
                found.insert(piece, bytes);
            // The sender is gone if the request was cancelled because another one failed.
            } else if let Some(loading) = state.loading.get(&key).filter(|l| l.has_changed().is_ok()) {
                waits.push(loading.clone());
            } else {
                let local = self.disk.as_ref().is_some_and(|disk| disk.has(id, piece));
                match fetches.last_mut().filter(|f| f.range.end == piece && f.local == local) {
                    Some(fetch) => fetch.range.end += 1,
                    None => {
                        let _loading = watch::Sender::new(());
                        fetches.push(Fetch { range: piece..piece + 1, local, _loading });
                    }
                }
                if let Some(fetch) = fetches.last() {
                    state.loading.insert(key, fetch._loading.subscribe());
                }
            }
        }
        (fetches, waits)
    }

    async fn fetch(
        &self,
        id: ObjectId,
        fetch: Fetch,
        blocks: u32,
        cause: Cause,
    ) -> Result<Vec<(u32, Bytes)>> {
        let read = self.read(id, &fetch, blocks, cause).await;
        let mut state = self.state.lock();
        for piece in fetch.range.clone() {
            state.loading.remove(&(id, piece));
        }
        // Copies, as a slice would keep the whole answer in memory.
        let pieces: Vec<(u32, Bytes)> =
            fetch.range.zip(read?).map(|(piece, bytes)| (piece, Bytes::copy_from_slice(&bytes))).collect();
        let why = if cause == Cause::Readahead { Use::Later } else { Use::Now };
        for (piece, bytes) in &pieces {
            state.memory.insert((id, *piece), bytes.clone(), why);
        }
        Ok(pieces)
    }

    async fn read(&self, id: ObjectId, fetch: &Fetch, blocks: u32, cause: Cause) -> Result<Vec<Bytes>> {
        let range = fetch.range.clone();
        if let Some(disk) = self.disk.as_ref().filter(|_| fetch.local)
            && let Some(pieces) = disk.read(id, range.clone()).await
        {
            self.backing.remote.stats.local.hits(pieces.len());
            return Ok(pieces);
        }
        // If a second read has the same result, it is not an error of transmission.
        for _ in 0..2 {
            let bytes = self.backing.get_range(id, pieces::byte_range(range.clone(), blocks), cause).await?;
            let decoded = pieces::decode(&self.volume, id, range.start, &bytes);
            let Some(pieces) = decoded.filter(|pieces| pieces.len() == range.len()) else { continue };
            if let Some(disk) = &self.disk {
                self.backing.remote.stats.local.misses(pieces.len());
                disk.keep(id, range.start, &bytes);
            }
            return Ok(pieces);
        }
        Err(StoreError::corrupt(Name::Object(id), "its blocks are not those that were stored"))
    }
}
