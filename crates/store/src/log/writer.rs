//! The writer: collects writes, stores them, and acknowledges commits in order.
use crate::fence::epoch::Session;
use crate::ids::Seq;
use crate::log::commit::{self, Marks, WINDOW};
use crate::log::read::reader::Reader;
use crate::log::state::{Group, State, Upload};
use crate::log::upload::backing::Backing;
use crate::log::upload::queue::UPLOADS;
use crate::stats::Cause;
use crate::wire::names::ObjectId;
use crate::wire::pieces;
use crate::{Result, StoreError};
use parking_lot::Mutex;
use segno_format::Block;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

/// Blocks that may wait for the store: 128 MiB.
const WAITING_BLOCKS: usize = 32 * 1024;

/// Commits after a map, and bytes of their objects, after which the next map is due.
pub(crate) const MAP_COMMITS: u64 = 1024;
const MAP_BYTES: u64 = 64 << 20;

/// The writer of a volume.
pub(crate) struct Writer {
    pub backing: Arc<Backing>,
    pub session: Session,
    handle: Handle,
    pub state: Arc<Mutex<State>>,
    reader: Arc<Reader>,
    /// Uploads of data objects of the open group.
    uploads: Mutex<Vec<JoinHandle<Result<()>>>>,
    slots: Semaphore,
    room: Semaphore,
    window: Arc<Semaphore>,
    acks: Mutex<Acks>,
    acked: watch::Sender<Seq>,
    /// Commits, and their bytes, since the last map.
    pub since_map: (AtomicU64, AtomicU64),
    /// Wakes the writer of maps.
    pub work: Notify,
}

/// Commits that were stored.
#[derive(Debug, Default)]
struct Acks {
    /// All commits up to this one are stored.
    upto: Seq,
    /// Later ones that are stored, with their places in the window.
    beyond: BTreeMap<Seq, OwnedSemaphorePermit>,
    failed: Option<StoreError>,
}

impl Writer {
    pub(crate) fn new(
        backing: Arc<Backing>,
        session: Session,
        state: Arc<Mutex<State>>,
        reader: Arc<Reader>,
        handle: Handle,
    ) -> Self {
        Self {
            backing,
            session,
            handle,
            state,
            reader,
            uploads: Mutex::default(),
            slots: Semaphore::new(UPLOADS),
            room: Semaphore::new(WAITING_BLOCKS),
            window: Arc::new(Semaphore::new(WINDOW as usize)),
            acks: Mutex::default(),
            acked: watch::Sender::new(Seq::NONE),
            since_map: Default::default(),
            work: Notify::new(),
        }
    }

    /// The error that ended writing, if any.
    pub(crate) fn failed(&self) -> Option<StoreError> {
        self.acks.lock().failed.clone()
    }

    /// Ends writing: nothing is acknowledged from now on.
    pub(crate) fn fail(&self, why: &StoreError) {
        self.acks.lock().failed.get_or_insert_with(|| why.clone());
        self.room.close();
        self.window.close();
        self.acked.send_modify(|_| {});
    }

    fn check(&self) -> Result<()> {
        self.failed().map_or(Ok(()), Err)
    }

    fn closed(&self) -> StoreError {
        self.failed().unwrap_or_else(StoreError::ended)
    }

    /// Collects blocks; waits while too many blocks wait for the store.
    pub(crate) async fn write(self: &Arc<Self>, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.check()?;
        if self.state.lock().is_long() {
            self.flush().await?;
        }
        let permit = self.room.acquire_many(blocks.len() as u32).await.map_err(|_| self.closed())?;
        let mut state = self.state.lock();
        let (uploads, spared) = state.write(addr, blocks)?;
        permit.forget();
        self.start(uploads);
        drop(state);
        self.room.add_permits(spared);
        Ok(())
    }

    /// Applies a change to the state; stores the data objects that it completes.
    pub(crate) fn change(self: &Arc<Self>, change: impl FnOnce(&mut State) -> Vec<Upload>) -> Result<()> {
        self.check()?;
        let mut state = self.state.lock();
        let uploads = change(&mut state);
        self.start(uploads);
        Ok(())
    }

    /// Starts to store data objects of the open group. The state is locked, so they belong to it.
    fn start(self: &Arc<Self>, uploads: Vec<Upload>) {
        let started = uploads.into_iter().map(|upload| self.handle.spawn(self.clone().upload(upload)));
        self.uploads.lock().extend(started);
    }

    async fn upload(self: Arc<Self>, upload: Upload) -> Result<()> {
        let _slot = self.slots.acquire().await.map_err(|_| self.closed())?;
        self.put_data(upload.id, &upload.content, Cause::Data).await.inspect_err(|e| self.fail(e))?;
        self.stored(upload.index, upload.content.len());
        Ok(())
    }

    pub(crate) async fn put_data(&self, id: ObjectId, content: &[u8], cause: Cause) -> Result<()> {
        let blocks = content.len() / segno_format::BLOCK_SIZE;
        let mut bytes = Vec::with_capacity(pieces::encoded_len(blocks as u32));
        pieces::encode(&self.session.volume, id, &[content], &mut bytes);
        self.backing.put(id, bytes.into(), cause).await
    }

    /// Content is in the store and need not be kept.
    fn stored(&self, index: u32, bytes: usize) {
        self.state.lock().content.remove(&index);
        self.room.add_permits(bytes / segno_format::BLOCK_SIZE);
    }

    /// Returns when everything written before the call is stored.
    pub(crate) async fn flush(self: &Arc<Self>) -> Result<()> {
        let group = {
            let state = self.state.lock();
            if state.is_unchanged() { state.seq.previous() } else { state.seq }
        };
        self.commit_group(group).await
    }

    /// Waits until the store has everything that was acknowledged before the call.
    pub(crate) async fn settle(&self) -> Result<()> {
        let upto = *self.acked.borrow();
        self.backing.settled(upto).await
    }

    /// Like [`Self::flush`], but waits until everything is in the store.
    pub(crate) async fn drain(self: &Arc<Self>) -> Result<()> {
        self.flush().await?;
        let upto = *self.acked.borrow();
        self.backing.drain(upto).await
    }

    async fn commit_group(self: &Arc<Self>, group: Seq) -> Result<()> {
        self.check()?;
        if self.state.lock().seq == group {
            let permit = self.window.clone().acquire_owned().await.map_err(|_| self.closed())?;
            let mut state = self.state.lock();
            // Another flush may have closed it.
            if state.seq == group {
                self.close(&mut state, permit)?;
            }
        }
        self.wait_for(group).await
    }

    /// Closes the open group and starts its commit.
    fn close(self: &Arc<Self>, state: &mut State, permit: OwnedSemaphorePermit) -> Result<()> {
        let group = state.close()?;
        self.start(group.uploads.clone());
        let uploads = std::mem::take(&mut *self.uploads.lock());
        self.handle.spawn(self.clone().commit(group, uploads, permit));
        Ok(())
    }

    /// Like [`Self::flush`], and describes the state at that point. Returns the number of its commit with the
    /// description.
    pub(crate) async fn flush_and_describe<R>(
        self: &Arc<Self>,
        describe: impl FnOnce(&mut State) -> R,
    ) -> Result<(Seq, R)> {
        let permit = self.window.clone().acquire_owned().await.map_err(|_| self.closed())?;
        let (seq, described) = {
            let mut state = self.state.lock();
            if !state.is_unchanged() {
                self.close(&mut state, permit)?;
            }
            self.backing.fix(state.seq.previous());
            let described = describe(&mut state);
            self.since_map.0.store(0, Ordering::Relaxed);
            self.since_map.1.store(0, Ordering::Relaxed);
            (state.seq.previous(), described)
        };
        self.wait_for(seq).await?;
        Ok((seq, described))
    }

    /// Stores a commit after all its data objects. So a writer that seals the epoch after it can rely on
    /// them, and this writer acknowledges no commit that a later writer leaves out.
    async fn commit(
        self: Arc<Self>,
        group: Group,
        uploads: Vec<JoinHandle<Result<()>>>,
        permit: OwnedSemaphorePermit,
    ) {
        let done = self.store_commit(&group, uploads).await;
        if let Err(e) = &done {
            self.fail(e);
            return;
        }
        for (index, content) in &group.inline {
            self.stored(*index, content.len());
        }
        self.acknowledge(group.seq, permit);
    }

    async fn store_commit(&self, group: &Group, uploads: Vec<JoinHandle<Result<()>>>) -> Result<()> {
        for upload in uploads {
            upload.await.map_err(|e| StoreError::Runtime(e.to_string()))??;
        }
        let inline: Vec<&[u8]> = group.inline.iter().map(|(_, content)| content.as_slice()).collect();
        let bytes = commit::commit(&self.session, self.marks(), group.seq, &group.ops, &inline);
        let commits = self.since_map.0.fetch_add(1, Ordering::Relaxed) + 1;
        let logged = self.since_map.1.fetch_add(bytes.len() as u64, Ordering::Relaxed) + bytes.len() as u64;
        let id = ObjectId::Log(self.session.place(group.seq));
        self.backing.put(id, bytes, Cause::Commit).await?;
        self.reader.cache.keep(id, &inline);
        if commits >= MAP_COMMITS || logged >= MAP_BYTES {
            self.work.notify_one();
        }
        Ok(())
    }

    /// The commits that are durable now.
    pub(crate) fn marks(&self) -> Marks {
        let acknowledged = self.acks.lock().upto;
        Marks { stored: self.backing.stored(acknowledged), acknowledged }
    }

    fn acknowledge(&self, seq: Seq, permit: OwnedSemaphorePermit) {
        let upto = {
            let mut acks = self.acks.lock();
            acks.beyond.insert(seq, permit);
            while let Some((&next, _)) = acks.beyond.first_key_value()
                && acks.upto.next() == Ok(next)
            {
                acks.beyond.remove(&next);
                acks.upto = next;
            }
            acks.upto
        };
        self.acked.send_modify(|acked| *acked = upto.max(*acked));
    }

    async fn wait_for(&self, seq: Seq) -> Result<()> {
        let mut acked = self.acked.subscribe();
        loop {
            if *acked.borrow_and_update() >= seq {
                return Ok(());
            }
            self.check()?;
            if acked.changed().await.is_err() {
                return Err(self.closed());
            }
        }
    }

    /// Ends this epoch with a seal after its last commit.
    pub(crate) async fn seal(&self) -> Result<()> {
        let seq = self.state.lock().seq;
        let place = self.session.place(seq);
        let seal = commit::seal(&self.session, place);
        self.backing.remote.put_object(ObjectId::Log(place), seal, Cause::Commit).await
    }

    /// Whether a map is due.
    pub(crate) fn map_is_due(&self) -> bool {
        self.since_map.0.load(Ordering::Relaxed) >= MAP_COMMITS
            || self.since_map.1.load(Ordering::Relaxed) >= MAP_BYTES
    }
}
