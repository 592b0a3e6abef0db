//! Room in sections, which cleaning makes in rounds.
use super::Room;
use crate::options::AllocMode;
use segno_format::BLOCKS_PER_SEG;

/// Free sections kept: recovery opens one for each log.
const MARGIN: u64 = 6;
/// A checkpoint is worth writing once it would free this fraction of the distance between floor and goal.
const COMMIT_DIVISOR: u64 = 2;

/// Free space, in sections.
#[derive(Clone, Copy, Debug)]
pub struct Sections {
    pub free: u64,
    /// Sections that the next checkpoint frees.
    pub pending: u64,
    /// Sections that cleaning keeps free at any cost.
    floor: u64,
    /// Sections that cleaning aims for: dirty blocks and the reserve.
    pub goal: u64,
}

impl Sections {
    /// Whether every possible source of space must be tried.
    pub fn is_spent(&self) -> bool {
        self.free <= self.floor
    }
    fn between(&self) -> u64 {
        self.goal.saturating_sub(self.floor).max(1)
    }
    /// Maximum valid blocks of a victim, out of `full`. The limit rises as free space shrinks: near the goal only
    /// almost empty sections are worth their copies, at the floor all are. Meanwhile logs reuse holes (SSR).
    pub fn most_valid(&self, full: u64) -> u64 {
        let left = self.free.saturating_sub(self.floor).min(self.between());
        full * (self.between() - left) / self.between()
    }
    /// Whether the pending sections are worth a checkpoint.
    pub fn pays(&self) -> bool {
        self.pending > 0
            && (self.is_spent()
                || self.free + self.pending > self.goal
                || self.pending * COMMIT_DIVISOR >= self.between())
    }
}

impl Room {
    /// Free and needed sections for a request of `wanted` blocks. The next checkpoint frees `waiting`
    /// sections in addition to those prefree in the table.
    pub fn sections(&self, waiting: u64, wanted: u64) -> Sections {
        Sections {
            free: self.space.free_sections(),
            pending: self.space.with_table(|t| t.prefree_sections()) + waiting,
            floor: self.sections_kept(),
            goal: self.sections_wanted() + self.sections_of(wanted),
        }
    }

    /// Sections that writing everything dirty may take; with fewer free ones the volume is full.
    pub fn sections_for_dirty(&self) -> u64 {
        let dents = self.base.mem.dirty_dents.get() + self.nodes.quota.blocks_due();
        let nodes = self.base.mem.dirty_nodes.get() + dents;
        // Elsewhere data may go to the holes of used segments.
        let data = if self.base.opts.mode == AllocMode::Lfs { self.base.mem.dirty_data.get() } else { 0 };
        [nodes, dents, data].map(|blocks| self.sections_of(blocks)).iter().sum()
    }

    /// Sections that cleaning keeps free at any cost.
    pub(super) fn sections_kept(&self) -> u64 {
        self.sections_for_dirty() + MARGIN
    }

    /// Sections to keep free: for dirty blocks, and the reserve.
    pub(super) fn sections_wanted(&self) -> u64 {
        self.sections_for_dirty() + u64::from(self.space.reserved_sections)
    }

    /// Free sections beyond the dirty blocks and the reserve.
    pub fn spare_sections(&self) -> u64 {
        self.space.free_sections().saturating_sub(self.sections_wanted())
    }

    fn sections_of(&self, blocks: u64) -> u64 {
        blocks.div_ceil(self.per_section())
    }

    /// Whether free sections, or holes that logs fill when few are free, have room for a number of blocks without the sections kept. Up to a
    /// segment of blocks has room like a batch of writeback.
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
}
