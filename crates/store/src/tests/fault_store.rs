//! A store in memory whose faults and delays follow from a seed. Under a paused clock a run is a function of
//! the seed.
use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use segno_testkit::Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Chances in a hundred, and the longest delay.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// A request fails without effect.
    pub error: u64,
    /// It has its effect, and the answer is lost.
    pub lost: u64,
    /// A PUT stores a part and fails.
    pub partial: u64,
    /// A listing omits the newest objects.
    pub stale: u64,
    /// A PUT of a client that was cut off arrives before a request of another one.
    pub late: u64,
    /// Exponent: delays are up to 2^n milliseconds, small ones as likely as large ones.
    pub delay_bits: u64,
    /// Additional time of every request.
    pub latency: Duration,
    /// Bytes a second that all requests share, each way; 0 if there is no limit.
    pub rate: u64,
    /// Conditional creation is ignored.
    pub unconditional: bool,
    /// Every request fails with this error, without effect.
    pub answer: Option<fn() -> Error>,
}

#[derive(Clone)]
struct Object {
    bytes: Bytes,
    stored: Instant,
}

/// The name of an object, and a change of its content.
type Alteration = (String, fn(&mut Vec<u8>));

/// A PUT under way.
struct Put {
    client: Arc<AtomicBool>,
    name: String,
    bytes: Bytes,
    create: bool,
}

struct Inner {
    objects: BTreeMap<String, Object>,
    rng: Rng,
    faults: Faults,
    /// Requests so far, and how many may still be answered.
    requests: u64,
    left: Option<u64>,
    puts: u64,
    /// When content on its way will have been sent, and received.
    link: [Option<Instant>; 2],
    /// PUTs so far, and those under way.
    begun: u64,
    flying: BTreeMap<u64, Put>,
    altered_once: Option<Alteration>,
}

impl Inner {
    /// `false` if the object exists and must not.
    fn put(&mut self, name: String, bytes: Bytes, create: bool, stored: Instant) -> bool {
        let refused = create && self.objects.contains_key(&name);
        if !refused {
            self.objects.insert(name, Object { bytes, stored });
        }
        !refused
    }

    fn arrive_late(&mut self) {
        let cut: Vec<u64> =
            self.flying.iter().filter(|(_, p)| p.client.load(Ordering::SeqCst)).map(|(n, _)| *n).collect();
        let late = self.faults.late;
        if late == 0 || cut.is_empty() || self.rng.below(100) >= late {
            return;
        }
        let at = self.rng.below(cut.len() as u64) as usize;
        if let Some(put) = self.flying.remove(&cut[at]) {
            self.put(put.name, put.bytes, put.create, Instant::now());
        }
    }
}

const SENT: usize = 0;
const RECEIVED: usize = 1;

/// Handles of one store; each may be cut off alone.
#[derive(Clone)]
pub(crate) struct FaultStore {
    inner: Arc<Mutex<Inner>>,
    begun: Instant,
    cut: Arc<AtomicBool>,
}

impl FaultStore {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let inner = Inner {
            objects: BTreeMap::new(),
            rng: Rng::new(seed),
            faults,
            requests: 0,
            left: None,
            puts: 0,
            link: [None; 2],
            begun: 0,
            flying: BTreeMap::new(),
            altered_once: None,
        };
        Self { inner: Arc::new(Mutex::new(inner)), begun: Instant::now(), cut: Arc::default() }
    }

    /// Another client of the store.
    pub(crate) fn client(&self) -> Self {
        Self { cut: Arc::default(), ..self.clone() }
    }

    /// Another store with the same objects.
    pub(crate) fn copied(&self) -> Self {
        let copy = Self { begun: self.begun, ..Self::new(1, Faults::default()) };
        copy.inner.lock().objects = self.inner.lock().objects.clone();
        copy
    }

    /// A store with these objects.
    pub(crate) fn holding(seed: u64, objects: &BTreeMap<String, Bytes>) -> Self {
        let store = Self::new(seed, Faults::default());
        objects.iter().for_each(|(name, bytes)| store.place(name, bytes, false));
        store
    }

    /// All objects.
    pub(crate) fn objects(&self) -> BTreeMap<String, Bytes> {
        let inner = self.inner.lock();
        inner.objects.iter().map(|(name, object)| (name.clone(), object.bytes.clone())).collect()
    }

    /// Lets a request to store this take effect now.
    pub(crate) fn place(&self, name: &str, bytes: &Bytes, create: bool) {
        self.inner.lock().put(name.to_owned(), bytes.clone(), create, Instant::now());
    }

    /// This client is cut off: its requests reach nothing, and no answer reaches it.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    /// Cuts the client off after `requests` more requests of all clients.
    pub(crate) fn cut_after(&self, requests: u64) {
        self.inner.lock().left = Some(requests);
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        let mut inner = self.inner.lock();
        (inner.faults, inner.left) = (faults, None);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.inner.lock().objects.keys().cloned().collect()
    }

    pub(crate) fn alter(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.inner.lock();
        let object = inner.objects.get_mut(name).unwrap();
        let mut bytes = object.bytes.to_vec();
        change(&mut bytes);
        object.bytes = bytes.into();
    }

    /// The next request that reads the object gets it altered.
    pub(crate) fn alter_once(&self, name: &str, change: fn(&mut Vec<u8>)) {
        self.inner.lock().altered_once = Some((name.to_owned(), change));
    }

    pub(crate) fn remove(&self, name: &str) {
        self.inner.lock().objects.remove(name);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.inner.lock().requests
    }

    pub(crate) fn puts(&self) -> u64 {
        self.inner.lock().puts
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// Delays on both sides of the effect, so that requests overtake each other.
    async fn request<T>(&self, effect: impl FnOnce(&mut Inner, Chance) -> Result<T>) -> Result<T> {
        let (before, after, chance, latency) = {
            let mut inner = self.inner.lock();
            inner.requests += 1;
            if !self.is_cut() {
                inner.arrive_late();
            }
            match &mut inner.left {
                Some(0) => self.cut(),
                Some(left) => *left -= 1,
                None => {}
            }
            let bits = inner.faults.delay_bits;
            let mut delay = || match bits {
                0 => Duration::ZERO,
                bits => {
                    let most = 1 << inner.rng.below(bits);
                    Duration::from_millis(inner.rng.below(most + 1))
                }
            };
            let (before, after) = (delay(), delay());
            let draw = inner.rng.below(100);
            let f = inner.faults;
            let chance = if draw < f.error {
                Chance::Error
            } else if draw < f.error + f.lost {
                Chance::Lost
            } else if draw < f.error + f.lost + f.partial {
                Chance::Partial
            } else if draw < f.error + f.lost + f.partial + f.stale {
                Chance::Stale
            } else {
                Chance::None
            };
            (before, after, chance, f.latency)
        };
        if latency + before > Duration::ZERO {
            sleep(latency + before).await;
        }
        if self.is_cut() {
            std::future::pending::<()>().await;
        }
        let answer = self.inner.lock().faults.answer;
        let done = match answer {
            Some(answer) => Err(answer()),
            None if chance == Chance::Error => Err(failure()),
            None => effect(&mut self.inner.lock(), chance),
        };
        if after > Duration::ZERO {
            sleep(after).await;
        }
        if self.is_cut() {
            std::future::pending::<()>().await;
        }
        if chance == Chance::Lost { Err(failure()) } else { done }
    }

    /// Waits for the transfer of content, after all content already on its way.
    async fn transfer(&self, way: usize, bytes: usize) {
        let until = {
            let mut inner = self.inner.lock();
            let rate = inner.faults.rate;
            if rate == 0 {
                return;
            }
            let begun = inner.link[way].unwrap_or(self.begun).max(Instant::now());
            let until = begun + Duration::from_nanos(bytes as u64 * 1_000_000_000 / rate);
            inner.link[way] = Some(until);
            until
        };
        sleep_until(until).await;
    }

    fn meta(&self, name: &str, object: &Object) -> ObjectMeta {
        let age = object.stored.saturating_duration_since(self.begun);
        let last_modified = DateTime::<Utc>::from_timestamp_millis(age.as_millis() as i64).unwrap();
        ObjectMeta {
            location: Path::from(name),
            last_modified,
            size: object.bytes.len() as u64,
            e_tag: None,
            version: None,
        }
    }

    async fn listed(&self, prefix: Option<Path>, offset: Option<Path>) -> Result<Vec<ObjectMeta>> {
        let under = prefix.map(|p| format!("{p}/")).unwrap_or_default();
        let after = offset.map(|o| o.to_string()).unwrap_or_default();
        self.request(|inner, chance| {
            let newest = inner.objects.values().map(|o| o.stored).max();
            let hidden = |o: &Object| {
                chance == Chance::Stale && newest.is_some_and(|n| o.stored + Duration::from_millis(1) >= n)
            };
            let all = inner
                .objects
                .iter()
                .filter(|(name, object)| name.starts_with(&under) && **name > after && !hidden(object));
            Ok(all.map(|(name, object)| self.meta(name, object)).collect())
        })
        .await
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Chance {
    None,
    Error,
    Lost,
    Partial,
    Stale,
}

fn failure() -> Error {
    Error::Generic { store: "fault", source: "503 Slow Down".into() }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultStore")
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultStore")
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let (name, bytes) = (location.to_string(), Bytes::from(payload));
        self.transfer(SENT, bytes.len()).await;
        let stored = Instant::now();
        let number = {
            let mut inner = self.inner.lock();
            let create = opts.mode == PutMode::Create && !inner.faults.unconditional;
            let put = Put { client: self.cut.clone(), name: name.clone(), bytes: bytes.clone(), create };
            inner.begun += 1;
            let number = inner.begun;
            inner.flying.insert(number, put);
            number
        };
        let done = self.request(|inner, chance| {
            inner.puts += 1;
            let create = inner.flying.remove(&number).is_some_and(|put| put.create);
            if create && inner.objects.contains_key(&name) {
                return Err(Error::AlreadyExists { path: name, source: "412".into() });
            }
            let is_partial = chance == Chance::Partial;
            let kept = if is_partial { inner.rng.below(bytes.len() as u64) as usize } else { bytes.len() };
            inner.put(name, bytes.slice(..kept), create, stored);
            if is_partial {
                return Err(failure());
            }
            Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
        });
        let done = done.await;
        // It failed without effect.
        self.inner.lock().flying.remove(&number);
        done
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented { operation: "multipart".into(), implementer: "fault".into() })
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let name = location.to_string();
        let absent = || Error::NotFound { path: location.to_string(), source: "404".into() };
        let found = self.request(|inner, _| {
            let mut object = inner.objects.get(&name).cloned().ok_or_else(absent)?;
            if let Some((_, change)) = inner.altered_once.take_if(|(altered, _)| *altered == name) {
                let mut bytes = object.bytes.to_vec();
                change(&mut bytes);
                object.bytes = bytes.into();
            }
            let len = object.bytes.len() as u64;
            let range = match &options.range {
                Some(range) => {
                    range.as_range(len).map_err(|e| Error::Generic { store: "fault", source: e.into() })?
                }
                None => 0..len,
            };
            let part = object.bytes.slice(range.start as usize..range.end as usize);
            Ok(GetResult {
                payload: GetResultPayload::Stream(stream::once(async { Ok(part) }).boxed()),
                meta: self.meta(&name, &object),
                range,
                attributes: Attributes::default(),
                extensions: Default::default(),
            })
        });
        let found = found.await?;
        self.transfer(RECEIVED, (found.range.end - found.range.start) as usize).await;
        Ok(found)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        locations
            .and_then(move |path| {
                let store = store.clone();
                async move {
                    let name = path.to_string();
                    store
                        .request(|inner, _| {
                            inner.objects.remove(&name);
                            Ok(())
                        })
                        .await?;
                    Ok(path)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        stream::once(async move { store.listed(prefix, None).await })
            .map_ok(|metas| stream::iter(metas.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix, offset) = (self.clone(), prefix.cloned(), offset.clone());
        stream::once(async move { store.listed(prefix, Some(offset)).await })
            .map_ok(|metas| stream::iter(metas.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(Error::NotImplemented { operation: "delimiter".into(), implementer: "fault".into() })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(Error::NotImplemented { operation: "copy".into(), implementer: "fault".into() })
    }
}
