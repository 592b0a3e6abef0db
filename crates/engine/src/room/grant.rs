//! Room promised to writeback, fsyncs and cleaning, where cleaning is paced.
//!
//! Every caller that places blocks needs a grant first. Figures are read and a promise is counted under one
//! lock, so two callers never take the same room. A promise for data ends when its blocks are placed, a
//! promise for nodes when they are counted as dirty.
use super::under_way::Ends;
use super::{Room, Rule};
use crate::memory::Counted;
use segno_clean::need::{Figures, Request, Work};

/// Promised room.
#[must_use]
pub struct Grant<'a> {
    /// Blocks to be placed.
    data: Counted<'a>,
    /// Nodes that their publication makes dirty.
    nodes: Counted<'a>,
    /// Of a batch, an fsync or copies, where cleaning is paced. Dropped after the counts.
    _ends: Option<Ends<'a>>,
}

impl<'a> Grant<'a> {
    /// Blocks that may be placed.
    pub fn blocks(&self) -> u64 {
        self.data.count()
    }

    /// Whether it covers a request.
    pub fn covers(&self, request: Request) -> bool {
        request.blocks <= self.data.count() && request.nodes <= self.nodes.count()
    }

    /// Takes blocks out, to be placed now. This grant keeps the promise for their nodes.
    pub fn split(&mut self, blocks: u64) -> Self {
        Self { data: self.data.split(blocks), nodes: self.nodes.split(0), _ends: None }
    }

    /// Ends the promise for blocks that are placed. The promise for their nodes remains.
    pub fn placed(mut self) -> Self {
        drop(self.split(u64::MAX));
        self
    }
}

impl Room {
    /// Grants room, if it fits with all that is granted and with the batch of cleaning under way, or the next one.
    pub fn grant(&self, request: Request) -> Option<Grant<'_>> {
        if self.rule == Rule::Rounds {
            return Some(self.grant_anyway(request));
        }
        let batch = self.batch.lock();
        let figures = self.look(&batch);
        let figures = self.space.with_table(|t| figures.with_victims(t.index()));
        if figures.promising(request).room(*batch) < 0 {
            return None;
        }
        let granted = self.grant_anyway(request);
        self.look(&batch);
        Some(granted)
    }

    /// Grants copies that are placed with the lock of their file held, so with no cleaning between them.
    pub fn grant_copies(&self, request: Request) -> Option<Grant<'_>> {
        match self.rule {
            Rule::Rounds if !self.has_sections_for(request.blocks) => None,
            _ => self.grant(request),
        }
    }

    /// Counts room as granted whether or not it fits.
    pub fn grant_anyway(&self, request: Request) -> Grant<'_> {
        let ends = (self.rule == Rule::Paced).then(|| self.under_way.begin());
        Grant { _ends: ends, ..self.hold(request) }
    }

    /// Promises room for writing `nodes` nodes to the chain ahead of the checkpoint. After a crash recovery
    /// writes them once more, so they take room twice.
    pub fn promise_chain(&self, nodes: usize) -> Option<Grant<'_>> {
        if self.rule == Rule::Rounds {
            return Some(self.grant_anyway(Request::default()));
        }
        let batch = self.batch.lock();
        let fits = self.spares(self.space.log_room().without_pointer)
            && self.look(&batch).has_room_for_chain(nodes as u64);
        // Until they count as logged, they count as data and as nodes.
        fits.then(|| self.grant_anyway(Request::batch(nodes)))
    }

    /// Sets the work left in the current batch of cleaning. The caller gives up work that does not fit in
    /// addition to all grants.
    pub fn plan(&self, batch: Work) {
        let mut planned = self.batch.lock();
        *planned = batch;
        self.look(&planned);
    }

    /// Promises room for the next copies of the batch, no more than the batch has left, if the batch still
    /// fits: an fsync may have taken room since.
    pub fn promise_copies(&self, copies: u64) -> Option<Grant<'_>> {
        let mut batch = self.batch.lock();
        let copies = copies.min(batch.left);
        if !self.look(&batch).fits(batch.left, batch.dirtied) {
            return None;
        }
        let nodes = copies.min(batch.dirtied);
        (batch.left, batch.dirtied) = (batch.left - copies, batch.dirtied - nodes);
        Some(self.hold(Request { blocks: copies, nodes }))
    }

    /// Promises room for `nodes` nodes that cleaning is about to make dirty, in addition to the batch.
    pub fn promise_moved_nodes(&self, nodes: u64) -> Option<Grant<'_>> {
        let batch = self.batch.lock();
        let fits = self.look(&batch).fits(batch.left, batch.dirtied + nodes);
        fits.then(|| self.hold(Request { blocks: 0, nodes }))
    }

    /// Figures, read with the lock of `batch` held. Also sets the number of sections that data logs leave to
    /// nodes.
    pub(super) fn look(&self, batch: &Work) -> Figures {
        let figures = self.figures();
        self.space.leave_to_nodes(figures.for_nodes(batch.dirtied));
        figures
    }

    fn hold(&self, request: Request) -> Grant<'_> {
        let mem = &self.base.mem;
        let (data, nodes) =
            (mem.granted.hold(request.blocks as usize), mem.granted_nodes.hold(request.nodes as usize));
        Grant { data, nodes, _ends: None }
    }
}
