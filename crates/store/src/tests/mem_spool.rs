//! A spool in memory with seeded faults and delays, and the effects that a cut may have on files.
use super::fault_store::FaultStore;
use crate::fence::owner::CacheId;
use crate::local::cache::Local;
use crate::local::spool::Spool;
use crate::wire::names::ObjectId;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use segno_testkit::Rng;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

struct Inner {
    files: BTreeMap<ObjectId, Bytes>,
    /// A cut may bring them back.
    removed: BTreeMap<ObjectId, Bytes>,
    rng: Rng,
    delay_bits: u64,
    /// Chance in a hundred that an object is not taken.
    full: u64,
    /// Steps until a cut.
    left: Option<u64>,
}

/// A disk with the handle of one mount.
#[derive(Clone)]
pub(crate) struct MemSpool {
    inner: Arc<Mutex<Inner>>,
    id: [u8; 16],
    cut: Arc<AtomicBool>,
    /// Cut off together with the spool.
    store: Option<FaultStore>,
}

impl MemSpool {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let id = std::array::from_fn(|_| rng.below(256) as u8);
        let inner = Inner {
            files: BTreeMap::new(),
            removed: BTreeMap::new(),
            rng,
            delay_bits: 0,
            full: 0,
            left: None,
        };
        Self { inner: Arc::new(Mutex::new(inner)), id, cut: Arc::default(), store: None }
    }

    /// The disk of a seed with these files.
    pub(crate) fn holding(seed: u64, files: BTreeMap<ObjectId, Bytes>) -> Self {
        let spool = Self::new(seed);
        spool.inner.lock().files = files;
        spool
    }

    /// All files.
    pub(crate) fn content(&self) -> BTreeMap<ObjectId, Bytes> {
        self.inner.lock().files.clone()
    }

    /// The disk for the next mount, after the last one was cut off.
    pub(crate) fn after_cut(&self, store: Option<&FaultStore>) -> Self {
        self.cut.store(true, Ordering::SeqCst);
        let mut inner = self.inner.lock();
        inner.left = None;
        for (id, bytes) in std::mem::take(&mut inner.removed) {
            if inner.rng.chance(30) {
                inner.files.insert(id, bytes);
            }
        }
        drop(inner);
        Self { cut: Arc::default(), store: store.cloned(), ..self.clone() }
    }

    /// Cuts off spool and store after `steps` more steps.
    pub(crate) fn cut_after(&self, steps: u64) {
        self.inner.lock().left = Some(steps);
    }

    /// Takes a cut back that has not come yet; `false` if it has.
    pub(crate) fn disarm(&self) -> bool {
        self.inner.lock().left = None;
        !self.cut.load(Ordering::SeqCst)
    }

    pub(crate) fn set_faults(&self, delay_bits: u64, full: u64) {
        let mut inner = self.inner.lock();
        (inner.delay_bits, inner.full) = (delay_bits, full);
    }

    pub(crate) fn files(&self) -> usize {
        self.inner.lock().files.len()
    }

    /// All objects of an epoch.
    pub(crate) fn of_epoch(&self, epoch: u32) -> Vec<ObjectId> {
        self.inner.lock().files.keys().copied().filter(|id| id.epoch().get() == epoch).collect()
    }

    pub(crate) fn alter(&self, change: impl Fn(&mut Vec<u8>)) {
        for bytes in self.inner.lock().files.values_mut() {
            let mut altered = bytes.to_vec();
            change(&mut altered);
            *bytes = altered.into();
        }
    }

    pub(crate) fn alter_one(&self, id: ObjectId, change: impl Fn(&mut Vec<u8>)) {
        if let Some(bytes) = self.inner.lock().files.get_mut(&id) {
            let mut altered = bytes.to_vec();
            change(&mut altered);
            *bytes = altered.into();
        }
    }

    /// The cache of a mount with write-back.
    pub(crate) fn local(&self, limit: u64) -> Local {
        Local {
            spool: Arc::new(self.clone()),
            of: CacheId { id: self.id, path: "/cache".into() },
            writeback: true,
            limit,
            disk: None,
            _dir: None,
        }
    }

    async fn step<T>(&self, effect: impl FnOnce(&mut Inner) -> T) -> T {
        let (before, after) = {
            let mut inner = self.inner.lock();
            match &mut inner.left {
                Some(0) => {
                    self.cut.store(true, Ordering::SeqCst);
                    self.store.iter().for_each(FaultStore::cut);
                }
                Some(left) => *left -= 1,
                None => {}
            }
            let bits = inner.delay_bits;
            let mut delay = || Duration::from_millis(inner.rng.below(1 << bits));
            (delay(), delay())
        };
        self.pass(before).await;
        let done = effect(&mut self.inner.lock());
        self.pass(after).await;
        done
    }

    async fn pass(&self, delay: Duration) {
        if delay > Duration::ZERO {
            sleep(delay).await;
        }
        if self.cut.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

impl Spool for MemSpool {
    fn put(&self, id: ObjectId, bytes: Bytes) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(self.step(move |inner| {
            if inner.rng.below(100) < inner.full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            inner.files.insert(id, bytes);
            Ok(())
        }))
    }

    fn read(&self, id: ObjectId, range: Option<Range<u64>>) -> BoxFuture<'_, io::Result<Option<Bytes>>> {
        Box::pin(self.step(move |inner| {
            let Some(bytes) = inner.files.get(&id) else { return Ok(None) };
            let range = range.map_or(0..bytes.len(), |r| r.start as usize..bytes.len().min(r.end as usize));
            Ok(Some(bytes.slice(range)))
        }))
    }

    fn remove(&self, id: ObjectId) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(self.step(move |inner| {
            if let Some(bytes) = inner.files.remove(&id) {
                inner.removed.insert(id, bytes);
            }
            Ok(())
        }))
    }

    fn list(&self) -> BoxFuture<'_, io::Result<Vec<ObjectId>>> {
        Box::pin(self.step(|inner| Ok(inner.files.keys().copied().collect())))
    }
}
