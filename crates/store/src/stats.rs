//! Requests and bytes by cause.
use std::sync::atomic::{AtomicU64, Ordering};
use strum::{IntoStaticStr, VariantArray};

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Cause {
    /// Blocks that did not fit into a commit.
    Data,
    /// Commits, with their inline blocks.
    Commit,
    /// Maps.
    Map,
    /// Blocks that compaction moves.
    Compaction,
    /// Reads of blocks by the volume.
    Read,
    /// Blocks read ahead.
    Readahead,
    /// Opening the volume and fencing others.
    Open,
    /// Listings and deletions of objects that are no longer needed.
    Delete,
}

impl Cause {
    /// All causes.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Counters of a cause.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    puts: AtomicU64,
    gets: AtomicU64,
    others: AtomicU64,
    bytes_put: AtomicU64,
    bytes_got: AtomicU64,
    retries: AtomicU64,
}

/// A copy of the counters of a cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Objects created.
    pub puts: u64,
    /// Objects or ranges read.
    pub gets: u64,
    /// Listings, headers and deletions.
    pub others: u64,
    /// Bytes sent.
    pub bytes_put: u64,
    /// Bytes received.
    pub bytes_got: u64,
    /// Requests that failed and were repeated.
    pub retries: u64,
}

impl Count {
    /// The sums of the counters now.
    fn of(all: &[Counters]) -> Self {
        let sum = |of: fn(&Counters) -> &AtomicU64| all.iter().map(|c| of(c).load(Ordering::Relaxed)).sum();
        Self {
            puts: sum(|c| &c.puts),
            gets: sum(|c| &c.gets),
            others: sum(|c| &c.others),
            bytes_put: sum(|c| &c.bytes_put),
            bytes_got: sum(|c| &c.bytes_got),
            retries: sum(|c| &c.retries),
        }
    }
}

impl Counters {
    pub(crate) fn put(&self, bytes: usize) {
        self.puts.fetch_add(1, Ordering::Relaxed);
        self.bytes_put.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) {
        self.gets.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn got(&self, bytes: usize) {
        self.bytes_got.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn other(&self) {
        self.others.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counters of the cache on local disk.
#[derive(Debug, Default)]
pub(crate) struct LocalCounters {
    hits: AtomicU64,
    misses: AtomicU64,
    errors: AtomicU64,
    pending_objects: AtomicU64,
    pending_bytes: AtomicU64,
}

impl LocalCounters {
    pub(crate) fn hits(&self, pieces: usize) {
        self.hits.fetch_add(pieces as u64, Ordering::Relaxed);
    }

    pub(crate) fn misses(&self, pieces: usize) {
        self.misses.fetch_add(pieces as u64, Ordering::Relaxed);
    }

    /// Counts an object that the disk did not take.
    pub(crate) fn error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the number and the bytes of objects that the store does not have.
    pub(crate) fn pending(&self, (objects, bytes): (u64, u64)) {
        self.pending_objects.store(objects, Ordering::Relaxed);
        self.pending_bytes.store(bytes, Ordering::Relaxed);
    }

    fn report(&self) -> [(String, u64); 5] {
        let values = [
            ("hits", &self.hits),
            ("misses", &self.misses),
            ("errors", &self.errors),
            ("pending_objects", &self.pending_objects),
            ("pending_bytes", &self.pending_bytes),
        ];
        values.map(|(what, value)| (format!("store_cache_{what}"), value.load(Ordering::Relaxed)))
    }
}

/// All counters.
#[derive(Debug, Default)]
pub struct Stats {
    causes: [Counters; Cause::ALL.len()],
    pub(crate) local: LocalCounters,
}

impl Stats {
    pub(crate) fn of(&self, cause: Cause) -> &Counters {
        let [first, ..] = &self.causes;
        self.causes.get(cause as usize).unwrap_or(first)
    }

    /// The counters of a cause now.
    #[must_use]
    pub fn count(&self, cause: Cause) -> Count {
        Count::of(std::slice::from_ref(self.of(cause)))
    }

    /// All counters by name: `store_`, the cause and the counter; `store_cache_` for the cache on local disk.
    #[must_use]
    pub fn report(&self) -> Vec<(String, u64)> {
        let of = |cause: Cause| {
            let count = self.count(cause);
            let values = [
                ("puts", count.puts),
                ("gets", count.gets),
                ("others", count.others),
                ("put_bytes", count.bytes_put),
                ("got_bytes", count.bytes_got),
                ("retries", count.retries),
            ];
            values.map(|(what, value)| (format!("store_{}_{what}", cause.name()), value))
        };
        Cause::ALL.iter().copied().flat_map(of).chain(self.local.report()).collect()
    }

    /// The sum over all causes.
    #[must_use]
    pub fn total(&self) -> Count {
        Count::of(&self.causes)
    }
}
