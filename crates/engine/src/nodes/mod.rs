//! Nodes: the NAT, cached frames, dirty nodes by owner, the index tree and its slots, quota usage.
mod cache;
mod dirty;
mod frame;
mod free;
mod global;
mod nat;
mod quota;
mod recount;
mod since_checkpoint;
mod slots;
mod tree;
mod truncate;
mod write;

pub use cache::{NodeCache, NodeTables};
pub use dirty::{DirtyNodes, FrozenNodes};
pub use frame::{NodeFrame, NodeState};
#[cfg(test)]
pub use nat::BLOCKS_CACHED_MAX;
pub use nat::{Nat, NatEntry, NatFlush};
pub use quota::{Quota, QuotaFile};
pub use since_checkpoint::{Change, SinceCheckpoint};
pub use tree::{Place, Span};
pub use write::{Marks, NodeWrite};

use crate::base::Base;
use crate::error::Result;
use crate::gate::OpGate;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::record::Recorder;
use crate::space::Space;
use crate::sync::atomic::AtomicU64;
use segno_format::{BlockAddr, Ino};
use std::sync::Arc;

/// The nodes of a volume.
pub struct Nodes {
    pub base: Arc<Base>,
    pub space: Arc<Space>,
    pub nat: Arc<Nat>,
    pub cache: NodeCache,
    pub quota: Arc<Quota>,
    /// Changes since the last checkpoint that roll-forward cannot repeat.
    pub since: SinceCheckpoint,
    /// Operations are inside while they change metadata. A checkpoint closes it.
    pub gate: OpGate,
    /// Records changes by operations for the journal.
    pub notes: Arc<Recorder>,
    /// Stamp of node footers: version and crc of the checkpoint in force.
    pub stamp: AtomicU64,
    /// Held while blocks of the warm node log are placed and written, so that the chain has no holes. Holds the next
    /// address named by the last block of the chain, if fsyncs wrote any since the checkpoint.
    pub chain: Mutex<Option<BlockAddr>, { rank::CHAIN }>,
}

impl Nodes {
    /// Creates the nodes as of a checkpoint with this version and footer stamp.
    pub fn new(base: Arc<Base>, space: Arc<Space>, nat: Nat, version: u64, stamp: u64) -> Self {
        let (nat, quota, notes) =
            (Arc::new(nat), Arc::new(Quota::new(&base.sb)), Arc::new(Recorder::default()));
        let tables = NodeTables { nat: nat.clone(), quota: quota.clone(), notes: notes.clone() };
        let cache = NodeCache::new(
            tables,
            base.dev.clone(),
            base.mem.clone(),
            base.features,
            base.checksum_seed,
            base.health.clone(),
        );
        Self {
            base,
            space,
            nat,
            cache,
            quota,
            since: SinceCheckpoint::default(),
            gate: OpGate::new(version),
            notes,
            stamp: AtomicU64::new(stamp),
            chain: Mutex::new(None),
        }
    }

    /// Where sections are written in order, addresses are written before the next ones are allocated.
    pub fn in_order(&self) -> Option<MutexGuard<'_, Option<BlockAddr>, { rank::CHAIN }>> {
        self.base.dev.is_zoned().then(|| self.chain.lock())
    }

    /// Whether the NAT has an inode with this number.
    pub fn exists(&self, ino: Ino) -> Result<bool> {
        if !self.base.geo.nid_ok(ino) {
            return Ok(false);
        }
        let entry = self.nat.get(ino)?;
        Ok(entry.ino == ino && entry.addr != segno_format::BlockAddr::NULL)
    }
}
