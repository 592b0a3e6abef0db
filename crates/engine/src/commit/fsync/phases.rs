//! Timing of one fsync by phase.
use crate::stat::FsyncStats;
use std::time::Instant;

/// A phase of an fsync.
#[derive(Clone, Copy, Debug)]
pub enum Phase {
    Data,
    Node,
    Flush,
    Checkpoint,
}

/// Nanoseconds by phase of one fsync.
#[derive(Debug)]
pub struct Phases {
    begun: Instant,
    spent: [u64; 4],
    /// Part of the node phase.
    pub lookup: u64,
}

impl Phases {
    pub fn begin() -> Self {
        Self { begun: Instant::now(), spent: [0; 4], lookup: 0 }
    }

    /// Runs `piece` and adds its time to a phase.
    pub fn time<R>(&mut self, phase: Phase, piece: impl FnOnce(&mut Self) -> R) -> R {
        let begun = Instant::now();
        let r = piece(self);
        self.spent[phase as usize] += begun.elapsed().as_nanos() as u64;
        r
    }

    /// Records the phases of a completed fsync.
    pub fn record(&self, stats: &FsyncStats) {
        let [data, node, flush, checkpoint] = self.spent;
        stats.data.record(data);
        if checkpoint > 0 {
            stats.checkpoint.record(checkpoint);
        } else {
            stats.lookup.record(self.lookup);
            stats.node.record(node);
            stats.flush.record(flush);
        }
        stats.total.record(self.begun.elapsed().as_nanos() as u64);
    }
}
