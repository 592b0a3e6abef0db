//! Space required for dirty data and nodes, for recovery, and for cleaning itself.
//!
//! Where cleaning is paced, it is counted in blocks ([`segno_clean::need`]), elsewhere in sections.
use super::Nodes;
use crate::options::AllocMode;
use segno_clean::guard::Extent;
use segno_clean::need::{Figures, UNCOUNTED};
use segno_format::BLOCKS_PER_SEG;

/// Free sections kept where cleaning is not paced: recovery opens one for each log.
const MARGIN: u64 = 6;

impl Nodes {
    /// Sections that writing everything dirty may take where cleaning is not paced; with fewer free ones the volume is full.
    pub fn sections_for_dirty(&self) -> u64 {
        let dents = self.base.mem.dirty_dents.get() + self.quota.blocks_due();
        let nodes = self.base.mem.dirty_nodes.get() + dents;
        let per_section = u64::from(self.base.geo.blocks_per_sec()).max(1);
        // Elsewhere data may go to the holes of used segments.
        let data = if self.base.opts.mode == AllocMode::Lfs { self.base.mem.dirty_data.get() } else { 0 };
        [nodes, dents, data].map(|blocks| blocks.div_ceil(per_section)).iter().sum()
    }

    /// Sections that cleaning keeps free at any cost where cleaning is not paced.
    pub fn sections_kept(&self) -> u64 {
        self.sections_for_dirty() + MARGIN
    }

    /// Sections that a number of blocks takes where cleaning is not paced.
    pub fn sections_of(&self, blocks: u64) -> u64 {
        blocks.div_ceil(u64::from(self.base.geo.blocks_per_sec()).max(1))
    }

    /// Where cleaning is not paced: whether free sections, or holes that logs fill when few are free, have room for a number of blocks
    /// without the sections kept. Up to a segment of blocks has room like a batch of writeback.
    pub fn has_sections_for(&self, blocks: u64) -> bool {
        let spare = self.space.free_sections().saturating_sub(self.sections_kept());
        blocks <= BLOCKS_PER_SEG.into()
            || spare > self.sections_of(blocks)
            || self.space.with_table(|t| t.has_holes_for(blocks))
    }

    /// Whether the volume is large enough for a number of blocks, if cleaning leaves one section to each log.
    pub fn may_hold(&self, blocks: u64) -> bool {
        let kept = MARGIN * u64::from(self.base.geo.blocks_per_sec());
        let unused = self.base.geo.main_blocks().saturating_sub(self.space.counts.values().valid_blocks);
        blocks.saturating_add(kept) <= unused
    }

    /// Whether the logs may soon need every free section.
    pub fn needs_every_section(&self) -> bool {
        if self.base.is_paced() {
            return self.figures().floor() < 0;
        }
        self.space.free_sections() <= self.sections_kept()
    }

    /// Number of sections to keep free: for dirty blocks, and the reserve.
    pub fn sections_wanted(&self) -> u64 {
        self.sections_for_dirty() + u64::from(self.space.reserved_sections)
    }

    /// Whether a writer must clean first: there is no room for a quantum of writeback, or where cleaning is not paced, free
    /// sections no longer cover dirty blocks plus the reserve.
    pub fn short_of_sections(&self) -> bool {
        if self.base.is_paced() {
            self.is_behind()
        } else {
            self.space.free_sections() <= self.sections_wanted()
        }
    }

    /// Whether the volume can spare so many sections for recovery and still guarantees cleaning for what it holds. Kept on a
    /// fuller volume, they would make cleaning empty sections without a hole.
    pub(super) fn spares(&self, sections: u64) -> bool {
        let (geo, values) = (&self.base.geo, self.space.counts.values());
        let per_section = u64::from(geo.blocks_per_sec()).max(1);
        let held = Extent {
            sections: geo.section_count.into(),
            blocks_per_section: per_section,
            user_blocks: values.valid_blocks + sections * per_section,
        };
        sections == 0 || held.guarded().covers(values.valid_nodes.into())
    }

    /// Whether a quantum of writeback and the checkpoint behind it fit, if no crash makes recovery write anything again.
    pub fn can_place(&self) -> bool {
        Figures { kept: 0, logged: 0, ..self.figures() }.floor() >= 0
    }

    /// Figures for cleaning, without the sections that could be emptied. What is counted as needed moves on to what is used up, so it
    /// is read first; and a log that opens a section has its room after the section was taken.
    pub fn figures(&self) -> Figures {
        let mem = &self.base.mem;
        let granted_nodes = mem.granted_nodes.get();
        let granted = mem.granted.get() + UNCOUNTED;
        let dents = mem.dirty_dents.get() + self.quota.blocks_due();
        let dirty_nodes = mem.dirty_nodes.get() + dents;
        let in_checkpoint = mem.in_checkpoint.get();
        let values = self.space.counts.values();
        let nodes = u64::from(values.valid_nodes);
        let logged = self.since.logged().min(nodes);
        let left = self.space.log_room();
        let kept = if logged > 0 || self.spares(left.without_pointer) { left.without_pointer } else { 0 };
        Figures {
            per_section: u64::from(self.base.geo.blocks_per_sec()).max(1),
            free_sections: self.space.free_sections(),
            kept,
            pending_sections: 0,
            unused: self.base.geo.main_blocks().saturating_sub(values.valid_blocks),
            data_left: left.data,
            node_left: left.nodes,
            nodes,
            dirty_nodes,
            in_checkpoint,
            dents,
            logged,
            granted,
            granted_nodes,
            victim: None,
        }
    }
}
