//! Times of the journal's steps.
use super::{Histogram, Recorded, Snapshot};
use std::cell::Cell;
use std::time::Instant;

/// Number of calls for each call that is timed.
pub const SAMPLED: u64 = 64;

/// Times a sample of the calls of a step that is too short to time every call.
#[derive(Debug, Default)]
pub struct Sampled(Histogram);

impl Sampled {
    pub(crate) fn time<T>(&self, step: impl FnOnce() -> T) -> T {
        if chosen() { timed(&self.0, step) } else { step() }
    }

    /// Times of about one in [`SAMPLED`] calls.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        self.0.recorded()
    }
}

/// Chosen at random: operations repeat their steps, so a counter would always select the same step.
fn chosen() -> bool {
    thread_local! {
        static STATE: Cell<u64> = const { Cell::new(0x9E37_79B9_7F4A_7C15) };
    }
    let mut x = STATE.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    STATE.set(x);
    x.is_multiple_of(SAMPLED)
}

/// The steps of commits, in nanoseconds.
#[derive(Debug, Default)]
pub struct JournalStats {
    /// Waiting for the operations of an ended epoch.
    pub drain: Histogram,
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
            ("journal_take_ns", sum(&self.take)),
            ("journal_data_flush_ns", sum(&self.data_flush)),
            ("journal_append_ns", sum(&self.append)),
            ("journal_flush_ns", sum(&self.flush)),
        ]);
    }
}

/// Runs a step and records its duration.
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
    fn calls_are_sampled_at_the_given_rate() {
        let (often, seldom) = (Sampled::default(), Sampled::default());
        let n = 1000 * SAMPLED;
        let done: u64 = (0..n)
            .map(|i| often.time(|| i & 1) + if i.is_multiple_of(SAMPLED) { seldom.time(|| 0) } else { 0 })
            .sum();
        assert_eq!(done, n / 2);
        let (often, seldom) = (often.recorded().count(), seldom.recorded().count());
        assert!((800..1200).contains(&often) && (5..40).contains(&seldom), "{often} and {seldom}");
    }
}
