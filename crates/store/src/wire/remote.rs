//! Requests to the store: names under the prefix, repetition of failed requests, counters.
use crate::notice::{Notice, Observer, UNOBSERVED};
use crate::stats::{Cause, Stats};
use crate::wire::answer::{self, Answer};
use crate::wire::body::{Content, content};
use crate::wire::names::{Name, ObjectId};
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

/// How long a request that the store rejects is repeated, in case an intermediary is the reason.
const REJECTED_PATIENCE: Duration = Duration::from_secs(15);

/// A longer wait is announced, and announced again while it lasts.
const ANNOUNCED_AFTER: Duration = Duration::from_secs(3);
const ANNOUNCED_AGAIN: Duration = Duration::from_secs(60);

/// Maximum number of names in a listing: data objects of 32 TiB.
const NAMES_MAX: usize = 1 << 22;
/// Time without a name after which a listing is given up: pages may be empty and announce further ones for
/// ever.
const NAMELESS_MAX: Duration = Duration::from_secs(300);
/// Bytes read back of an object that is no part of a volume.
const OTHER_BYTES_MAX: u64 = 4 << 10;

/// The only reason why a name that is stored could be absent.
const NO_BUCKET: &str = "the bucket does not exist";

/// The store below a prefix.
pub(crate) struct Remote {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    pub stats: Stats,
    /// How long a request is repeated, in milliseconds.
    patience: AtomicU64,
    /// Whether a request without an answer also fails when that time is over.
    bounded: AtomicBool,
    /// The store has no conditional creation, so absence is looked up instead.
    unfenced: AtomicBool,
    jitter: AtomicU64,
    observer: Observer,
    /// When a wait was announced, until a request is answered.
    announced: Mutex<Option<Instant>>,
}

/// A request without the expected answer.
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
            Some(Answer::Outage(why) | Answer::Denied(why) | Answer::Setup(why) | Answer::Rejected(why)) => {
                why
            }
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
    /// The object exists with our content.
    Ours,
    /// It existed, with this content.
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

    /// From now on `patience` includes the time for which a request waits for its answer. While a volume is
    /// opened, slow answers are awaited.
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
            if !failure.is_of_store() {
                self.answered();
                return Ok(Err(failure));
            }
            if let Some(e) = self.at_once(op, object, &failure, tries) {
                return Err(e);
            }
            let waiting = Waiting { last: Some(&failure), ..waiting };
            let patience = match failure {
                Answer::Rejected(_) => self.patience().min(REJECTED_PATIENCE),
                _ => self.patience(),
            };
            if begun.elapsed() >= patience {
                return Err(StoreError::request(op, object, waiting.why()));
            }
            self.announce(&waiting);
            self.stats.of(cause).retry();
            sleep(self.pause(tries)).await;
            last = Some(failure);
        }
        Err(StoreError::request(op, object, "too many attempts"))
    }

    /// The error for a failure that is not repeated. While a volume is opened, these are all failures that a
    /// repetition does not change. A volume in use waits until a key or a setting is replaced.
    fn at_once(&self, op: &'static str, object: &str, failure: &Answer, tries: u32) -> Option<StoreError> {
        let is_opening = !self.bounded.load(Ordering::Relaxed);
        let refused = |why: &String| StoreError::Refused { op, object: object.to_owned(), why: why.clone() };
        match failure {
            Answer::Unsupported(why) => Some(refused(why)),
            Answer::Rejected(why) if is_opening => Some(refused(why)),
            Answer::Setup(why) if is_opening => Some(StoreError::request(op, object, why)),
            // Another key may have its turn at the second attempt.
            Answer::Denied(why) if is_opening && tries > 0 => {
                let why = format!("the store refuses the credentials ({why}): {}", answer::next_step(why));
                Some(StoreError::request(op, object, why))
            }
            _ => None,
        }
    }

    /// The answer to one attempt; `None` if the time is over before it arrives.
    async fn answer<T>(&self, waiting: &Waiting<'_>, request: impl Future<Output = T>) -> Option<T> {
        let mut request = pin!(request);
        let is_bounded = self.bounded.load(Ordering::Relaxed);
        let left = |of: Duration| of.saturating_sub(waiting.begun.elapsed());
        let quiet = if is_bounded { ANNOUNCED_AFTER.min(self.patience()) } else { ANNOUNCED_AFTER };
        if let Ok(done) = timeout(left(quiet), &mut request).await {
            return Some(done);
        }
        self.announce(waiting);
        if is_bounded { timeout(left(self.patience()), request).await.ok() } else { Some(request.await) }
    }

    /// Announces a wait that has lasted some seconds.
    fn announce(&self, waiting: &Waiting<'_>) {
        if waiting.begun.elapsed() < ANNOUNCED_AFTER {
            return;
        }
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
        self.put_at(&name.to_string(), bytes, cause).await
    }

    pub(crate) async fn put_at(&self, name: &str, bytes: Bytes, cause: Cause) -> Result<()> {
        let path = self.path(name);
        let sent = || {
            self.stats.of(cause).put(bytes.len());
            self.store.put(&path, bytes.clone().into())
        };
        match self.patiently("store", name, cause, sent).await? {
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::request("store", name, NO_BUCKET)),
        }
    }

    /// Stores an object of the volume: data as often as needed, a commit or a seal only in a free place of
    /// the log.
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

    /// Creates an object unless it exists. An answer that it exists may be about an earlier attempt of our
    /// own, so then the content decides.
    pub(crate) async fn create(&self, name: Name, bytes: Bytes, cause: Cause) -> Result<Created> {
        self.create_or_read(&name.to_string(), name.bytes_max(), bytes, cause).await
    }

    /// Creates an object that is no part of a volume.
    pub(crate) async fn create_at(&self, name: &str, bytes: Bytes, cause: Cause) -> Result<Created> {
        self.create_or_read(name, OTHER_BYTES_MAX, bytes, cause).await
    }

    async fn create_or_read(&self, name: &str, most: u64, bytes: Bytes, cause: Cause) -> Result<Created> {
        let path = self.path(name);
        let unfenced = self.unfenced.load(Ordering::Relaxed);
        let mode = if unfenced { PutMode::Overwrite } else { PutMode::Create };
        let sent = || {
            self.stats.of(cause).put(bytes.len());
            let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
            self.store.put_opts(&path, bytes.clone().into(), options)
        };
        loop {
            if unfenced && let Some(found) = self.get_at(name, most, cause).await? {
                return Ok(if found == bytes { Created::Ours } else { Created::Other(found) });
            }
            match self.patiently("create", name, cause, sent).await? {
                Ok(_) => return Ok(Created::Ours),
                Err(Answer::Present) => match self.get_at(name, most, cause).await? {
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
        self.get_up_to(name, name.bytes_max(), cause).await
    }

    /// Like [`Self::get`], for up to `most` bytes; a longer object is damage.
    pub(crate) async fn get_up_to(&self, name: Name, most: u64, cause: Cause) -> Result<Option<Bytes>> {
        self.get_at(&name.to_string(), most, cause).await
    }

    /// Like [`Self::get`], but also `None` for an object of more bytes.
    pub(crate) async fn get_short(&self, name: Name, most: u64, cause: Cause) -> Result<Option<Bytes>> {
        match self.fetch(&name.to_string(), GetOptions::default(), most, cause).await? {
            Some(Content::Bytes(bytes)) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    async fn get_at(&self, name: &str, most: u64, cause: Cause) -> Result<Option<Bytes>> {
        let found = self.fetch(name, GetOptions::default(), most, cause).await?;
        found.map(|content| whole(name, content)).transpose()
    }

    /// Reads a part of an object.
    pub(crate) async fn get_range(
        &self,
        name: Name,
        range: Range<u64>,
        cause: Cause,
    ) -> Result<Option<Bytes>> {
        let name = name.to_string();
        let Some(most) = range.end.checked_sub(range.start).filter(|&most| most > 0) else {
            return Err(short(&name));
        };
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let found = self.fetch(&name, options, most, cause).await?;
        found.map(|content| whole(&name, content)).transpose()
    }

    async fn fetch(
        &self,
        name: &str,
        options: GetOptions,
        most: u64,
        cause: Cause,
    ) -> Result<Option<Content>> {
        let path = self.path(name);
        let counters = self.stats.of(cause);
        let request = || async {
            counters.get();
            let found = content(self.store.get_opts(&path, options.clone()).await?, most).await?;
            if let Content::Bytes(bytes) = &found {
                counters.got(bytes.len());
            }
            Ok(found)
        };
        match self.patiently("read", name, cause, request).await? {
            Ok(found) => Ok(Some(found)),
            Err(Answer::Absent) => Ok(None),
            Err(Answer::Short) => Err(short(name)),
            Err(_) => Err(StoreError::request("read", name, "unexpected answer")),
        }
    }

    /// Metadata of an object; `None` if it does not exist.
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

    /// The names in a directory that sort after `after`, in order. Foreign names are omitted.
    pub(crate) async fn list(&self, dir: &str, after: Option<Name>, cause: Cause) -> Result<Vec<Name>> {
        let under = self.path(dir);
        let offset = after.map(|name| self.path(&name.to_string()));
        let request = || async {
            self.stats.of(cause).other();
            let mut found = match &offset {
                Some(offset) => self.store.list_with_offset(Some(&under), offset),
                None => self.store.list(Some(&under)),
            };
            let (mut names, mut seen) = (Vec::new(), 0);
            let nameless = |_| Error::Generic {
                store: "S3",
                source: format!("a listing without a name for {} s", NAMELESS_MAX.as_secs()).into(),
            };
            while let Some(meta) = timeout(NAMELESS_MAX, found.try_next()).await.map_err(nameless)?? {
                seen += 1;
                if seen > NAMES_MAX {
                    return Ok(None);
                }
                names.extend(self.name(&meta.location));
            }
            Ok(Some(names))
        };
        let mut names = match self.patiently("list", dir, cause, request).await? {
            Ok(Some(names)) => names,
            Ok(None) => {
                let why = format!("more than {NAMES_MAX} names");
                return Err(StoreError::Refused { op: "list", object: dir.to_owned(), why });
            }
            Err(Answer::Absent) => Vec::new(),
            Err(_) => return Err(StoreError::request("list", dir, "unexpected answer")),
        };
        names.sort_unstable();
        Ok(names)
    }

    fn name(&self, at: &Path) -> Option<Name> {
        let rest: Vec<String> = at.prefix_match(&self.prefix)?.map(|p| p.as_ref().to_owned()).collect();
        Name::parse(&rest.join("/"))
    }

    /// Deletes objects. Those that do not exist count as deleted.
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

    /// Deletes all objects of a volume under the prefix.
    pub(crate) async fn delete_all(&self, cause: Cause) -> Result<()> {
        // The volume first: without it no other object is read.
        self.delete(&[Name::Volume], cause).await?;
        for dir in ["epoch", "map", "log", "data"] {
            let names = self.list(dir, None, cause).await?;
            self.delete(&names, cause).await?;
        }
        Ok(())
    }
}

fn short(object: &str) -> StoreError {
    StoreError::Corrupt { object: object.to_owned(), why: "it ends before the blocks that it should have" }
}

fn whole(object: &str, content: Content) -> Result<Bytes> {
    match content {
        Content::Bytes(bytes) => Ok(bytes),
        Content::Long => {
            Err(StoreError::Corrupt { object: object.to_owned(), why: "it is longer than it can be" })
        }
        Content::NoMemory => Err(StoreError::Memory { object: object.to_owned() }),
    }
}
