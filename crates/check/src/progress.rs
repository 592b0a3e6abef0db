//! Progress reports of a running check.
use serde::Serialize;

/// The passes, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// Both copies of the superblock.
    Superblock,
    /// Both packs, and the structures of the newer one.
    Checkpoint,
    /// Segment information table.
    Sit,
    /// Node address table.
    Nat,
    /// All inodes, in order of their addresses; left out when the passes start a second time.
    Nodes,
    /// The tree of directories, with the nodes and blocks of each file.
    Walk,
    /// Counters, and unreferenced nodes and blocks.
    Totals,
}

/// How far a pass has come; `total` is 0 where it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// The pass that is running.
    pub pass: Pass,
    /// Units done so far; the unit depends on the pass.
    pub done: u64,
    /// Units in all.
    pub total: u64,
}

impl Progress {
    pub(crate) fn start(pass: Pass) -> Self {
        Self { pass, done: 0, total: 0 }
    }
}
