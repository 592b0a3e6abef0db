//! A store in memory whose requests take time, fail and stall by a seed.
use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use segno_testkit::Rng;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Bytes a second on the way to the store, and as many on the way back: a network of 10 Gbit/s has little more.
pub const LINK: u64 = 1 << 30;

/// How requests go.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    pub latency: Duration,
    /// Of a hundred requests, how many fail like a 503.
    pub errors: u64,
    /// Of a hundred requests, how many take ten times as long.
    pub stalls: u64,
}

#[derive(Clone)]
pub struct SimulatedStore {
    inner: Arc<InMemory>,
    conditions: Conditions,
    rng: Arc<Mutex<Rng>>,
    sent: Arc<Mutex<Instant>>,
    received: Arc<Mutex<Instant>>,
}

/// The time that content takes on a way, behind what is on it already.
async fn transfer(way: &Mutex<Instant>, bytes: u64) {
    let arrives = {
        let mut busy = way.lock();
        *busy = (*busy).max(Instant::now()) + Duration::from_nanos(bytes * 1_000_000_000 / LINK);
        *busy
    };
    sleep_until(arrives).await;
}

impl SimulatedStore {
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        let way = || Arc::new(Mutex::new(Instant::now()));
        let rng = Arc::new(Mutex::new(Rng::new(seed)));
        Self { inner: Arc::default(), conditions, rng, sent: way(), received: way() }
    }

    /// The time of a request, and perhaps its failure, which has no effect on the store.
    async fn request(&self) -> Result<()> {
        let (stalls, fails) = {
            let mut rng = self.rng.lock();
            (rng.below(100) < self.conditions.stalls, rng.below(100) < self.conditions.errors)
        };
        sleep(self.conditions.latency * if stalls { 10 } else { 1 }).await;
        if fails { Err(Error::Generic { store: "memory", source: "503 Slow Down".into() }) } else { Ok(()) }
    }
}

impl fmt::Debug for SimulatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedStore")
    }
}

impl fmt::Display for SimulatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedStore")
    }
}

#[async_trait]
impl ObjectStore for SimulatedStore {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        transfer(&self.sent, payload.content_length() as u64).await;
        self.request().await?;
        self.inner.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.request().await?;
        let found = self.inner.get_opts(at, options).await?;
        transfer(&self.received, found.range.end - found.range.start).await;
        Ok(found)
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        stream::once(async move { store.request().await.map(|()| store.inner.delete_stream(paths)) })
            .try_flatten()
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        stream::once(async move { store.request().await.map(|()| store.inner.list(prefix.as_ref())) })
            .try_flatten()
            .boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix, offset) = (self.clone(), prefix.cloned(), offset.clone());
        stream::once(async move {
            store.request().await.map(|()| store.inner.list_with_offset(prefix.as_ref(), &offset))
        })
        .try_flatten()
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.request().await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.request().await?;
        self.inner.copy_opts(from, to, options).await
    }
}
