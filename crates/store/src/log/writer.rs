//! The writer: collects writes, stores them, and acknowledges commits in order.
use crate::fence::epoch::Session;
use crate::ids::Seq;
use crate::log::commit::{self, Marks};
use crate::log::commits::Commits;
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
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};

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
    slots: Semaphore,
    room: Semaphore,
    /// Locked after the state.
    commits: Mutex<Commits>,
    acked: watch::Sender<Seq>,
    /// Commits, and their bytes, since the last map.
    pub since_map: (AtomicU64, AtomicU64),
    /// Wakes the writer of maps.
    pub work: Notify,
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
            slots: Semaphore::new(UPLOADS),
            room: Semaphore::new(WAITING_BLOCKS),
            commits: Mutex::default(),
            acked: watch::Sender::new(Seq::NONE),
            since_map: Default::default(),
            work: Notify::new(),
        }
    }

    /// The error that ended writing, if any.
    pub(crate) fn failed(&self) -> Option<StoreError> {
        self.commits.lock().failed().cloned()
    }

    /// Ends writing: nothing is acknowledged from now on.
    pub(crate) fn fail(&self, why: &StoreError) {
        self.commits.lock().fail(why);
        self.room.close();
        self.acked.send_modify(|_| {});
    }

    fn check(&self) -> Result<()> {
        self.commits.lock().check()
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
        for upload in uploads {
            self.commits.lock().data_begun(upload.id);
            self.handle.spawn(self.clone().upload(upload));
        }
    }

    async fn upload(self: Arc<Self>, upload: Upload) {
        let Ok(_slot) = self.slots.acquire().await else { return };
        if let Err(e) = self.put_data(upload.id, &upload.content, Cause::Data).await {
            return self.fail(&e);
        }
        self.stored(upload.index, upload.content.len());
        let complete = self.commits.lock().data_stored(upload.id);
        self.create(complete);
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
        self.close_when(|state| state.seq != group, |_| ()).await?;
        self.wait_for(group).await
    }

    /// Closes the open group, unless `is_closed`, once the window has room. Then calls `after` before any other
    /// change.
    async fn close_when<R>(
        self: &Arc<Self>,
        is_closed: impl Fn(&State) -> bool,
        after: impl FnOnce(&mut State) -> R,
    ) -> Result<R> {
        let mut acked = self.acked.subscribe();
        loop {
            self.check()?;
            {
                let mut state = self.state.lock();
                if is_closed(&state) || self.close(&mut state)? {
                    return Ok(after(&mut state));
                }
            }
            if acked.changed().await.is_err() {
                return Err(self.closed());
            }
        }
    }

    /// Closes the open group, and starts its commit. `false` if too many commits are in flight.
    fn close(self: &Arc<Self>, state: &mut State) -> Result<bool> {
        if !self.commits.lock().has_room() {
            return Ok(false);
        }
        let group = state.close()?;
        self.start(group.uploads.clone());
        let complete = self.commits.lock().close(group);
        self.create(complete);
        Ok(true)
    }

    /// Like [`Self::flush`], and describes the state at that point. Returns the number of its commit with the
    /// description.
    pub(crate) async fn flush_and_describe<R>(
        self: &Arc<Self>,
        describe: impl FnOnce(&mut State) -> R,
    ) -> Result<(Seq, R)> {
        let describe = |state: &mut State| {
            self.backing.fix(state.seq.previous());
            let described = describe(state);
            self.since_map.0.store(0, Ordering::Relaxed);
            self.since_map.1.store(0, Ordering::Relaxed);
            (state.seq.previous(), described)
        };
        let (seq, described) = self.close_when(State::is_unchanged, describe).await?;
        self.wait_for(seq).await?;
        Ok((seq, described))
    }

    /// Starts to store a commit whose data objects are stored.
    fn create(self: &Arc<Self>, complete: Option<Group>) {
        if let Some(group) = complete {
            self.handle.spawn(self.clone().commit(group));
        }
    }

    async fn commit(self: Arc<Self>, group: Group) {
        if let Err(e) = self.store_commit(&group).await {
            return self.fail(&e);
        }
        for (index, content) in &group.inline {
            self.stored(*index, content.len());
        }
        let upto = self.commits.lock().stored(group.seq);
        self.acked.send_modify(|acked| *acked = upto.max(*acked));
    }

    async fn store_commit(&self, group: &Group) -> Result<()> {
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
        let acknowledged = self.commits.lock().acknowledged();
        Marks { stored: self.backing.stored(acknowledged), acknowledged }
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
