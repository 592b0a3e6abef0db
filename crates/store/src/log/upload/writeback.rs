//! Write-back: objects are acknowledged once they are on local disk, and uploaded afterwards in an order that
//! always leaves a prefix of the commits in the store. Commits that wait for others are uploaded as one
//! object.
use crate::fence::epoch::Session;
use crate::ids::Seq;
use crate::local::spool::Spool;
use crate::log::commit::Marks;
use crate::log::state::State;
use crate::log::upload::merge::{Merged, merge};
use crate::log::upload::queue::{Item, Location, Queue, Work};
use crate::stats::Cause;
use crate::wire::names::{Name, ObjectId};
use crate::wire::remote::Remote;
use crate::{Result, StoreError};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use std::io::ErrorKind;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::sleep;

/// Unit in which room is counted, in bytes.
const UNIT: u64 = 4096;
/// Files read at a time.
const READS: usize = 8;
/// Pause before an upload that failed for the whole patience of a request is tried again.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Writeback {
    remote: Arc<Remote>,
    spool: Arc<dyn Spool>,
    handle: Handle,
    /// Bytes that may wait on disk, in units.
    room: Semaphore,
    limit: u32,
    session: Session,
    /// Locked before the queue.
    state: Arc<Mutex<State>>,
    queue: Mutex<Queue>,
    failed: Mutex<Option<StoreError>>,
    /// Changes whenever something was uploaded or failed.
    progress: watch::Sender<()>,
    /// Tasks that wait for an upload.
    waiters: AtomicU64,
}

/// A task that waits for an upload.
struct Waiter<'a>(&'a AtomicU64);

impl<'a> Waiter<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Writeback {
    /// Up to `limit` bytes wait on disk.
    pub(crate) fn new(
        remote: Arc<Remote>,
        spool: Arc<dyn Spool>,
        limit: u64,
        queue: Queue,
        (session, state): (Session, Arc<Mutex<State>>),
        handle: Handle,
    ) -> Self {
        let limit = u32::try_from(limit / UNIT).unwrap_or(u32::MAX);
        Self {
            remote,
            spool,
            handle,
            room: Semaphore::new(limit as usize),
            limit,
            session,
            state,
            queue: Mutex::new(queue),
            failed: Mutex::new(None),
            progress: watch::Sender::new(()),
            waiters: AtomicU64::new(0),
        }
    }

    /// Stores an object on disk, or in the store if the disk fails.
    pub(crate) async fn put(self: &Arc<Self>, id: ObjectId, bytes: Bytes, cause: Cause) -> Result<()> {
        let room = self.room(bytes.len()).await?;
        let item = |memory| Item { bytes: bytes.len() as u64, memory, cause };
        if self.spool.put(id, bytes.clone()).await.is_ok() {
            room.forget();
            self.push(id, item(None));
            return Ok(());
        }
        drop(room);
        self.remote.stats.local.error();
        self.push(id, item(Some(bytes.clone())));
        let _waiter = Waiter::new(&self.waiters);
        self.until(|queue| queue.get(id).is_none()).await
    }

    /// Units of an object; one that is larger than the limit takes all.
    fn units(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.limit)
    }

    /// Waits until `bytes` bytes fit.
    async fn room(&self, bytes: usize) -> Result<SemaphorePermit<'_>> {
        let units = self.units(bytes as u64);
        if let Ok(room) = self.room.try_acquire_many(units) {
            return Ok(room);
        }
        let _waiter = Waiter::new(&self.waiters);
        self.room.acquire_many(units).await.map_err(|_| self.why())
    }

    fn push(self: &Arc<Self>, id: ObjectId, item: Item) {
        self.change(|queue| queue.push(id, item));
        self.pump();
    }

    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let mut queue = self.queue.lock();
        change(&mut queue);
        self.remote.stats.local.pending(queue.pending());
    }

    /// Begins all uploads that may begin.
    fn pump(self: &Arc<Self>) {
        let mut queue = self.queue.lock();
        while let Some(work) = queue.begin() {
            match work {
                Work::One(id, item) => self.handle.spawn(self.clone().upload(id, item)),
                Work::Merge(seqs) => self.handle.spawn(self.clone().upload_merged(seqs)),
            };
        }
    }

    async fn upload(self: Arc<Self>, id: ObjectId, item: Item) {
        if let Err(e) = self.send(id, &item).await {
            self.fail(&e);
            return;
        }
        self.change(|queue| queue.finish(id));
        self.forget(vec![(id, item)]).await;
    }

    async fn upload_merged(self: Arc<Self>, seqs: RangeInclusive<Seq>) {
        if let Err(e) = self.send_merged(seqs.clone()).await {
            self.fail(&e);
            return;
        }
        let mut taken = Vec::new();
        self.change(|queue| taken = queue.finish_commits(seqs));
        self.forget(taken).await;
    }

    /// Releases objects that the store has.
    async fn forget(self: &Arc<Self>, items: Vec<(ObjectId, Item)>) {
        self.pump();
        for (id, item) in items.into_iter().filter(|(_, item)| item.memory.is_none()) {
            // A file that stays is found by the next mount.
            let _stays = self.spool.remove(id).await;
            self.room.add_permits(self.units(item.bytes) as usize);
        }
        self.progress.send_modify(|()| {});
    }

    /// Uploads commits as one object, after the data object with their inline blocks.
    async fn send_merged(&self, seqs: RangeInclusive<Seq>) -> Result<()> {
        let log = |seq| ObjectId::Log(self.session.place(seq));
        let first = log(*seqs.start());
        let read = |seq| async move { Ok::<_, StoreError>((seq, read(&*self.spool, log(seq)).await?)) };
        let all: Vec<_> =
            stream::iter(seqs.start().up_to(*seqs.end())).map(read).buffered(READS).try_collect().await?;
        let data = self.state.lock().data_id();
        let stored = self.stored();
        let marks = Marks { stored, acknowledged: stored };
        let merged = merge(&self.session, marks, data, &all)?;
        if !self.place(seqs, first, data, &merged) {
            for (seq, bytes) in all {
                self.send_bytes(log(seq), bytes, Cause::Commit).await?;
            }
            return Ok(());
        }
        if let Some(blocks) = merged.data {
            self.send_bytes(data, blocks, Cause::Data).await?;
            self.queue.lock().finish_merged(data);
        }
        self.send_bytes(first, merged.commit, Cause::Commit).await
    }

    /// Makes the state refer to the merged commits. `false` if a map is being written that names them as they
    /// are.
    fn place(&self, seqs: RangeInclusive<Seq>, first: ObjectId, data: ObjectId, merged: &Merged) -> bool {
        let mut state = self.state.lock();
        let blocks = merged.data.clone().map(|blocks| (data, blocks));
        let may = self.queue.lock().merge(seqs, blocks);
        if may {
            state.merge(merged.data.as_ref().map(|_| data), first, &merged.bases);
        }
        may
    }

    /// Ensures that commits up to this one that are not merged yet are uploaded as they are.
    pub(crate) fn fix(&self, upto: Seq) {
        self.queue.lock().fix(upto);
    }

    async fn send(&self, id: ObjectId, item: &Item) -> Result<()> {
        let bytes = match &item.memory {
            Some(bytes) => bytes.clone(),
            None => read(&*self.spool, id).await?,
        };
        self.send_bytes(id, bytes, item.cause).await
    }

    /// Uploads an object. While no task waits for it, a store that does not answer does not stop the volume.
    async fn send_bytes(&self, id: ObjectId, bytes: Bytes, cause: Cause) -> Result<()> {
        loop {
            let sent = self.remote.put_object(id, bytes.clone(), cause).await;
            match sent {
                Err(StoreError::Request { .. }) if self.waiters.load(Ordering::Relaxed) == 0 => {
                    sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }

    /// Reads a part of an object up to its end, if it is not uploaded yet.
    pub(crate) async fn get_range(&self, id: ObjectId, range: Range<u64>) -> Result<Option<Bytes>> {
        for _ in 0..2 {
            let found = self.queue.lock().find(id);
            match found {
                Location::Store => return Ok(None),
                Location::Merged => {
                    return Err(StoreError::Missing { object: Name::Object(id).to_string() });
                }
                Location::Memory(bytes) => {
                    let end = bytes.len().min(range.end as usize);
                    return Ok(Some(bytes.slice(end.min(range.start as usize)..end)));
                }
                Location::Disk => {
                    let read = self.spool.read(id, Some(range.clone())).await;
                    if let Some(bytes) = read.map_err(|e| StoreError::unreadable(id, &e))? {
                        return Ok(Some(bytes));
                    }
                    // It was uploaded, and removed, since.
                }
            }
        }
        Err(StoreError::unreadable(id, &ErrorKind::NotFound.into()))
    }

    /// The commit up to which all are in the store.
    pub(crate) fn stored(&self) -> Seq {
        self.queue.lock().upto()
    }

    /// Waits until the store has all commits up to this one.
    pub(crate) async fn settled(&self, seq: Seq) -> Result<()> {
        self.until(|queue| queue.upto() >= seq).await
    }

    /// Like [`Self::settled`], for a caller that reports failures: the volume stops if the store fails.
    pub(crate) async fn drain(&self, seq: Seq) -> Result<()> {
        let _waiter = Waiter::new(&self.waiters);
        self.settled(seq).await
    }

    async fn until(&self, done: impl Fn(&Queue) -> bool) -> Result<()> {
        let mut progress = self.progress.subscribe();
        loop {
            progress.mark_unchanged();
            if done(&self.queue.lock()) {
                return Ok(());
            }
            if let Some(why) = self.failed.lock().clone() {
                return Err(why);
            }
            if progress.changed().await.is_err() {
                return Err(self.why());
            }
        }
    }

    fn fail(&self, why: &StoreError) {
        self.failed.lock().get_or_insert_with(|| why.clone());
        self.room.close();
        self.progress.send_modify(|()| {});
    }

    fn why(&self) -> StoreError {
        self.failed.lock().clone().unwrap_or_else(StoreError::ended)
    }

    /// Returns when an upload has failed for good.
    pub(crate) async fn failure(&self) -> StoreError {
        match self.until(|_| false).await {
            Err(why) => why,
            Ok(()) => self.why(),
        }
    }
}

/// Reads a whole object from disk.
pub(crate) async fn read(spool: &dyn Spool, id: ObjectId) -> Result<Bytes> {
    let found = spool.read(id, None).await.and_then(|bytes| bytes.ok_or(ErrorKind::NotFound.into()));
    found.map_err(|e| StoreError::unreadable(id, &e))
}
