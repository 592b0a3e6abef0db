//! A batch of dirty pages in writeback: taken, placed, written, then published in the index.
use super::compress::{Cluster, cluster_blocks};
use super::{Files, Inode, PageMap};
use crate::block::SharedBlock;
use crate::error::{Error, Result};
use crate::health::invariant;
use crate::memory::Memory;
use crate::nodes::{NodeFrame, Place, Span};
use crate::space::{Placement, Stream};
use crate::stat;
use crate::sync::atomic::Ordering;
use crate::transaction::{MappedPage, Op};
use segno_format::inode::{Advise, Inline, RawInode};
use segno_format::sit::LogType;
use segno_format::summary::RawSummary;
use segno_format::{BlockAddr, Corrupt, Structure};
use segno_journal::data_crc;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// Maximum number of pages in a batch.
const MAX_PAGES: usize = 1024;
/// Maximum number of pages in a batch with checksums.
const MAX_CHECKSUMMED: usize = 256;

/// Maximum number of pages in a batch written because of age. An fsync meanwhile is slower.
const MAX_AGED: usize = 64;

/// Reason for writing pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// A caller waits for it, or for memory.
    Wanted,
    /// A caller waits for a device flush after it.
    Synced,
    /// The pages are old. No caller waits, and fsyncs have precedence.
    Aged,
}

impl FlushReason {
    pub fn most(self) -> usize {
        match self {
            Self::Wanted | Self::Synced => MAX_PAGES,
            Self::Aged => MAX_AGED,
        }
    }
}

/// A page being written, or a block of a packed cluster in the place of one.
pub(super) struct Outgoing {
    pub index: u64,
    pub block: SharedBlock,
    /// Slot that will hold its address. The node is not freed before the page is dropped.
    pub frame: Arc<NodeFrame>,
    pub slot: u32,
    pub owner: RawSummary,
    /// The log, without a stream.
    pub log: LogType,
    pub addr: BlockAddr,
    /// Checksum for the journal.
    pub crc: Option<u32>,
}

/// The stream that pages are written to.
#[derive(Clone)]
pub struct Route {
    pub stream: Arc<Stream>,
    /// Whether the stream may open another section.
    pub may_open: bool,
}

/// Pages of one inode in a batch: single pages, or whole clusters.
pub(super) struct SubBatch {
    pub inode: Arc<Inode>,
    pub log: LogType,
    /// `None` for the log of the type.
    stream: Option<Route>,
    pub pages: Vec<Outgoing>,
    pub clusters: Vec<Cluster>,
}

impl SubBatch {
    pub fn new(inode: &Arc<Inode>, log: LogType) -> Self {
        Self { inode: inode.clone(), log, stream: None, pages: Vec::new(), clusters: Vec::new() }
    }

    /// Takes a dirty page with its slot's node and the version of that nid.
    pub fn take(
        &mut self,
        pages: &mut PageMap,
        index: u64,
        (span, version): &(Span, u8),
        id: u64,
        mem: &Memory,
    ) {
        let Some(block) = pages.begin_flush(index, id, mem) else { return };
        let (slot, frame) = (span.slot(index), span.frame.clone());
        let owner = RawSummary::data(frame.nid, *version, slot as u16);
        let (log, addr) = (self.log, BlockAddr::NULL);
        self.pages.push(Outgoing { index, block, frame, slot, owner, log, addr, crc: None });
    }
}

/// Pages of several inodes, written under one flush id.
pub struct Batch {
    pub(super) id: u64,
    pub why: FlushReason,
    pub(super) sub_batches: Vec<SubBatch>,
}

impl Batch {
    pub fn new(id: u64, why: FlushReason) -> Self {
        Self { id, why, sub_batches: Vec::new() }
    }
    pub fn len(&self) -> usize {
        self.sub_batches.iter().map(|p| p.pages.len()).sum()
    }
    /// Sets the stream of each inode's pages, chosen by inode, log and page indices.
    pub fn route(
        &mut self,
        mut choose: impl FnMut(&Arc<Inode>, LogType, &mut dyn ExactSizeIterator<Item = u64>) -> Option<Route>,
    ) {
        for sub in self.sub_batches.iter_mut().filter(|p| !p.pages.is_empty()) {
            let mut indices = sub.pages.iter().map(|p| p.index);
            sub.stream = choose(&sub.inode, sub.log, &mut indices);
        }
    }
    fn is_of_one_file(&self) -> bool {
        self.sub_batches.windows(2).all(|w| matches!(w, [a, b] if Arc::ptr_eq(&a.inode, &b.inode)))
    }
    fn pages(&self) -> impl Iterator<Item = &Outgoing> {
        self.sub_batches.iter().flat_map(|p| &p.pages)
    }
}

impl Files {
    /// Takes dirty pages of an inode into the batch until it is full. Returns the page to continue at.
    pub fn take_pages(
        &self,
        inode: &Arc<Inode>,
        range: Range<u64>,
        batch: &mut Batch,
    ) -> Result<Option<u64>> {
        let room = self.room.batch_pages(batch.why.most()).saturating_sub(batch.len());
        let log = if self.nodes.quota.owns(inode.ino) { LogType::HotData } else { file_log(inode) };
        if inode.get(RawInode::is_compressed) {
            return self.take_clusters(inode, range, log, batch);
        }
        // Held until every page has its slot: a page is dropped before its node is freed.
        let mut pages = inode.pages.lock();
        let range = self.flushed_range(inode, range);
        let indices = pages.dirty_in(range, room.saturating_add(1));
        let next = indices.get(room).copied();
        batch
            .sub_batches
            .push(SubBatch { pages: Vec::with_capacity(indices.len()), ..SubBatch::new(inode, log) });
        let sub = self
            .base
            .health
            .present(batch.sub_batches.last_mut(), "a batch has no sub-batch for its pages")?;
        let mut last: Option<(Span, u8)> = None;
        for index in indices.into_iter().take(room) {
            let owner = match last.take_if(|(span, _)| span.blocks.contains(&index)) {
                Some(same) => same,
                None => self.owner_of_page(inode, index)?,
            };
            sub.take(&mut pages, index, &owner, batch.id, &self.base.mem);
            last = Some(owner);
        }
        self.cover(inode, &mut pages, batch.id);
        Ok(next)
    }

    /// Computes checksums of the pages for the journal. Large batches get none: they are flushed before the commit
    /// instead.
    fn checksum_batch(&self, batch: &mut Batch) {
        if batch.len() > MAX_CHECKSUMMED {
            return;
        }
        for sub in batch.sub_batches.iter_mut().filter(|p| self.wants_checksums(&p.inode)) {
            sub.pages.iter_mut().for_each(|page| page.crc = Some(data_crc(&page.block)));
        }
    }

    /// Overwrites blocks of pinned files in place, as readers of a swap file or a boot loader rely on their
    /// addresses. Done inside the gate, so that a block freed meanwhile is not reused yet.
    pub(super) fn write_pinned(&self, batch: &mut Batch) -> Result<()> {
        if self.base.dev.is_zoned() {
            return Ok(());
        }
        for sub in
            batch.sub_batches.iter_mut().filter(|p| p.inode.get(|i| i.inline().contains(Inline::PIN_FILE)))
        {
            let mut places = Vec::with_capacity(sub.pages.len());
            for page in &sub.pages {
                places.push(self.nodes.slot_addr(&page.frame, page.slot)?);
            }
            let fixed = sub.pages.iter().zip(&places).filter(|(_, at)| at.is_real());
            let mut out: Vec<(BlockAddr, SharedBlock)> =
                fixed.map(|(p, &at)| (at, p.block.clone())).collect();
            self.base.dev.write_scattered(&mut out)?;
            stat::add(&self.base.stats.data_blocks, out.len() as u64);
            let mut pages = sub.inode.pages.lock();
            let mut places = places.into_iter();
            sub.pages.retain(|page| {
                let fixed = places.next().is_some_and(BlockAddr::is_real);
                if fixed {
                    pages.end_flush(page.index, batch.id, false, &self.base.mem);
                }
                !fixed
            });
        }
        Ok(())
    }

    /// The node with the slot of a page, and the version of its nid.
    pub(super) fn owner_of_page(&self, inode: &Inode, index: u64) -> Result<(Span, u8)> {
        match self.nodes.find_span(&inode.frame, index)? {
            Place::Span(span) => {
                let version = self.nodes.nat.get(span.frame.nid)?.version;
                Ok((span, version))
            }
            Place::Missing { .. } => Err(unreserved(inode, index).into()),
        }
    }

    /// Allocates an address for every page and writes it.
    pub fn write_batch(&self, batch: &mut Batch) -> Result<Placement> {
        let _order = self.in_order();
        let placed = self.place(batch)?;
        self.write_placed(batch).map(|()| placed)
    }

    /// Writes pages that have addresses.
    pub fn write_placed(&self, batch: &Batch) -> Result<()> {
        let mut out: Vec<(BlockAddr, SharedBlock)> =
            batch.pages().map(|p| (p.addr, p.block.clone())).collect();
        let placed = out.iter().all(|(addr, _)| addr.is_real());
        invariant!(self.base.health, placed, "a page without address is written");
        let written = match batch.why {
            FlushReason::Aged => self.base.dev.write_scattered_behind(&mut out),
            FlushReason::Wanted | FlushReason::Synced => self.base.dev.write_scattered(&mut out),
        };
        written.inspect_err(|e| self.base.stop_if_zoned(e))
    }

    /// Allocates addresses for all pages: one allocation for the files that share a log, with each file contiguous.
    pub fn place(&self, batch: &mut Batch) -> Result<Placement> {
        self.separate(batch)?;
        let mut placed = self.space.placement(batch.len());
        let mut waiting: Vec<(Option<Route>, &mut Outgoing)> = batch
            .sub_batches
            .iter_mut()
            .flat_map(|sub| sub.pages.iter_mut().map(|page| (sub.stream.clone(), page)))
            .collect();
        while let Some((stream, first)) = waiting.first() {
            let (log, stream) = (first.log, stream.clone());
            let same = |(s, page): &(Option<Route>, &mut Outgoing)| page.log == log && same_route(s, &stream);
            let (mut pages, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(same);
            waiting = rest;
            let owners: Vec<RawSummary> = pages.iter().map(|(_, page)| page.owner).collect();
            let same_log = match &stream {
                Some(stream) => self.space.allocate_in(&stream.stream, stream.may_open, &owners),
                None => self.space.allocate(log, &owners),
            };
            let same_log = match same_log {
                Ok(same_log) => same_log,
                Err(e) => return self.space.fill_unwritten(&placed.addrs).and(Err(e)),
            };
            invariant!(
                self.base.health,
                same_log.addrs.len() == owners.len(),
                "the numbers of pages and of addresses in a batch differ"
            );
            pages.iter_mut().zip(&same_log.addrs).for_each(|((_, page), &addr)| page.addr = addr);
            placed.append(same_log);
        }
        Ok(placed)
    }

    /// Gives pages of files without a hint and without a stream the log for their lifetime.
    fn separate(&self, batch: &mut Batch) -> Result<()> {
        let unhinted = |sub: &&mut SubBatch| sub.log == LogType::WarmData && sub.stream.is_none();
        let mut pages: Vec<&mut Outgoing> =
            batch.sub_batches.iter_mut().filter(unhinted).flat_map(|sub| &mut sub.pages).collect();
        if pages.is_empty() || !self.base.opts.lifetime {
            return Ok(());
        }
        let mut old = Vec::with_capacity(pages.len());
        for run in pages.chunk_by(|a, b| a.frame.nid == b.frame.nid) {
            let Some(first) = run.first() else { continue };
            old.extend(self.nodes.slots_at(&first.frame, run.iter().map(|page| page.slot))?);
        }
        for (page, log) in pages.iter_mut().zip(self.space.logs_of_written(&old)) {
            page.log = log;
        }
        Ok(())
    }

    /// Makes pages dirty again that could not be written. A device error in a batch of one file is reported by
    /// the next fsync. A batch of several files is retried file by file, so it blames none.
    pub fn give_back(&self, batch: &Batch, error: &Error) {
        for sub in batch.sub_batches.iter().filter(|p| !p.pages.is_empty()) {
            let mut pages = sub.inode.pages.lock();
            let clusters = sub.clusters.iter().flat_map(|c| c.first..c.first + cluster_blocks(&sub.inode));
            let taken = sub.pages.iter().map(|p| p.index).chain(clusters);
            taken.for_each(|index| pages.end_flush(index, batch.id, true, &self.base.mem));
            drop(pages);
            if matches!(error, Error::Io { .. }) && batch.is_of_one_file() {
                sub.inode.write_error.store(true, Ordering::Release);
            }
            self.mark_dirty(&sub.inode);
        }
    }

    /// Publishes a batch that was written.
    pub fn publish_written(&self, batch: &mut Batch, placed: Placement) -> Result<()> {
        self.checksum_batch(batch);
        self.publish_batch(&self.base.tx.begin(), batch, placed)
    }

    /// Publishes pages in the index. Blocks of pages that were dropped meanwhile are abandoned.
    pub fn publish_batch(&self, op: &Op<'_>, batch: &Batch, placed: Placement) -> Result<()> {
        placed.settle(|placed| {
            for sub in &batch.sub_batches {
                if sub.clusters.is_empty() {
                    self.publish_pages(op, sub, batch.id, placed)?;
                } else {
                    self.publish_clusters(op, sub, batch.id, placed)?;
                }
                let dir = sub.inode.is_dir();
                let counter = if dir { &self.base.stats.dent_blocks } else { &self.base.stats.data_blocks };
                stat::add(counter, sub.pages.len() as u64);
            }
            Ok(())
        })
    }

    fn publish_pages(&self, op: &Op<'_>, sub: &SubBatch, id: u64, placed: &mut Placement) -> Result<()> {
        // Held until the SIT has the blocks: a reader that finds a new address in a slot finds its bit set.
        let mut pages = sub.inode.pages.lock();
        // A page dropped meanwhile no longer has its slot.
        let alive: Vec<&Outgoing> = sub.pages.iter().filter(|p| pages.in_flush(p.index, id)).collect();
        let (mut new, mut old) = (Vec::with_capacity(alive.len()), Vec::with_capacity(alive.len()));
        for run in alive.chunk_by(|a, b| a.frame.nid == b.frame.nid) {
            let Some(first) = run.first() else { continue };
            let outside = "a page is published in a slot outside its node";
            self.nodes.edit_slots(op, &first.frame, outside, |slots| {
                for page in run {
                    let word = slots.get_mut(page.slot as usize)?;
                    new.push(page.addr);
                    old.push(BlockAddr(word.get()));
                    *word = U32::new(page.addr.0);
                }
                Some(())
            })?;
        }
        if !new.is_empty() {
            self.nodes.forget_extent(op, &sub.inode.frame);
        }
        // In the operation that changed the slots, so that record and slots are in one epoch.
        if !sub.inode.is_dir() {
            let mapped = |p: &&Outgoing| MappedPage { page: p.index, addr: p.addr, crc: p.crc };
            op.mapped(sub.inode.ino, alive.iter().map(mapped), false);
        }
        sub.pages.iter().for_each(|p| pages.end_flush(p.index, id, false, &self.base.mem));
        self.publish_size(op, &sub.inode, &pages, pages.covered);
        let reserved = old.iter().all(|&addr| addr != BlockAddr::NULL);
        invariant!(self.base.health, reserved, "a page is published in an unreserved slot");
        invariant!(self.base.health, new.len() == alive.len(), "a page of a batch is not published");
        old.retain(|addr| addr.is_real());
        self.space.publish(placed, &new, &old)
    }
}

fn same_route(a: &Option<Route>, b: &Option<Route>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(&a.stream, &b.stream),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// The log for a file's data.
pub fn file_log(inode: &Inode) -> LogType {
    inode.get(|i| match i.advise() {
        _ if i.is_dir() => LogType::HotData,
        a if a.contains(Advise::COLD) => LogType::ColdData,
        a if a.contains(Advise::HOT) => LogType::HotData,
        // As in F2FS: data worth compressing is rarely overwritten.
        _ if i.is_compressed() => LogType::ColdData,
        _ => LogType::WarmData,
    })
}

fn unreserved(inode: &Inode, index: u64) -> Corrupt {
    Corrupt::nid(Structure::DirectNode, inode.ino.0, "no node for a changed block", index, 0)
}
