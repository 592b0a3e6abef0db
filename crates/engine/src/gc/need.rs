//! How many free sections are spoken for: by what is dirty, by recovery, by cleaning itself.
//!
//! Where sections are written in order this is counted in blocks against what the logs have left of theirs, because every
//! section that is free and not needed is missing as spare space, and recovery goes on in the sections that logs are in.
//! Elsewhere recovery gives each log a section of its own.
use crate::options::AllocMode;
use crate::volume::Volume;

/// Free sections for recovery where logs cannot go on in theirs: one for each.
const MARGIN: u64 = 6;
/// Blocks that operations may make dirty before anybody counts them, of nodes and of data.
const UNCOUNTED: u64 = 128;

/// In sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// What writing everything that is dirty may take.
    pub dirty: u64,
    /// What is kept at any price beyond that: for recovery, and for emptying one section.
    pub kept: u64,
}

impl Volume {
    /// If a section with so many valid blocks is to be emptied next.
    pub(super) fn need(&self, valid_in_victim: u64) -> Need {
        if !self.dev.is_zoned() {
            return Need { dirty: self.sections_for_dirty(), kept: MARGIN };
        }
        let per_sec = u64::from(self.geo.blocks_per_sec()).max(1);
        let valid = u64::from(self.counts.values().valid_nodes);
        let (nodes, dents, data) = self.dirty_blocks();
        // What fsync logged, recovery writes once more.
        let nodes = nodes + self.since.logged().min(valid) + UNCOUNTED;
        let data = data + dents + self.mem.coming.get() + UNCOUNTED;
        let left = self.segs.left();
        let nodes_now = sections(nodes, left.nodes, per_sec);
        let data_now = sections(data, left.data, per_sec);
        // Copies make no more nodes dirty than there are of either.
        let more = valid.saturating_sub(self.mem.dirty_nodes.get()).min(valid_in_victim);
        let nodes_then = sections(nodes + more, left.nodes, per_sec);
        let data_then = sections(data + valid_in_victim, left.data, per_sec).min(data_now + 1);
        Need { dirty: data_now + nodes_now, kept: data_then - data_now + nodes_then - nodes_now + left.stuck }
    }

    /// Nodes, blocks of directories and data that wait for a place outside used segments.
    fn dirty_blocks(&self) -> (u64, u64, u64) {
        let dents = self.mem.dirty_dents.get() + self.quota.blocks_due();
        let data = if self.opts.mode == AllocMode::Lfs { self.mem.dirty_data.get() } else { 0 };
        (self.mem.dirty_nodes.get() + dents, dents, data)
    }

    /// Sections that they take: without so many free ones there is no space.
    pub(super) fn sections_for_dirty(&self) -> u64 {
        let per_sec = u64::from(self.geo.blocks_per_sec()).max(1);
        let (nodes, dents, data) = self.dirty_blocks();
        if self.dev.is_zoned() {
            let left = self.segs.left();
            return sections(nodes, left.nodes, per_sec) + sections(data + dents, left.data, per_sec);
        }
        nodes.div_ceil(per_sec) + dents.div_ceil(per_sec) + data.div_ceil(per_sec)
    }

    /// Sections that should stay free: for what is dirty, and the reserve.
    pub(crate) fn sections_wanted(&self) -> u64 {
        self.need(0).dirty + u64::from(self.segs.reserved_sections)
    }

    /// Whether free sections no longer cover what is dirty plus the reserve.
    pub(crate) fn short_of_sections(&self) -> bool {
        self.segs.free_sections() <= self.sections_wanted()
    }
}

/// Sections that so many blocks may open, however they are shared between logs that have so much left of theirs. A log
/// that fills its section opens the next one at once.
fn sections(blocks: u64, mut left: [u64; 3], per_sec: u64) -> u64 {
    left.sort_unstable();
    let (mut used, mut most) = (0, 0);
    for (logs, left) in (1..).zip(left) {
        used += left;
        if let Some(more) = blocks.checked_sub(used) {
            most = most.max(logs + more / per_sec);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries every way to share the blocks.
    fn by_trying(blocks: u64, left: [u64; 3], per_sec: u64) -> u64 {
        let of = |n: u64, left: u64| n.checked_sub(left).map_or(0, |more| 1 + more / per_sec);
        let [a, b, c] = left;
        (0..=blocks)
            .flat_map(|x| (0..=blocks - x).map(move |y| (x, y)))
            .map(|(x, y)| of(x, a) + of(y, b) + of(blocks - x - y, c))
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn no_way_to_share_blocks_opens_more_sections() {
        for left in [[1, 1, 1], [4, 1, 3], [4, 4, 4], [2, 4, 4], [3, 3, 1]] {
            for blocks in 0..16 {
                assert_eq!(sections(blocks, left, 4), by_trying(blocks, left, 4), "{blocks} {left:?}");
            }
        }
    }
}
