//! Requests to the store: names under the prefix, repetition of failed requests, counters.
use crate::answer::Answer;
use crate::names::{Name, ObjectId};
use crate::notice::{Notice, Observer, UNOBSERVED};
use crate::stats::{Cause, Stats};
use crate::{Result, StoreError};
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
};
use parking_lot::Mutex;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// First pause before a request is repeated; it doubles up to the last one.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_secs(5);

/// A wait that is longer is announced, and announced again while it lasts.
const ANNOUNCED_AFTER: Duration = Duration::from_secs(3);
const ANNOUNCED_AGAIN: Duration = Duration::from_secs(60);

/// The only reason why a name that is stored could be absent.
const NO_BUCKET: &str = "the bucket does not exist";

/// The store below a prefix.
pub(crate) struct Remote {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    pub stats: Stats,
    /// How long a request is repeated, in milliseconds.
    patience: AtomicU64,
    /// A request without an answer is given up, too, when that time is over.
    bounded: AtomicBool,
    /// The store ignores conditional creation, so absence is looked up instead.
    unfenced: AtomicBool,
    jitter: AtomicU64,
    observer: Observer,
    /// When a wait was announced, until a request is answered.
    announced: Mutex<Option<Instant>>,
}

/// A request that was not answered as it should.
struct Waiting<'a> {
    op: &'static str,
    object: &'a str,
    begun: Instant,
    /// The last answer.
    last: Option<&'a Answer>,
}

impl Waiting<'_> {
    fn why(&self) -> &str {
        match self.last {
            Some(Answer::Outage(why) | Answer::Denied(why)) => why,
            _ => "no answer",
        }
    }

    fn notice(&self) -> Notice {
        let why = self.why().to_owned();
        match self.last {
            Some(Answer::Denied(_)) => Notice::Denied { why },
            _ => Notice::Waiting { op: self.op, object: self.object.to_owned(), why },
        }
    }
}

/// Outcome of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Created {
    /// The object is there with our content.
    Ours,
    /// It was there, with this content.
    Other(Bytes),
}

impl Remote {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, prefix: Path, patience: Duration) -> Self {
        Self {
            store,
            prefix,
            stats: Stats::default(),
            patience: AtomicU64::new(patience.as_millis() as u64),
            bounded: false.into(),
            unfenced: false.into(),
            jitter: AtomicU64::new(1),
            observer: UNOBSERVED,
            announced: Mutex::new(None),
        }
    }

    /// Reports to an observer.
    pub(crate) fn observed(self, observer: Observer) -> Self {
        Self { observer, ..self }
    }

    pub(crate) fn notify(&self, notice: &Notice) {
        (self.observer)(notice);
    }

    pub(crate) fn set_patience(&self, patience: Duration) {
        self.patience.store(patience.as_millis() as u64, Ordering::Relaxed);
    }

    /// From now on `patience` includes the time for which a request waits for its answer. While a volume is opened, slow answers
    /// are awaited.
    pub(crate) fn bound_requests(&self, patience: Duration) {
        self.set_patience(patience);
        self.bounded.store(true, Ordering::Relaxed);
    }

    pub(crate) fn set_unfenced(&self, unfenced: bool) {
        self.unfenced.store(unfenced, Ordering::Relaxed);
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Up to half of the pause is random, so that clients do not repeat in step.
    fn pause(&self, tries: u32) -> Duration {
        let pause = PAUSE_FIRST.saturating_mul(1 << tries.min(16)).min(PAUSE_LAST);
        let drawn = self.jitter.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed) >> 40;
        pause.mul_f64(0.5 + drawn as f64 / f64::from(1 << 25))
    }

    /// Repeats a request during an outage, and while the credentials are refused.
    async fn patiently<T, F: Future<Output = Result<T, Error>>>(
        &self,
        op: &'static str,
        object: &str,
        cause: Cause,
        request: impl Fn() -> F,
    ) -> Result<Result<T, Answer>> {
        let begun = Instant::now();
        let mut last = None;
        for tries in 0.. {
            let waiting = Waiting { op, object, begun, last: last.as_ref() };
            let Some(answer) = self.answer(&waiting, request()).await else {
                return Err(StoreError::request(op, object, waiting.why()));
            };
            let failure = match answer {
                Ok(done) => {
                    self.answered();
                    return Ok(Ok(done));
                }
                Err(e) => Answer::of(&e),
            };
            match &failure {
                Answer::Outage(_) | Answer::Denied(_) => {}
                Answer::Unsupported(why) => {
                    return Err(StoreError::Refused { op, object: object.to_owned(), why: why.clone() });
                }
                _ => {
                    self.answered();
                    return Ok(Err(failure));
                }
            }
            let waiting = Waiting { last: Some(&failure), ..waiting };
            if begun.elapsed() >= self.patience() {
                return Err(StoreError::request(op, object, waiting.why()));
            }
            if begun.elapsed() >= ANNOUNCED_AFTER {
                self.announce(&waiting);
            }
            self.stats.of(cause).retry();
            sleep(self.pause(tries)).await;
            last = Some(failure);
        }
        Err(StoreError::request(op, object, "too many attempts"))
    }

    /// The answer to one attempt; `None` if time is over before.
    async fn answer<T>(&self, waiting: &Waiting<'_>, request: impl Future<Output = T>) -> Option<T> {
        let mut request = pin!(request);
        let is_bounded = self.bounded.load(Ordering::Relaxed);
        let left = |of: Duration| of.saturating_sub(waiting.begun.elapsed());
        let quiet = if is_bounded { ANNOUNCED_AFTER.min(self.patience()) } else { ANNOUNCED_AFTER };
        if let Ok(done) = timeout(left(quiet), &mut request).await {
            return Some(done);
        }
        if waiting.begun.elapsed() >= ANNOUNCED_AFTER {
            self.announce(waiting);
        }
        if is_bounded { timeout(left(self.patience()), request).await.ok() } else { Some(request.await) }
    }

    fn announce(&self, waiting: &Waiting<'_>) {
        let mut announced = self.announced.lock();
        if announced.is_some_and(|at| at.elapsed() < ANNOUNCED_AGAIN) {
            return;
        }
        *announced = Some(Instant::now());
        drop(announced);
        self.notify(&waiting.notice());
    }

    fn answered(&self) {
        if self.announced.lock().take().is_some() {
            self.notify(&Notice::Answers);
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.patience.load(Ordering::Relaxed))
    }

    /// Stores an object whose content is the same at every attempt.
    pub(crate) async fn put(&self, name: Name, bytes: Bytes, cause: Cause) -> Result<()> {
        let (text, path) = (name.to_string(), self.path(&name.to_string()));
        let sent = || {
            self.stats.of(cause).put(bytes.len());
            self.store.put(&path, bytes.clone().into())
        };
        match self.patiently("store", &text, cause, sent).await? {
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::request("store", text, NO_BUCKET)),
        }
    }

    /// Stores an object of the volume: data as often as needed, a commit or a seal only in a free place of the log.
    pub(crate) async fn put_object(&self, id: ObjectId, bytes: Bytes, cause: Cause) -> Result<()> {
        let name = Name::Object(id);
        match id {
            ObjectId::Data { .. } => self.put(name, bytes, cause).await,
            ObjectId::Log { .. } => match self.create(name, bytes, cause).await? {
                Created::Ours => Ok(()),
                Created::Other(_) => Err(StoreError::Fenced { object: name.to_string() }),
            },
        }
    }

    /// Creates an object unless it exists. An answer that it exists may be about an earlier attempt of our own, so then the
    /// content decides.
    pub(crate) async fn create(&self, name: Name, bytes: Bytes, cause: Cause) -> Result<Created> {
        self.create_at(&name.to_string(), bytes, cause).await
    }

    pub(crate) async fn create_at(&self, name: &str, bytes: Bytes, cause: Cause) -> Result<Created> {
        let path = self.path(name);
        let unfenced = self.unfenced.load(Ordering::Relaxed);
        let mode = if unfenced { PutMode::Overwrite } else { PutMode::Create };
        let sent = || {
            self.stats.of(cause).put(bytes.len());
            let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
            self.store.put_opts(&path, bytes.clone().into(), options)
        };
        loop {
            if unfenced && let Some(found) = self.get_at(name, cause).await? {
                return Ok(if found == bytes { Created::Ours } else { Created::Other(found) });
            }
            match self.patiently("create", name, cause, sent).await? {
                Ok(_) => return Ok(Created::Ours),
                Err(Answer::Present) => match self.get_at(name, cause).await? {
                    Some(found) if found == bytes => return Ok(Created::Ours),
                    Some(found) => return Ok(Created::Other(found)),
                    // A conflict with another request, not an object.
                    None => sleep(self.pause(0)).await,
                },
                Err(_) => return Err(StoreError::request("create", name, NO_BUCKET)),
            }
        }
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) async fn get(&self, name: Name, cause: Cause) -> Result<Option<Bytes>> {
        self.get_at(&name.to_string(), cause).await
    }

    async fn get_at(&self, name: &str, cause: Cause) -> Result<Option<Bytes>> {
        self.fetch(name, GetOptions::default(), cause).await
    }

    /// Reads a part of an object.
    pub(crate) async fn get_range(
        &self,
        name: Name,
        range: Range<u64>,
        cause: Cause,
    ) -> Result<Option<Bytes>> {
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        self.fetch(&name.to_string(), options, cause).await
    }

    async fn fetch(&self, name: &str, options: GetOptions, cause: Cause) -> Result<Option<Bytes>> {
        let path = self.path(name);
        let counters = self.stats.of(cause);
        let request = || async {
            counters.get();
            let bytes = self.store.get_opts(&path, options.clone()).await?.bytes().await?;
            counters.got(bytes.len());
            Ok(bytes)
        };
        match self.patiently("read", name, cause, request).await? {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Answer::Absent) => Ok(None),
            Err(Answer::Short) => Err(StoreError::Corrupt {
                object: name.to_owned(),
                why: "it ends before the blocks that it should have",
            }),
            Err(_) => Err(StoreError::request("read", name, "unexpected answer")),
        }
    }

    /// Whether an object exists, and what the store knows of it.
    pub(crate) async fn head(&self, name: Name, cause: Cause) -> Result<Option<ObjectMeta>> {
        let (text, path) = (name.to_string(), self.path(&name.to_string()));
        let request = || {
            self.stats.of(cause).other();
            self.store.head(&path)
        };
        match self.patiently("look up", &text, cause, request).await? {
            Ok(meta) => Ok(Some(meta)),
            Err(Answer::Absent) => Ok(None),
            Err(_) => Err(StoreError::request("look up", text, "unexpected answer")),
        }
    }

    /// The names in a directory that sort behind `after`, in order. Foreign names are left out.
    pub(crate) async fn list(&self, dir: &str, after: Option<Name>, cause: Cause) -> Result<Vec<Name>> {
        let under = self.path(dir);
        let offset = after.map(|name| self.path(&name.to_string()));
        let request = || async {
            self.stats.of(cause).other();
            let found = match &offset {
                Some(offset) => self.store.list_with_offset(Some(&under), offset),
                None => self.store.list(Some(&under)),
            };
            let metas: Vec<ObjectMeta> = found.try_collect().await?;
            Ok(metas)
        };
        let metas = match self.patiently("list", dir, cause, request).await? {
            Ok(metas) => metas,
            Err(Answer::Absent) => Vec::new(),
            Err(_) => return Err(StoreError::request("list", dir, "unexpected answer")),
        };
        let name = |meta: &ObjectMeta| {
            let rest: Vec<String> =
                meta.location.prefix_match(&self.prefix)?.map(|p| p.as_ref().to_owned()).collect();
            Name::parse(&rest.join("/"))
        };
        let mut names: Vec<Name> = metas.iter().filter_map(name).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Deletes objects; those that are gone already count as deleted.
    pub(crate) async fn delete(&self, names: &[Name], cause: Cause) -> Result<()> {
        for name in names {
            self.delete_at(&name.to_string(), cause).await?;
        }
        Ok(())
    }

    pub(crate) async fn delete_at(&self, name: &str, cause: Cause) -> Result<()> {
        let path = self.path(name);
        let request = || {
            self.stats.of(cause).other();
            self.store.delete(&path)
        };
        self.patiently("delete", name, cause, request).await.map(|_gone_or_deleted| ())
    }

    /// Deletes everything under the prefix that has a name of ours.
    pub(crate) async fn delete_all(&self, cause: Cause) -> Result<()> {
        // The volume first: without it nothing else is looked at.
        self.delete(&[Name::Volume], cause).await?;
        for dir in ["epoch", "map", "log", "data"] {
            let names = self.list(dir, None, cause).await?;
            self.delete(&names, cause).await?;
        }
        Ok(())
    }
}
