//! Statistics of the allocator since mount.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Counters since mount, except `streams`.
#[derive(Debug, Default)]
pub struct AllocStats {
    /// Number of times a data log was locked to allocate.
    calls: AtomicU64,
    /// Nanoseconds spent holding it.
    ns: AtomicU64,
    /// Streams in use.
    pub streams: AtomicU64,
    /// Segments that streams opened.
    pub opened: AtomicU64,
    /// Claims made by streams: first ones, and ones adjacent to the previous claim.
    pub first: AtomicU64,
    pub adjacent: AtomicU64,
    /// Claims that could not be adjacent because the next section was in use, or claimed by another stream.
    pub broken_by_use: AtomicU64,
    pub broken_by_claim: AtomicU64,
    /// Number of requests a stream passed to the log of its type.
    pub refused: AtomicU64,
    /// Summaries written because a stream had the segment open at a checkpoint.
    pub parked: AtomicU64,
}

impl AllocStats {
    pub fn begin(&self) -> Instant {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Instant::now()
    }
    pub fn end(&self, begun: Instant) {
        self.ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
    pub fn snapshot(&self) -> [(&'static str, u64); 9] {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        [
            ("alloc_calls", get(&self.calls)),
            ("alloc_ns", get(&self.ns)),
            ("stream_segments", get(&self.opened)),
            ("stream_claims_first", get(&self.first)),
            ("stream_claims_adjacent", get(&self.adjacent)),
            ("stream_claims_broken_by_use", get(&self.broken_by_use)),
            ("stream_claims_broken_by_claim", get(&self.broken_by_claim)),
            ("stream_refusals", get(&self.refused)),
            ("park_blocks", get(&self.parked)),
        ]
    }
}
