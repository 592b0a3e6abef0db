//! What a caller hears while a check runs.
use serde::Serialize;

/// The passes, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    Superblock,
    Checkpoint,
    Sit,
    Nat,
    Nodes,
    Walk,
    Totals,
}

/// How far a pass has come; `total` is 0 where it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub pass: Pass,
    pub done: u64,
    pub total: u64,
}

impl Progress {
    pub(crate) fn start(pass: Pass) -> Self {
        Self { pass, done: 0, total: 0 }
    }
}
