//! Room promised to writeback, fsyncs and cleaning, where cleaning is paced.
//!
//! Whoever places blocks asks here first. Figures are read and a promise is counted under one lock, so two callers never take the
//! same room. A promise for data ends when its blocks are placed, one for nodes when they are counted as dirty.
use super::Nodes;
use crate::lock::{Mutex, rank};
use crate::memory::Counted;
use segno_clean::need::{Figures, Work};
use segno_format::Ino;

/// What cleaning under way still takes. Held while a promise is made.
pub type Promises = Mutex<Work, { rank::LOG }>;

/// A batch of writeback that has its room.
#[must_use]
pub struct Grant<'a> {
    /// Blocks to be placed.
    data: Counted<'a>,
    /// Nodes that their publication makes dirty.
    nodes: Counted<'a>,
}

impl<'a> Grant<'a> {
    /// Blocks that may be placed.
    pub fn blocks(&self) -> u64 {
        self.data.count()
    }

    /// The blocks are placed. What is left is the promise for their nodes.
    pub fn placed(self) -> Counted<'a> {
        drop(self.data);
        self.nodes
    }
}

impl Nodes {
    /// Grants a batch of writeback of up to a quantum, if it fits with all that is granted and with the batch of cleaning under
    /// way, or the next one. A cluster that is larger than a quantum takes `UNCOUNTED` too.
    pub fn grant(&self, pages: usize) -> Option<Grant<'_>> {
        if !self.base.is_paced() {
            return Some(self.grant_anyway(pages));
        }
        let batch = self.promises.lock();
        let figures = self.look(&batch);
        let figures = self.space.with_table(|t| figures.with_victims(t.index()));
        if figures.room(*batch) < 0 {
            return None;
        }
        let granted = self.grant_anyway(pages);
        self.look(&batch);
        Some(granted)
    }

    /// Counts a batch as granted that is placed whether or not it fits.
    pub fn grant_anyway(&self, pages: usize) -> Grant<'_> {
        self.base.mem.grants.add(1);
        self.hold(pages, pages)
    }

    /// Number of batches and fsyncs granted so far, `None` while one of them is under way. Its blocks count as promised and as used
    /// meanwhile, so figures show that space is spent only if this is the same before and after they were read.
    pub fn grants_ended(&self) -> Option<u64> {
        let _none_begins = self.promises.lock();
        let mem = &self.base.mem;
        (mem.granted.get() + mem.granted_nodes.get() == 0).then(|| mem.grants.get())
    }

    /// Promises an fsync the room for the nodes of an inode ahead of the checkpoint. After a crash recovery writes them once
    /// more, so they take room twice.
    pub fn promise_chain(&self, ino: Ino) -> Option<Grant<'_>> {
        if !self.base.is_paced() {
            return Some(self.grant_anyway(0));
        }
        let nodes = self.cache.dirty.direct_count(ino) + 1;
        let batch = self.promises.lock();
        let fits = self.spares(self.space.log_room().without_pointer)
            && self.look(&batch).has_room_for_chain(nodes as u64);
        // Until they count as logged, they count as data and as nodes.
        fits.then(|| self.grant_anyway(nodes))
    }

    /// Tells what is left of the batch of cleaning under way. The caller gives up what does not fit beside all that is granted.
    pub fn plan(&self, batch: Work) {
        let mut planned = self.promises.lock();
        *planned = batch;
        self.look(&planned);
    }

    /// Promises the next copies of the batch their room, no more than it has left, if it still fits: an fsync may have taken room since.
    pub fn promise_copies(&self, copies: u64) -> Option<Grant<'_>> {
        let mut batch = self.promises.lock();
        let copies = copies.min(batch.left);
        if !self.look(&batch).fits(batch.left, batch.dirtied) {
            return None;
        }
        let nodes = copies.min(batch.dirtied);
        (batch.left, batch.dirtied) = (batch.left - copies, batch.dirtied - nodes);
        Some(self.hold(copies as usize, nodes as usize))
    }

    /// Promises so many nodes that cleaning is about to make dirty their room, beside the batch.
    pub fn promise_moved_nodes(&self, nodes: u64) -> Option<Grant<'_>> {
        let batch = self.promises.lock();
        let fits = self.look(&batch).fits(batch.left, batch.dirtied + nodes);
        fits.then(|| self.hold(0, nodes as usize))
    }

    /// Whether cleaning must catch up before the next change: a quantum of writeback does not fit beside the batch under way.
    pub(super) fn is_behind(&self) -> bool {
        let batch = self.promises.lock();
        self.look(&batch).floor_after(batch.left, batch.dirtied) < 0
    }

    /// Figures with the lock held, as the argument shows. The logs learn what nodes need.
    fn look(&self, batch: &Work) -> Figures {
        let figures = self.figures();
        self.space.leave_to_nodes(figures.for_nodes(batch.dirtied));
        figures
    }

    fn hold(&self, data: usize, nodes: usize) -> Grant<'_> {
        let mem = &self.base.mem;
        Grant { data: mem.granted.hold(data), nodes: mem.granted_nodes.hold(nodes) }
    }
}
