//! A batch of dirty pages on its way out: taken, given addresses, written, and only then named by the index.
use super::index::{Place, Span};
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::journal::Mapped;
use crate::lock::{MutexGuard, rank};
use crate::node::NodeFrame;
use crate::planted::{Bug, planted};
use crate::segment::Stream;
use crate::stat;
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_format::inode::{Advise, Inline};
use segno_format::sit::LogType;
use segno_format::summary::RawSummary;
use segno_format::{Block, BlockAddr, Corrupt, Structure};
use segno_journal::data_crc;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// Pages in a batch at most.
const BATCH: usize = 1024;
/// Pages in a batch that has checksums at most.
const CHECKED: usize = 256;

/// Pages that are written at once because they are old. While such a piece is on its way an fsync is slower.
const PIECE: usize = 64;

/// Why pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Somebody waits for it, or for memory.
    Wanted,
    /// Somebody waits for a device flush behind it.
    Synced,
    /// They are old. Nobody waits, and those who wait for an fsync go first.
    Aged,
}

impl Reason {
    pub fn most(self) -> usize {
        match self {
            Self::Wanted | Self::Synced => BATCH,
            Self::Aged => PIECE,
        }
    }
}

/// A page on its way out.
struct Outgoing {
    index: u64,
    block: Arc<Block>,
    /// Where its address will be stored. The node cannot go before the page is dropped.
    frame: Arc<NodeFrame>,
    slot: u32,
    owner: RawSummary,
    addr: BlockAddr,
    /// For the journal.
    crc: Option<u32>,
}

/// The pages of one inode.
struct Part {
    inode: Arc<Inode>,
    log: LogType,
    /// `None` stands for the log of the type.
    stream: Option<Arc<Stream>>,
    pages: Vec<Outgoing>,
}

/// Pages of some inodes that are written under one flush id.
pub(crate) struct Batch {
    id: u64,
    why: Reason,
    parts: Vec<Part>,
}

impl Batch {
    pub fn new(id: u64, why: Reason) -> Self {
        Self { id, why, parts: Vec::new() }
    }
    pub fn len(&self) -> usize {
        self.parts.iter().map(|p| p.pages.len()).sum()
    }
    pub(super) fn addrs(&self) -> Vec<BlockAddr> {
        self.pages().map(|p| p.addr).collect()
    }
    fn pages(&self) -> impl Iterator<Item = &Outgoing> {
        self.parts.iter().flat_map(|p| &p.pages)
    }
}

impl Volume {
    /// Takes dirty pages of an inode into the batch while there is room. Returns where to go on.
    pub(super) fn take_pages(
        &self,
        inode: &Arc<Inode>,
        range: Range<u64>,
        batch: &mut Batch,
    ) -> Result<Option<u64>> {
        let room = batch.why.most().saturating_sub(batch.len());
        let log = if self.quota.owns(inode.ino) { LogType::HotData } else { file_log(inode) };
        // Held until every page has its slot: no page's node is freed before the page is dropped.
        let mut pages = inode.pages.lock();
        let range = self.flushed_range(inode, range);
        let indices = pages.dirty_in(range, room.saturating_add(1));
        let next = indices.get(room).copied();
        batch.parts.push(Part {
            inode: inode.clone(),
            log,
            stream: None,
            pages: Vec::with_capacity(indices.len()),
        });
        let Some(part) = batch.parts.last_mut() else { return Ok(next) };
        let mut last: Option<(Span, u8)> = None;
        for index in indices.into_iter().take(room) {
            let (span, version) = match last.take_if(|(span, _)| span.blocks.contains(&index)) {
                Some(same) => same,
                None => self.owner_of_page(inode, index)?,
            };
            let slot = span.slot(index);
            let owner = RawSummary::data(span.frame.nid, version, slot as u16);
            let frame = span.frame.clone();
            if let Some(block) = pages.begin_flush(index, batch.id, &self.mem) {
                let addr = BlockAddr::NULL;
                part.pages.push(Outgoing { index, block, frame, slot, owner, addr, crc: None });
            }
            last = Some((span, version));
        }
        self.cover(inode, &mut pages, batch.id);
        Ok(next)
    }

    /// Takes the checksums of what is written, for the journal. Of much at once it is not worth it: a flush more does not
    /// matter then.
    pub(super) fn checksum_batch(&self, batch: &mut Batch) {
        if batch.len() > CHECKED {
            return;
        }
        for part in batch.parts.iter_mut().filter(|p| self.wants_checksums(&p.inode)) {
            part.pages.iter_mut().for_each(|page| page.crc = Some(data_crc(&page.block)));
        }
    }

    /// Blocks of pinned files are overwritten where they are: a swap file's or a boot loader's reader knows the place. It
    /// happens inside the gate, so that a place which is given up meanwhile is not somebody else's yet.
    pub(super) fn write_pinned(&self, batch: &mut Batch) -> Result<()> {
        if self.dev.is_zoned() {
            return Ok(());
        }
        for part in batch.parts.iter_mut().filter(|p| p.inode.get(|i| i.inline().contains(Inline::PIN_FILE)))
        {
            let mut places = Vec::with_capacity(part.pages.len());
            for page in &part.pages {
                places.push(self.slot_addr(&page.frame, page.slot)?);
            }
            let fixed = part.pages.iter().zip(&places).filter(|(_, at)| at.is_real());
            let mut out: Vec<(BlockAddr, Arc<Block>)> = fixed.map(|(p, &at)| (at, p.block.clone())).collect();
            self.dev.write_scattered(&mut out)?;
            stat::add(&self.stats.data_blocks, out.len() as u64);
            let mut pages = part.inode.pages.lock();
            let mut places = places.into_iter();
            part.pages.retain(|page| {
                let fixed = places.next().is_some_and(BlockAddr::is_real);
                if fixed {
                    pages.end_flush(page.index, batch.id, false, &self.mem);
                }
                !fixed
            });
        }
        Ok(())
    }

    /// The node with the slot of a page, and the version of its nid.
    fn owner_of_page(&self, inode: &Inode, index: u64) -> Result<(Span, u8)> {
        match self.find_span(inode, index)? {
            Place::Span(span) => {
                let version = self.nat.get(span.frame.nid)?.version;
                Ok((span, version))
            }
            Place::Missing { .. } => Err(unreserved(inode, index).into()),
        }
    }

    /// Gives every page an address and writes it there. After an error no address is taken.
    pub(super) fn write_batch(&self, batch: &mut Batch) -> Result<()> {
        let _order = self.in_order();
        self.place(batch)?;
        if planted(Bug::EarlyPublish) { Ok(()) } else { self.write_placed(batch) }
    }

    /// What is written once it was published, which is nothing.
    pub(super) fn write_late(&self, batch: &Batch) -> Result<()> {
        if planted(Bug::EarlyPublish) { self.write_placed(batch) } else { Ok(()) }
    }

    fn write_placed(&self, batch: &Batch) -> Result<()> {
        let mut out: Vec<(BlockAddr, Arc<Block>)> =
            batch.pages().map(|p| (p.addr, p.block.clone())).collect();
        let written = match batch.why {
            Reason::Aged => self.dev.write_scattered_behind(&mut out),
            Reason::Wanted | Reason::Synced => self.dev.write_scattered(&mut out),
        };
        written.inspect_err(|e| {
            let addrs: Vec<BlockAddr> = out.iter().map(|(addr, _)| *addr).collect();
            self.segs.abandon(&addrs);
            self.stop_if_zoned(e);
        })
    }

    /// Where sections are written in order, whoever has taken addresses writes before the next one takes any.
    pub(crate) fn in_order(&self) -> Option<MutexGuard<'_, (), { rank::CHAIN }>> {
        self.dev.is_zoned().then(|| self.chain.lock())
    }

    /// A write that failed leaves a gap that nothing can be written behind.
    pub(crate) fn stop_if_zoned(&self, why: &Error) {
        if self.dev.is_zoned() {
            self.stop(why);
        }
    }

    /// Writes blocks that a boundary found dirty and placed. They stay in memory until then, as the batch holds their inodes.
    pub(crate) fn write_frozen(&self, batch: &Batch) -> Result<()> {
        self.write_placed(batch)?;
        self.segs.abandon(&batch.addrs());
        Ok(())
    }

    /// Gives pages their addresses: those of files that share a log together, each file in one piece.
    pub(super) fn place(&self, batch: &mut Batch) -> Result<()> {
        let mut placed: Vec<BlockAddr> = Vec::with_capacity(batch.len());
        let synced = batch.why == Reason::Synced;
        for part in batch.parts.iter_mut().filter(|p| !p.pages.is_empty()) {
            let indices = part.pages.iter().map(|p| p.index);
            part.stream = self.stream_for(&part.inode, part.log, indices, synced);
        }
        let mut waiting: Vec<&mut Part> = batch.parts.iter_mut().filter(|p| !p.pages.is_empty()).collect();
        while let Some(first) = waiting.first() {
            let (log, stream) = (first.log, first.stream.clone());
            let together = |p: &&mut Part| p.log == log && same(&p.stream, &stream);
            let (mut parts, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(together);
            waiting = rest;
            let owners: Vec<RawSummary> = parts.iter().flat_map(|p| &p.pages).map(|p| p.owner).collect();
            let addrs = match &stream {
                Some(stream) => self.segs.allocate_in(stream, self.may_open(stream), &owners),
                None => self.segs.allocate(log, &owners),
            };
            let addrs = match addrs {
                Ok(addrs) => addrs,
                Err(e) => {
                    self.segs.give_up(&placed)?;
                    return Err(e);
                }
            };
            let pages = parts.iter_mut().flat_map(|p| &mut p.pages);
            pages.zip(&addrs).for_each(|(page, &addr)| page.addr = addr);
            placed.extend(addrs);
        }
        Ok(())
    }

    /// Pages that could not be written are dirty again. The next fsync of a file that the device failed tells; a batch of
    /// several files is tried again file by file, so it blames none.
    pub(super) fn give_back(&self, batch: &Batch, error: &Error) {
        for part in batch.parts.iter().filter(|p| !p.pages.is_empty()) {
            let mut pages = part.inode.pages.lock();
            part.pages.iter().for_each(|p| pages.end_flush(p.index, batch.id, true, &self.mem));
            drop(pages);
            if matches!(error, Error::Io { .. }) && batch.parts.len() == 1 {
                part.inode.write_error.store(true, Ordering::Release);
            }
            self.mark_dirty(&part.inode);
        }
    }

    /// Points the index at what was written.
    pub(super) fn publish_batch(&self, op: &Op<'_>, batch: &Batch) -> Result<()> {
        for part in &batch.parts {
            self.publish_part(op, part, batch.id)?;
            let dir = part.inode.is_dir();
            let counter = if dir { &self.stats.dent_blocks } else { &self.stats.data_blocks };
            stat::add(counter, part.pages.len() as u64);
        }
        Ok(())
    }

    fn publish_part(&self, op: &Op<'_>, part: &Part, id: u64) -> Result<()> {
        let mut pages = part.inode.pages.lock();
        // A page that was dropped meanwhile has lost its slot.
        let (alive, dropped): (Vec<&Outgoing>, Vec<&Outgoing>) =
            part.pages.iter().partition(|p| pages.in_flush(p.index, id));
        let dropped: Vec<BlockAddr> = dropped.iter().map(|p| p.addr).collect();
        self.segs.abandon(&dropped);
        let mut published: Vec<(BlockAddr, BlockAddr)> = Vec::with_capacity(alive.len());
        for run in alive.chunk_by(|a, b| a.frame.nid == b.frame.nid) {
            let Some(first) = run.first() else { continue };
            self.edit_slots(op, &first.frame, |slots| {
                for page in run {
                    let Some(word) = slots.get_mut(page.slot as usize) else { continue };
                    published.push((page.addr, BlockAddr(word.get())));
                    *word = U32::new(page.addr.0);
                }
            })?;
        }
        if !published.is_empty() {
            self.forget_extent(op, &part.inode);
        }
        if !part.inode.is_dir() {
            let mapped = |p: &&Outgoing| Mapped { page: p.index, addr: p.addr, crc: p.crc };
            self.notes.mapped(op, part.inode.ino, alive.iter().map(mapped), false);
        }
        part.pages.iter().for_each(|p| pages.end_flush(p.index, id, false, &self.mem));
        self.publish_size(op, &part.inode, &pages, pages.covered);
        debug_assert!(published.iter().all(|&(_, old)| old != BlockAddr::NULL), "page without a slot");
        self.segs.publish_all(&published)
    }
}

fn same(a: &Option<Arc<Stream>>, b: &Option<Arc<Stream>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// The log for a file's data.
pub(super) fn file_log(inode: &Inode) -> LogType {
    inode.get(|i| match i.advise() {
        _ if i.is_dir() => LogType::HotData,
        a if a.contains(Advise::COLD) => LogType::ColdData,
        a if a.contains(Advise::HOT) => LogType::HotData,
        _ => LogType::WarmData,
    })
}

fn unreserved(inode: &Inode, index: u64) -> Corrupt {
    Corrupt::nid(Structure::DirectNode, inode.ino.0, "no node for a changed block", index, 0)
}
