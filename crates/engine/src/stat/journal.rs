//! Where the journal's time goes.
use super::{Histogram, Recorded, Snapshot};
use std::cell::Cell;
use std::time::Instant;

/// Of so many calls of a thread one is timed.
pub const SAMPLED: u64 = 64;

/// Times some calls of a step that takes little more than looking at the clock.
#[derive(Debug, Default)]
pub struct Sampled(Histogram);

impl Sampled {
    pub(crate) fn time<T>(&self, step: impl FnOnce() -> T) -> T {
        thread_local! {
            static CALLS: Cell<u64> = const { Cell::new(0) };
        }
        let calls = CALLS.get();
        CALLS.set(calls.wrapping_add(1));
        if !calls.is_multiple_of(SAMPLED) {
            return step();
        }
        let begun = Instant::now();
        let done = step();
        self.0.record(begun.elapsed().as_nanos() as u64);
        done
    }

    /// One in [`SAMPLED`] of all calls.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        self.0.recorded()
    }
}

/// The steps of commits, in nanoseconds.
#[derive(Debug, Default)]
pub struct JournalStats {
    /// Waiting for the operations of an ended epoch.
    pub drain: Histogram,
    /// Writing the data that was dirtied in it.
    pub settle: Histogram,
    /// Taking its records.
    pub take: Histogram,
    /// Flushing the data.
    pub data_flush: Histogram,
    /// Encoding and writing the group.
    pub append: Histogram,
    /// Flushing the group.
    pub flush: Histogram,
    /// Whole commits.
    pub total: Histogram,
}

impl JournalStats {
    pub(super) fn add_to(&self, out: &mut Snapshot) {
        let all = self.total.recorded();
        let sum = |h: &Histogram| h.recorded().sum();
        out.extend([
            ("journal_commit_ns_p50", all.quantile(0.5)),
            ("journal_commit_ns_p99", all.quantile(0.99)),
            ("journal_commit_ns_max", all.max()),
            ("journal_drain_ns", sum(&self.drain)),
            ("journal_settle_ns", sum(&self.settle)),
            ("journal_take_ns", sum(&self.take)),
            ("journal_data_flush_ns", sum(&self.data_flush)),
            ("journal_append_ns", sum(&self.append)),
            ("journal_flush_ns", sum(&self.flush)),
        ]);
    }
}

/// Runs a step and records how long it took.
pub(crate) fn timed<T>(times: &Histogram, step: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = step();
    times.record(begun.elapsed().as_nanos() as u64);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_so_many_is_timed() {
        let times = Sampled::default();
        let done: u64 = (0..3 * SAMPLED).map(|i| times.time(|| i & 1)).sum();
        assert_eq!((done, times.recorded().count()), (3 * SAMPLED / 2, 3));
    }
}
