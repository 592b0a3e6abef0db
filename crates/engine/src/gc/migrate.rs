//! Moves the valid blocks out of a section.
use crate::error::{Error, Result};
use crate::files::{Batch, FlushReason, Inode};
use crate::gc::Gc;
use crate::health::invariant;
use crate::nodes::NodeFrame;
use crate::space::Table;
use crate::stat;
use crate::transaction::{MappedPage, Op};
use segno_clean::Class;
use segno_clean::policy::Victim;
use segno_format::inode::{Inline, InodeFlags};
use segno_format::node::{NodeKind, first_block, kind_of_offset};
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, SummaryType};
use segno_format::{BLOCKS_PER_SEG, BlockAddr, Corrupt, Ino, Nid, SecNo, SegNo, Structure};
use segno_journal::data_crc;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A data block and the slot that points to it.
struct Moving {
    frame: Arc<NodeFrame>,
    slot: u16,
    addr: BlockAddr,
}

impl Gc {
    /// Moves every valid block out of a section; blocks of pinned files only on request.
    pub(super) fn clean_section(&self, victim: &Victim, pinned_too: bool) -> Result<()> {
        let sec = SecNo(victim.sec);
        let class = self.nodes.space.with_table(|t| t.class_of_section(sec));
        let same = class == victim.class;
        invariant!(self.base.health, same, "a section of nodes is cleaned as one of data, or the reverse");
        for seg in self.base.geo.segments_of(sec) {
            let listed = self.owners_in(seg, victim.class)?;
            match victim.class {
                Class::Node => self.move_nodes(&listed)?,
                Class::Data => drop(self.move_listed(&listed, pinned_too)?),
            }
        }
        if victim.class == Class::Node || self.nodes.space.with_table(|t| t.valid_in_section(sec)) == 0 {
            stat::add(&self.base.stats.gc_sections, 1);
        }
        Ok(())
    }

    /// The valid blocks of a segment with their owners, from its summary, whose type has to be that of the SIT.
    pub(super) fn owners_in(&self, seg: SegNo, class: Class) -> Result<Vec<(RawSummary, BlockAddr)>> {
        let valid = |t: &mut Table| (0..BLOCKS_PER_SEG).filter(|&off| t.is_valid(seg, off)).collect();
        let offsets: Vec<u32> = self.nodes.space.with_table(valid);
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let summary = self.nodes.space.summary(seg)?;
        let found = summary.parse_type(self.base.geo.ssa_addr(seg).0.into())?;
        let expected = if class == Class::Node { SummaryType::Node } else { SummaryType::Data };
        if found != expected {
            let why = "summary type differs from the SIT's";
            return Err(Corrupt::seg(Structure::Summary, seg.0, why, found as u64, expected as u64).into());
        }
        let first = self.base.geo.seg_start(seg);
        let owner = |off| Some((*summary.entries.get(off as usize)?, first.offset(off)));
        Ok(offsets.into_iter().filter_map(owner).collect())
    }

    /// Dirties the nodes of a segment; the next checkpoint writes them elsewhere.
    fn move_nodes(&self, listed: &[(RawSummary, BlockAddr)]) -> Result<()> {
        let mut frames = Vec::with_capacity(listed.len());
        for &(owner, addr) in listed {
            let nid = owner.nid();
            if !self.is_at(nid, addr)? {
                continue;
            }
            match self.nodes.cache.get(nid) {
                // Freed meanwhile.
                Err(Error::Corrupt(_)) if !self.is_at(nid, addr)? => {}
                frame => frames.push((frame?, addr)),
            }
        }
        let op = self.base.tx.begin();
        for (frame, addr) in &frames {
            // A checkpoint or a truncation may have moved or freed the node already.
            if self.nodes.cache.mark_moved(&op, frame, || self.is_at(frame.nid, *addr))? {
                stat::add(&self.base.stats.gc_node_blocks, 1);
            }
        }
        Ok(())
    }

    fn is_at(&self, nid: Nid, addr: BlockAddr) -> Result<bool> {
        Ok(self.base.geo.nid_ok(nid) && self.nodes.nat.get(nid)?.addr == addr)
    }

    /// Moves data blocks that still have the owners of the list, file by file. Returns how many.
    pub(super) fn move_listed(&self, listed: &[(RawSummary, BlockAddr)], pinned_too: bool) -> Result<u64> {
        let mut by_file: BTreeMap<(Ino, usize), (LogType, Vec<Moving>)> = BTreeMap::new();
        for &(owner, addr) in listed.iter().filter(|(_, addr)| self.nodes.space.is_valid(*addr)) {
            let Some((seg, _)) = self.base.geo.seg_of(addr) else { continue };
            if let Some(moving) = self.find_owner(owner, addr)? {
                let log = self.nodes.space.log_of_moved(seg);
                let group = by_file.entry((moving.frame.ino, log.idx()));
                group.or_insert_with(|| (log, Vec::new())).1.push(moving);
            }
        }
        let mut moved = 0;
        for ((ino, _), (log, mut blocks)) in by_file {
            let inode = match self.files.inode(ino) {
                Err(Error::NotFound | Error::Corrupt(_)) => continue,
                other => other?,
            };
            if pinned_too || !inode.get(|i| i.inline().contains(Inline::PIN_FILE)) {
                blocks.sort_by_key(|m| (m.frame.footer().node_offset(), m.slot));
                moved += self.move_blocks(&inode, blocks, log)?;
            }
        }
        Ok(moved)
    }

    /// The slot that points to a block, if the summary is still valid. A block without an owner is not moved.
    fn find_owner(&self, owner: RawSummary, addr: BlockAddr) -> Result<Option<Moving>> {
        let frame = match self.nodes.cache.get(owner.nid()) {
            Err(Error::Corrupt(_)) => return Ok(None),
            other => other?,
        };
        let moving = Moving { frame, slot: owner.ofs_in_node.get(), addr };
        Ok(self.still_names(&moving)?.then_some(moving))
    }

    fn still_names(&self, m: &Moving) -> Result<bool> {
        let kind = kind_of_offset(m.frame.footer().node_offset());
        if !matches!(kind, Some(NodeKind::Inode | NodeKind::Direct { .. })) {
            return Ok(false);
        }
        match self.nodes.slot_addr(&m.frame, m.slot.into()) {
            Err(Error::Corrupt(_)) => Ok(false),
            other => Ok(other? == m.addr),
        }
    }

    /// Moves blocks of one file. Returns how many.
    fn move_blocks(&self, inode: &Arc<Inode>, mut blocks: Vec<Moving>, log: LogType) -> Result<u64> {
        // Excludes truncation and flushes, which would change the slots between the check and the update.
        let (_lock, _flush) = (inode.lock.read(), inode.flush.lock());
        if inode.is_gone() {
            return Ok(0);
        }
        let count = blocks.len() as u64;
        self.write_dirty(inode, &blocks)?;
        let mut failed = None;
        blocks.retain(|m| {
            self.still_names(m).unwrap_or_else(|e| {
                failed.get_or_insert(e);
                false
            })
        });
        failed.map_or(Ok(()), Err)?;
        if !blocks.is_empty() {
            self.copy_blocks(inode, &blocks, log)?;
        }
        Ok(count)
    }

    /// Writes the dirty pages among blocks to be moved: their old copies are then no longer needed. The caller holds the
    /// flush lock.
    fn write_dirty(&self, inode: &Arc<Inode>, blocks: &[Moving]) -> Result<()> {
        // Clusters are written as a whole; only checkpoints write directories.
        if inode.is_dir()
            || inode.get(|i| i.flags().contains(InodeFlags::COMPR))
            || inode.pages.lock().dirty() == 0
        {
            return Ok(());
        }
        let mut batch = Batch::new(self.base.next_serial(), FlushReason::Wanted);
        let taken = (|| {
            let _op = self.base.tx.begin();
            for m in blocks {
                if let Some(page) = self.page_of(inode, m)? {
                    self.files.take_pages(inode, page..page + 1, &mut batch)?;
                }
            }
            Ok(())
        })();
        let placed = taken
            .and_then(|()| self.files.write_batch(&mut batch))
            .inspect_err(|e| self.files.give_back(&batch, e))?;
        self.files.publish_written(&mut batch, placed)
    }

    /// Copies blocks verbatim. A page made dirty meanwhile remains the newer version.
    fn copy_blocks(&self, inode: &Arc<Inode>, blocks: &[Moving], log: LogType) -> Result<()> {
        let content = self.base.dev.read_scattered(&blocks.iter().map(|m| m.addr).collect::<Vec<_>>())?;
        let owners = blocks.iter().map(|m| self.nodes.summary_of(m.frame.nid, m.slot.into()));
        let owners = owners.collect::<Result<Vec<RawSummary>>>()?;
        let checked = self.files.wants_checksums(inode);
        let crcs: Vec<Option<u32>> = content.iter().map(|b| checked.then(|| data_crc(b))).collect();
        let mut placed = self.files.write_new(content, |space| space.allocate_moved(log, &owners))?;
        let places = std::mem::take(&mut placed.addrs);
        // The copies are written: a checkpoint may take their slots as soon as they are set.
        let op = self.base.tx.begin();
        placed.settle(|placed| {
            for ((m, &place), crc) in blocks.iter().zip(&places).zip(crcs) {
                // A checkpoint moves directory blocks too.
                if self.still_names(m)? {
                    // A reader that finds the new address waits here for its bit in the SIT.
                    let _pages = inode.pages.lock();
                    self.nodes.set_slot(&op, &inode.frame, &m.frame, m.slot.into(), place)?;
                    self.nodes.space.publish(placed, &[place], &[m.addr])?;
                    self.note_moved(&op, inode, m, (place, crc))?;
                }
            }
            Ok(())
        })?;
        stat::add(&self.base.stats.gc_data_blocks, blocks.len() as u64);
        Ok(())
    }

    /// Records the moves for the journal. Replay finds directory blocks by name instead.
    fn note_moved(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        m: &Moving,
        (addr, crc): (BlockAddr, Option<u32>),
    ) -> Result<()> {
        if !op.is_recorded() || inode.is_dir() {
            return Ok(());
        }
        if let Some(page) = self.page_of(inode, m)? {
            let mapped = MappedPage { page, addr, crc };
            op.mapped(inode.ino, std::iter::once(mapped), true);
        }
        Ok(())
    }

    /// The block number in the file.
    fn page_of(&self, inode: &Inode, m: &Moving) -> Result<Option<u64>> {
        let (offset, layout) = (m.frame.footer().node_offset(), inode.layout(self.base.features)?);
        Ok(first_block(offset, layout.slots, layout.per_node).map(|first| first + u64::from(m.slot)))
    }
}
