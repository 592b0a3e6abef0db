//! Statistics of the allocator since mount.
use segno_format::sit::LogType;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Cause for opening a free section.
#[derive(Clone, Copy, Debug)]
pub enum Opener {
    /// A log, for new data or nodes.
    Log(LogType),
    Stream,
    /// A data log, for blocks that cleaning moves. Nodes that it moves are written by checkpoints.
    Cleaning,
}

impl Opener {
    fn idx(self) -> usize {
        match self {
            Self::Log(kind) => kind.idx(),
            Self::Stream => 6,
            Self::Cleaning => 7,
        }
    }
}

/// Counters since mount, except `streams`.
#[derive(Debug, Default)]
pub struct AllocStats {
    /// Number of times a data log was locked to allocate.
    calls: AtomicU64,
    /// Nanoseconds spent holding it.
    ns: AtomicU64,
    /// Streams in use.
    pub streams: AtomicU64,
    /// Free sections opened, by [`Opener`].
    sections: [AtomicU64; 8],
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
    pub fn opened_section(&self, by: Opener) {
        self.sections[by.idx()].fetch_add(1, Ordering::Relaxed);
    }
    /// Free sections opened, in the order of the logs, by streams, and by cleaning.
    pub fn opened_sections(&self) -> [(&'static str, u64); 8] {
        let names = [
            "opened_sections_hot_data",
            "opened_sections_warm_data",
            "opened_sections_cold_data",
            "opened_sections_hot_node",
            "opened_sections_warm_node",
            "opened_sections_cold_node",
            "opened_sections_stream",
            "opened_sections_cleaning",
        ];
        std::array::from_fn(|i| (names[i], self.sections[i].load(Ordering::Relaxed)))
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
