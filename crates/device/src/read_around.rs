//! Decides whether a small read that misses the page cache also reads the blocks around it. That costs little
//! more than the read, and pays off if a program continues to read all over a file, but not if it visits each
//! place once. So it is tried, and suspended for a while if later reads hardly ever hit what was read.
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bytes read together.
pub(crate) const WINDOW: u64 = 32 << 10;
/// Reads after a miss that are assumed to miss as well.
const COLD: u32 = 8;
/// Misses after which hits are counted, hits needed to continue, and misses until the next attempt.
const TRIES: u32 = 256;
const FOUND: u32 = 3;
const REST: u32 = 4096;

/// The state for one file. Races between readers can only distort a count.
#[derive(Debug, Default)]
pub(crate) struct ReadAround {
    cold: AtomicU32,
    tries: AtomicU32,
    found: AtomicU32,
    rest: AtomicU32,
}

impl ReadAround {
    /// Whether a small read should read around.
    pub(crate) fn wanted(&self) -> bool {
        self.cold.load(Relaxed) > 0 && self.rest.load(Relaxed) == 0
    }

    /// A read hit the page cache.
    pub(crate) fn found(&self) {
        let cold = self.cold.load(Relaxed);
        if cold > 0 {
            self.cold.store(cold - 1, Relaxed);
            self.found.fetch_add(1, Relaxed);
        }
    }

    /// A read missed the page cache.
    pub(crate) fn waited(&self) {
        self.cold.store(COLD, Relaxed);
        let rest = self.rest.load(Relaxed);
        if rest > 0 {
            self.rest.store(rest - 1, Relaxed);
            self.found.store(0, Relaxed);
        } else if self.tries.fetch_add(1, Relaxed) + 1 >= TRIES {
            self.tries.store(0, Relaxed);
            if self.found.swap(0, Relaxed) < FOUND {
                self.rest.store(REST, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Performs reads of which each `every`th hits the page cache; returns how many of them read around.
    fn brought(reads: u32, every: u32) -> usize {
        let around = ReadAround::default();
        let read = |n: u32| {
            let wanted = around.wanted();
            if n.is_multiple_of(every) {
                around.found()
            } else {
                around.waited()
            }
            wanted
        };
        (1..=reads).filter(|&n| read(n)).count()
    }

    #[test]
    fn it_is_done_while_it_pays() {
        assert_eq!(brought(10_000, 10), 9_999);
        assert_eq!(brought(10_000, 1), 0, "all is in memory");
    }

    #[test]
    fn it_is_left_where_nothing_is_found_and_tried_again() {
        // No read precedes the first one.
        assert_eq!(brought(TRIES + REST, u32::MAX), TRIES as usize - 1);
        assert_eq!(brought(2 * (TRIES + REST), u32::MAX), 2 * TRIES as usize - 1);
    }
}
