//! Block writes by class.

/// Cause of a block write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    UserData,
    MovedData,
    /// Nodes written by checkpoints and fsyncs.
    Nodes,
    MovedNodes,
    /// Directory blocks.
    Dents,
    Sit,
    Nat,
    Ssa,
    Pack,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::UserData,
        Self::MovedData,
        Self::Nodes,
        Self::MovedNodes,
        Self::Dents,
        Self::Sit,
        Self::Nat,
        Self::Ssa,
        Self::Pack,
    ];
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UserData => "user_data",
            Self::MovedData => "moved_data",
            Self::Nodes => "nodes",
            Self::MovedNodes => "moved_nodes",
            Self::Dents => "dents",
            Self::Sit => "sit",
            Self::Nat => "nat",
            Self::Ssa => "ssa",
            Self::Pack => "cp_pack",
        }
    }
    /// Whether it is written to sequential zones; the rest goes to conventional ones.
    #[must_use]
    pub fn is_main(self) -> bool {
        matches!(self, Self::UserData | Self::MovedData | Self::Nodes | Self::MovedNodes | Self::Dents)
    }
}

/// Counts since the layout was written; monotonic.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    pub writes: [u64; 9],
    /// Writes issued by the workload.
    pub app_writes: u64,
    /// Application writes to a page that was dirty already.
    pub coalesced: u64,
    /// Dirty pages that cleaning wrote because it moved their block.
    pub written_by_cleaning: u64,
    pub rounds: u64,
    /// Sections cleaned: data, node.
    pub sections: [u64; 2],
    /// Segments with valid blocks in them: data, node.
    pub segments: [u64; 2],
    pub checkpoints: u64,
    pub zone_resets: u64,
    pub zone_violations: u64,
    /// Histogram of foreground rounds by the blocks moved while a writer waited, in powers of two.
    pub stalls: [u64; 32],
    pub longest_stall: u64,
}

impl Counters {
    pub fn wrote(&mut self, kind: Kind, n: u64) {
        self.writes[kind as usize] += n;
    }
    #[must_use]
    pub fn of(&self, kind: Kind) -> u64 {
        self.writes[kind as usize]
    }
    #[must_use]
    pub fn total(&self) -> u64 {
        self.writes.iter().sum()
    }
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.of(Kind::MovedData) + self.of(Kind::MovedNodes)
    }
    pub fn stalled(&mut self, blocks: u64) {
        self.longest_stall = self.longest_stall.max(blocks);
        let class = (64 - blocks.leading_zeros() as usize).min(self.stalls.len() - 1);
        self.stalls[class] += 1;
    }
    /// Quantile of the blocks moved by a round, as the upper bound of its power of two.
    #[must_use]
    pub fn stall_quantile(&self, q: f64) -> u64 {
        let rounds: u64 = self.stalls.iter().sum();
        let mut left = (rounds as f64 * q).ceil() as u64;
        for (class, &n) in self.stalls.iter().enumerate() {
            if n >= left {
                return if left == 0 { 0 } else { (1u64 << class) - 1 };
            }
            left -= n;
        }
        0
    }
}
