//! A client of the store that records the changes of its requests and of the files in its cache.
use super::super::fault_store::FaultStore;
use super::super::mem_spool::MemSpool;
use super::log::{Change, Log};
use crate::local::spool::Spool;
use crate::wire::names::ObjectId;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone)]
pub(super) struct Recorder {
    store: FaultStore,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    log: Log,
    requests: u64,
    /// Requests of an earlier client that arrive before the request of that number.
    late: Vec<(u64, Change)>,
}

impl Recorder {
    pub(super) fn new(store: FaultStore, log: Log, late: Vec<(u64, Change)>) -> Self {
        Self { store, inner: Arc::new(Mutex::new(Inner { log, requests: 0, late })) }
    }

    /// The volume is mounted.
    pub(super) fn mounted(&self) {
        let mut inner = self.inner.lock();
        inner.log.requests = inner.requests;
        inner.log.mounted();
    }

    /// Ends the recording, and returns it.
    pub(super) fn take(&self) -> Log {
        std::mem::take(&mut self.inner.lock().log)
    }

    /// The client's cache.
    pub(super) fn spool(&self, spool: MemSpool) -> Arc<dyn Spool> {
        Arc::new(RecordedShelf { spool, recorder: self.clone() })
    }

    fn request(&self) {
        let mut inner = self.inner.lock();
        inner.requests += 1;
        let now = inner.requests;
        let (due, later) = std::mem::take(&mut inner.late).into_iter().partition(|(at, _)| *at <= now);
        inner.late = later;
        let due: Vec<(u64, Change)> = due;
        for (_, change) in due {
            match &change {
                Change::Put { name, bytes, create } => self.store.place(name, bytes, *create),
                Change::Delete(name) => self.store.remove(name),
                Change::Writeback(..) | Change::Unstage(_) => {}
            }
            let at = inner.log.begin(change);
            inner.log.end(at, false);
        }
    }

    async fn change<T, E>(
        &self,
        change: Change,
        effect: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, E> {
        let at = self.inner.lock().log.begin(change);
        let done = effect.await;
        self.inner.lock().log.end(at, done.is_err());
        done
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

#[async_trait]
impl ObjectStore for Recorder {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.request();
        let create = opts.mode == PutMode::Create;
        let change = Change::Put { name: location.to_string(), bytes: payload.clone().into(), create };
        self.change(change, self.store.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        o: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(at, o).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.request();
        self.store.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let recorder = self.clone();
        let delete = move |path: Path| {
            let recorder = recorder.clone();
            async move {
                recorder.request();
                let change = Change::Delete(path.to_string());
                let one = path.clone();
                let mut deleted = recorder.store.delete_stream(stream::once(async { Ok(one) }).boxed());
                recorder.change(change, deleted.try_next()).await.map(|found| found.unwrap_or(path))
            }
        };
        locations.and_then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.request();
        self.store.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, at: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.request();
        self.store.list_with_offset(prefix, at)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

struct RecordedShelf {
    spool: MemSpool,
    recorder: Recorder,
}

impl Spool for RecordedShelf {
    fn put(&self, id: ObjectId, bytes: Bytes) -> BoxFuture<'_, io::Result<()>> {
        let change = Change::Writeback(id, bytes.clone());
        Box::pin(self.recorder.change(change, self.spool.put(id, bytes)))
    }

    fn read(&self, id: ObjectId, range: Option<Range<u64>>) -> BoxFuture<'_, io::Result<Option<Bytes>>> {
        self.spool.read(id, range)
    }

    fn remove(&self, id: ObjectId) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(self.recorder.change(Change::Unstage(id), self.spool.remove(id)))
    }

    fn list(&self) -> BoxFuture<'_, io::Result<Vec<ObjectId>>> {
        self.spool.list()
    }
}
