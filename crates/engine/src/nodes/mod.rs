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

pub use cache::NodeCache;
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
use crate::space::Space;
use segno_format::Ino;
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
}

impl Nodes {
    /// Creates the nodes as of a checkpoint.
    pub fn new(base: Arc<Base>, space: Arc<Space>, nat: Nat) -> Self {
        let (nat, quota) = (Arc::new(nat), Arc::new(Quota::new(&base.sb)));
        let cache = NodeCache::new(nat.clone(), quota.clone(), base.clone());
        Self { base, space, nat, cache, quota, since: SinceCheckpoint::default() }
    }

    /// Whether the NAT has an inode with this number.
    pub fn exists(&self, ino: Ino) -> Result<bool> {
        if !self.base.geo.nid_ok(ino) {
            return Ok(false);
        }
        let entry = self.nat.get(ino.nid())?;
        Ok(entry.ino == ino && entry.addr != segno_format::BlockAddr::NULL)
    }
}
