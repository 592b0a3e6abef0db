//! The waits of single application writes, in blocks.
use crate::counters::{Counters, Kind};
use std::collections::BTreeMap;

/// Counters before or after an operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Blocks the application wrote.
    pub writes: u64,
    /// Blocks that cleaning copied. Nodes that it only makes dirty are written by checkpoints.
    pub moved: u64,
    pub checkpoints: u64,
    /// Nodes, directory blocks and metadata, which checkpoints write; fsync too, but without a checkpoint.
    pub committed: u64,
}

impl Costs {
    #[must_use]
    pub fn of(c: &Counters, lazy_nodes: bool) -> Self {
        let moved = if lazy_nodes { c.of(Kind::MovedData) } else { c.moved() };
        let committed = c.total() - c.of(Kind::UserData) - moved;
        Self { writes: c.app_writes, moved, checkpoints: c.checkpoints, committed }
    }
}

/// Blocks that application writes did or waited for: moved by cleaning, and written by checkpoints.
#[derive(Clone, Debug, Default)]
pub struct WriteWaits {
    pub moves: Waits,
    pub checkpoints: Waits,
}

impl WriteWaits {
    pub fn record(&mut self, before: Costs, after: Costs) {
        let writes = after.writes - before.writes;
        self.moves.record(writes, after.moved - before.moved);
        let committed =
            if after.checkpoints > before.checkpoints { after.committed - before.committed } else { 0 };
        self.checkpoints.record(writes, committed);
    }
}

/// An exact histogram of blocks over writes.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// Number of writes by blocks; writes without a wait are counted separately, as most are.
    waited: BTreeMap<u64, u64>,
    zeros: u64,
}

impl Waits {
    /// Records an operation that wrote `writes` blocks: the first of them waited for all `blocks`.
    pub fn record(&mut self, writes: u64, blocks: u64) {
        match blocks {
            0 => self.zeros += writes,
            n => {
                self.zeros += writes.saturating_sub(1);
                *self.waited.entry(n).or_default() += 1;
            }
        }
    }

    /// The blocks that this share of the writes does not exceed.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let writes = self.zeros + self.waited.values().sum::<u64>();
        let mut left = ((writes as f64 * q).ceil() as u64).saturating_sub(self.zeros);
        for (&blocks, &n) in &self.waited {
            if left == 0 {
                break;
            }
            if n >= left {
                return blocks;
            }
            left -= n;
        }
        0
    }

    #[must_use]
    pub fn max(&self) -> u64 {
        self.waited.keys().next_back().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_and_count_the_writes_that_did_not_wait() {
        let mut waits = Waits::default();
        waits.record(990, 0);
        (1..=9).for_each(|n| waits.record(1, n));
        waits.record(1, 700);
        assert_eq!([0.5, 0.99, 0.991, 0.999, 1.0].map(|q| waits.quantile(q)), [0, 0, 1, 9, 700]);
        assert_eq!(waits.max(), 700);
        waits.record(100, 900);
        assert_eq!((waits.quantile(0.99), waits.max()), (0, 900), "of 1100 writes 11 waited");
    }

    #[test]
    fn nothing_recorded_is_no_wait() {
        assert_eq!((Waits::default().quantile(0.99), Waits::default().max()), (0, 0));
    }
}
