//! Moving what is valid in a section.
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::journal::Mapped;
use crate::node::NodeFrame;
use crate::stat;
use crate::volume::Volume;
use segno_clean::Class;
use segno_clean::policy::Victim;
use segno_format::inode::Inline;
use segno_format::node::{NodeKind, first_block, kind_of_offset};
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Corrupt, Ino, Nid, SegNo, Structure};
use segno_journal::data_crc;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A data block and the slot that names it.
struct Moving {
    frame: Arc<NodeFrame>,
    slot: u16,
    addr: BlockAddr,
}

impl Volume {
    /// Moves every valid block out of a section; those of pinned files only if asked to.
    pub(super) fn clean_section(&self, victim: &Victim, pinned_too: bool) -> Result<()> {
        for seg in self.segments_of(victim.sec) {
            let offsets: Vec<u32> =
                self.segs.with_table(|t| (0..BLOCKS_PER_SEG).filter(|&off| t.is_valid(seg, off)).collect());
            if offsets.is_empty() {
                continue;
            }
            let summary = self.typed_summary(seg, victim.class)?;
            match victim.class {
                Class::Node => self.move_nodes(seg, &offsets, &summary)?,
                Class::Data => self.move_data(seg, &offsets, &summary, pinned_too)?,
            }
        }
        if victim.class == Class::Node || self.segs.with_table(|t| t.valid_in_section(victim.sec)) == 0 {
            stat::add(&self.stats.gc_sections, 1);
        }
        Ok(())
    }

    /// The summary of a segment, which must be of the kind that the SIT says.
    fn typed_summary(&self, seg: SegNo, class: Class) -> Result<Arc<RawSummaryBlock>> {
        let summary = self.segs.summary(seg)?;
        let found = summary.parse_type(self.geo.ssa_addr(seg).0.into())?;
        let expected = if class == Class::Node { SummaryType::Node } else { SummaryType::Data };
        if found != expected {
            let why = "summary type differs from the SIT's";
            return Err(Corrupt::seg(Structure::Summary, seg.0, why, found as u64, expected as u64).into());
        }
        Ok(summary)
    }

    /// Makes the nodes of a segment dirty; the next checkpoint writes them elsewhere.
    fn move_nodes(&self, seg: SegNo, offsets: &[u32], summary: &RawSummaryBlock) -> Result<()> {
        let mut frames = Vec::with_capacity(offsets.len());
        for &off in offsets {
            let (nid, addr) = (owner(summary, off).nid(), self.geo.seg_start(seg).offset(off));
            if self.is_at(nid, addr)? {
                frames.push((self.nodes.get(nid)?, addr));
            }
        }
        let op = self.gate.enter();
        for (frame, addr) in &frames {
            // A checkpoint, or the end of its file, may have been faster.
            if self.nodes.mark_moved(&op, frame, || self.is_at(frame.nid, *addr))? {
                stat::add(&self.stats.gc_node_blocks, 1);
            }
        }
        Ok(())
    }

    fn is_at(&self, nid: Nid, addr: BlockAddr) -> Result<bool> {
        Ok(self.geo.nid_ok(nid) && self.nat.get(nid)?.addr == addr)
    }

    /// Copies the data blocks of a segment to the cold log, file by file.
    fn move_data(
        &self,
        seg: SegNo,
        offsets: &[u32],
        summary: &RawSummaryBlock,
        pinned_too: bool,
    ) -> Result<()> {
        let mut by_file: BTreeMap<Ino, Vec<Moving>> = BTreeMap::new();
        for &off in offsets {
            let addr = self.geo.seg_start(seg).offset(off);
            if let Some(moving) = self.find_owner(owner(summary, off), addr)? {
                by_file.entry(moving.frame.ino).or_default().push(moving);
            }
        }
        for (ino, mut blocks) in by_file {
            let inode = match self.inode(ino) {
                Err(Error::NotFound | Error::Corrupt(_)) => continue,
                other => other?,
            };
            if pinned_too || !inode.get(|i| i.inline().contains(Inline::PIN_FILE)) {
                blocks.sort_by_key(|m| (m.frame.footer().node_offset(), m.slot));
                self.move_blocks(&inode, blocks)?;
            }
        }
        Ok(())
    }

    /// The slot that names a block, if the summary still tells the truth. A block without an owner stays where it is.
    fn find_owner(&self, owner: RawSummary, addr: BlockAddr) -> Result<Option<Moving>> {
        let frame = match self.nodes.get(owner.nid()) {
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
        match self.slot_addr(&m.frame, m.slot.into()) {
            Err(Error::Corrupt(_)) => Ok(false),
            other => Ok(other? == m.addr),
        }
    }

    /// Copies blocks of one file as they are, whatever they mean to it: a dirty page stays the newer content.
    fn move_blocks(&self, inode: &Arc<Inode>, mut blocks: Vec<Moving>) -> Result<()> {
        // Against truncation and against a flush, which would take the slots between our looking and our writing.
        let (_lock, _claim) = (inode.lock.read(), inode.flush.lock());
        if inode.is_gone() {
            return Ok(());
        }
        let mut failed = None;
        blocks.retain(|m| {
            self.still_names(m).unwrap_or_else(|e| {
                failed.get_or_insert(e);
                false
            })
        });
        failed.map_or(Ok(()), Err)?;
        let content = self.read_moving(&blocks)?;
        let owners = blocks.iter().map(|m| self.owner_of(m)).collect::<Result<Vec<RawSummary>>>()?;
        let order = self.in_order();
        let places = self.segs.allocate(LogType::ColdData, &owners)?;
        let checked = self.wants_checksums(inode);
        let crcs: Vec<Option<u32>> = content.iter().map(|b| checked.then(|| data_crc(b))).collect();
        let mut out: Vec<(BlockAddr, Arc<Block>)> = places.iter().copied().zip(content).collect();
        self.dev.write_scattered(&mut out).inspect_err(|e| {
            self.segs.abandon(&places);
            self.stop_if_zoned(e);
        })?;
        drop(order);
        let op = self.gate.enter();
        for ((m, &place), crc) in blocks.iter().zip(&places).zip(crcs) {
            // A checkpoint moves blocks of directories too.
            if self.still_names(m)? {
                self.set_slot(&op, inode, &m.frame, m.slot.into(), place)?;
                self.segs.publish(place, m.addr)?;
                self.note_moved(&op, inode, m, (place, crc))?;
            } else {
                self.segs.abandon(&[place]);
            }
        }
        stat::add(&self.stats.gc_data_blocks, blocks.len() as u64);
        Ok(())
    }

    /// Where blocks of directories are, replay finds by their names.
    fn note_moved(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        m: &Moving,
        (addr, crc): (BlockAddr, Option<u32>),
    ) -> Result<()> {
        if op.log_epoch() == 0 || inode.is_dir() {
            return Ok(());
        }
        let (offset, layout) = (m.frame.footer().node_offset(), inode.layout(self.features)?);
        if let Some(first) = first_block(offset, layout.slots, layout.per_node) {
            let mapped = Mapped { page: first + u64::from(m.slot), addr, crc };
            self.notes.mapped(op, inode.ino, std::iter::once(mapped), true);
        }
        Ok(())
    }

    fn owner_of(&self, m: &Moving) -> Result<RawSummary> {
        Ok(RawSummary::data(m.frame.nid, self.nat.get(m.frame.nid)?.version, m.slot))
    }

    fn read_moving(&self, blocks: &[Moving]) -> Result<Vec<Arc<Block>>> {
        let mut content = vec![Block::zeroed(); blocks.len()];
        let mut rest = content.as_mut_slice();
        for run in blocks.chunk_by(|a, b| a.addr.offset(1) == b.addr) {
            let (into, later) = rest.split_at_mut(run.len());
            rest = later;
            if let Some(first) = run.first() {
                self.dev.read_into(first.addr, into)?;
            }
        }
        Ok(content.into_iter().map(Arc::new).collect())
    }
}

fn owner(summary: &RawSummaryBlock, off: u32) -> RawSummary {
    summary.entries.get(off as usize).copied().unwrap_or_default()
}
