//! Whether a small read that finds nothing in the page cache is to bring along what lies around it: that costs little more
//! than the read, and pays where a program goes on to read all over a file, though not where it sees each place once. So it is
//! tried, and left for a while if later reads hardly ever find what was brought.
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bytes that are read together.
pub(crate) const SPAN: u64 = 32 << 10;
/// So many reads after one that had to wait are taken for reads of what is not in the page cache either.
const COLD: u32 = 8;
/// Reads that had to wait until what was found is counted, how many must have been found, and how many wait until the next try.
const TRIES: u32 = 256;
const FOUND: u32 = 3;
const REST: u32 = 4096;

/// See the module. Racing readers may spoil a count, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Around {
    cold: AtomicU32,
    tries: AtomicU32,
    found: AtomicU32,
    rest: AtomicU32,
}

impl Around {
    /// Asked before a small read.
    pub fn wanted(&self) -> bool {
        self.cold.load(Relaxed) > 0 && self.rest.load(Relaxed) == 0
    }

    /// All of it was in the page cache.
    pub fn found(&self) {
        let cold = self.cold.load(Relaxed);
        if cold > 0 {
            self.cold.store(cold - 1, Relaxed);
            self.found.fetch_add(1, Relaxed);
        }
    }

    /// It had to wait.
    pub fn waited(&self) {
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

    /// Reads of which each `every`th is found in the page cache; how many brought along what lies around them.
    fn brought(reads: u32, every: u32) -> usize {
        let around = Around::default();
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
        // The first read knows of no other.
        assert_eq!(brought(TRIES + REST, u32::MAX), TRIES as usize - 1);
        assert_eq!(brought(2 * (TRIES + REST), u32::MAX), 2 * TRIES as usize - 1);
    }
}
