//! Files: inodes in use, cached blocks of files and directories; reading, writing, truncation and writeback of data.
//!
//! Three rules keep data and index consistent while operations and flushes run concurrently:
//! * A dirty page has a reserved slot. The slot is reserved before the page is created, and the page is dropped
//!   before the slot, or its node, is freed.
//! * A slot gets its new address only after the block was written, and only if its page is still the one that was
//!   written; both are checked under the lock of the pages. With the gate closed a checkpoint places blocks of
//!   directories in the opposite order, and holds them until they are written.
//! * Readers take no part in this: they read a block, then check that the slot still names its address.
mod access;
mod batch;
mod block;
mod cluster_readahead;
mod compress;
mod fallocate;
mod fsync_round;
mod grow;
mod inline;
mod inode;
mod locked;
mod page;
mod place;
mod quota;
mod read;
mod seek;
mod sequence;
mod shift;
mod size;
mod tags;
mod truncate;
mod visits;
mod write;

pub use access::check_readable;
pub use batch::{Batch, FlushReason, Route};
pub use block::put_bytes;
pub use cluster_readahead::ReadaheadClusters;
pub use compress::{
    PackedClusters, Parameters, check_compressed, check_release, cluster_blocks, saved_blocks,
};
pub use fallocate::Reserve;
pub use fsync_round::FsyncRounds;
pub use inode::{Inode, InodeCache, sanity};
pub use locked::{Locked, request_for_dirty};
pub use page::{DirtyAccount, PageMap};
pub use place::Early;
pub use seek::BlockKind;
pub use sequence::{Choice, IDLE, PROMOTE, Sequence};
pub use tags::Tags;
pub use visits::Visits;
pub use write::WRITE_MAX;

use crate::base::Base;
use crate::error::{Error, Result};
use crate::nodes::Nodes;
use crate::room::Room;
use crate::space::Space;
use segno_format::Ino;
use segno_format::inode::Inline;
use std::sync::Arc;

/// Bytes of a block.
pub const SIZE: u64 = segno_format::BLOCK_SIZE as u64;

/// Is notified of files with dirty pages: after the page is dirty, with no lock held but the inode's.
pub trait DirtyFiles: Send + Sync {
    fn mark_dirty(&self, inode: &Arc<Inode>);
}

/// Files of a volume.
pub struct Files {
    pub base: Arc<Base>,
    pub space: Arc<Space>,
    pub nodes: Arc<Nodes>,
    pub room: Arc<Room>,
    pub inodes: InodeCache,
    pub packed: PackedClusters,
    clusters: ReadaheadClusters,
    dirty: Arc<dyn DirtyFiles>,
}

impl Files {
    pub fn new(nodes: Arc<Nodes>, room: Arc<Room>, dirty: Arc<dyn DirtyFiles>) -> Self {
        let (base, space) = (nodes.base.clone(), nodes.space.clone());
        let inodes = InodeCache::new(base.mem.clone());
        let packed = PackedClusters { nodes: nodes.clone() };
        Self { base, space, nodes, room, inodes, packed, clusters: ReadaheadClusters::default(), dirty }
    }

    /// The inode, for an operation.
    pub fn inode(&self, ino: Ino) -> Result<Arc<Inode>> {
        let inode = match self.inodes.get(ino, &self.nodes.cache, self.base.features) {
            // The NAT has no node of that number: the inode was freed or never existed.
            Err(Error::Corrupt(_)) if !self.nodes.exists(ino)? => return Err(Error::NotFound),
            other => self.base.health.record_damage(other)?,
        };
        if inode.is_gone() { Err(Error::NotFound) } else { Ok(inode) }
    }

    /// Registers an inode with dirty pages.
    pub fn mark_dirty(&self, inode: &Arc<Inode>) {
        if inode.is_dir() { self.inodes.mark_dirty(inode) } else { self.dirty.mark_dirty(inode) }
    }

    /// Whether the journal gets checksums of a file's data. Data that may be overwritten in place has none, as they
    /// would not stay valid. Block addresses of directories are not recorded either.
    pub fn wants_checksums(&self, inode: &Inode) -> bool {
        let pinned = || inode.get(|i| i.inline().contains(Inline::PIN_FILE));
        self.base.tx.records.wants_checksums() && !inode.is_dir() && !pinned()
    }
}
