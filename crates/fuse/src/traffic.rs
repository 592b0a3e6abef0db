//! Numbers and times of requests.
use crate::times::Times;
use crate::wire::Opcode;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operation codes below this are counted.
const OPCODES: usize = 64;

/// Requests since the mount.
#[derive(Debug)]
pub struct Traffic {
    counts: [AtomicU64; OPCODES],
    pub(crate) times: Times,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { counts: std::array::from_fn(|_| AtomicU64::new(0)), times: Times::default() }
    }
}

impl Traffic {
    /// A request was received.
    pub(crate) fn count(&self, opcode: Opcode) {
        if let Some(n) = self.counts.get(opcode as usize) {
            n.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of requests received, by operation.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (Opcode, u64)> {
        let counts = self.counts.iter().map(|n| n.load(Ordering::Relaxed));
        (0..).zip(counts).filter(|(_, n)| *n > 0).filter_map(|(code, n)| Some((Opcode::from_wire(code)?, n)))
    }

    /// Counters by name: `fuse_` and the operation, then the counters of times.
    pub fn report(&self) -> Vec<(String, u64)> {
        let requests = self.requests().map(|(op, count)| (format!("fuse_{op:?}").to_lowercase(), count));
        requests.chain(self.times.report()).collect()
    }
}
