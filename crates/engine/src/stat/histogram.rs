//! A histogram of times or sizes. Bucket widths grow with the value, so every quantile is accurate to 3 %.
//!
//! The histogram is our own: hdrhistogram records through `&mut`, and a reader of its recorders for threads waits for each
//! thread that records nothing meanwhile. Requests record here without a lock, and a reader waits for nobody.
use std::sync::atomic::{AtomicU64, Ordering};

/// Binary logarithm of the number of buckets per power of two.
const SUB_BITS: u32 = 5;
/// Relative error of a bucket, inverted.
#[cfg(test)]
const SUB: u64 = 1 << SUB_BITS;
/// Values from this power of two on share the last bucket; 18 minutes in nanoseconds.
const TOP_BITS: u32 = 40;
const BUCKETS: usize = ((TOP_BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// Counts of values by bucket. Threads may record concurrently.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
    max: AtomicU64,
}

/// Content of a histogram at one moment, or its change between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    buckets: Vec<u64>,
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { buckets, sum: AtomicU64::new(0), max: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Adds a value.
    pub fn record(&self, value: u64) {
        if let Some(b) = self.buckets.get(bucket_of(value)) {
            b.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
        self.max.fetch_max(value, Ordering::Relaxed);
    }

    /// The values recorded so far.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        Recorded {
            buckets: self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
        }
    }
}

impl Recorded {
    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of the values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The mean, or 0 if nothing was recorded.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let n = self.count();
        if n == 0 { 0.0 } else { self.sum as f64 / n as f64 }
    }

    /// The largest value. For a difference of two moments, the end of the highest bucket used.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value not exceeded by a share `q` (0 to 1) of the values; 0 if nothing was recorded.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return upper_end(i).min(self.max);
            }
        }
        self.max
    }

    /// The values recorded after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let old = |i: usize| earlier.buckets.get(i).copied().unwrap_or(0);
        let buckets: Vec<u64> =
            self.buckets.iter().enumerate().map(|(i, n)| n.saturating_sub(old(i))).collect();
        let highest = buckets.iter().rposition(|&n| n > 0).map_or(0, upper_end);
        Self { buckets, sum: self.sum.saturating_sub(earlier.sum), max: highest.min(self.max) }
    }

    /// The sum of both.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(a, b)| *a += b);
        Self { sum: self.sum + other.sum, max: self.max.max(other.max), ..self }
    }

    /// Each non-empty bucket, as its largest value and count.
    pub fn hits(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (upper_end(i), *n))
    }
}

fn bucket_of(value: u64) -> usize {
    let shift = value.checked_ilog2().unwrap_or(0).saturating_sub(SUB_BITS);
    // For each shift the top bits run from SUB to 2 * SUB - 1; the first buckets hold small values exactly.
    let bucket = (u64::from(shift) << SUB_BITS) + (value >> shift);
    (bucket as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn upper_end(bucket: usize) -> u64 {
    let shift = (bucket as u64 >> SUB_BITS).saturating_sub(1);
    let top = bucket as u64 - (shift << SUB_BITS);
    if bucket == BUCKETS - 1 { u64::MAX } else { ((top + 1) << shift) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_narrow() {
        let mut before = None;
        for value in (0..5000).chain((13..40).flat_map(|b| [(1 << b) - 1, 1 << b, (1 << b) + 1])) {
            let b = bucket_of(value);
            assert!(before <= Some(b), "{value}");
            assert!(upper_end(b) >= value, "{value} in a bucket up to {}", upper_end(b));
            if b < BUCKETS - 1 {
                assert!(upper_end(b) - value <= value / SUB, "{value} in a bucket up to {}", upper_end(b));
            }
            before = Some(b);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_a_known_series() {
        let h = Histogram::default();
        (1..=1000).for_each(|v| h.record(v * 1000));
        let r = h.recorded();
        assert_eq!((r.count(), r.mean(), r.max()), (1000, 500_500.0, 1_000_000));
        for (q, expected) in [(0.0, 1000), (0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let found = r.quantile(q);
            assert!(found >= expected && found <= expected + expected / SUB + 1, "{q}: {found}");
        }
        assert_eq!(Histogram::default().recorded().quantile(0.5), 0);
    }

    #[test]
    fn a_difference_has_only_later_values() {
        let h = Histogram::default();
        h.record(1 << 30);
        let before = h.recorded();
        h.record(7);
        h.record(9);
        let r = h.recorded().since(&before);
        assert_eq!((r.count(), r.sum(), r.quantile(1.0), r.max()), (2, 16, 9, 9));
        let both = r.and(&before);
        assert_eq!((both.count(), both.max()), (3, 1 << 30));
        assert_eq!(both.hits().map(|(_, n)| n).sum::<u64>(), 3);
    }
}
