//! How many free sections are spoken for: by what is dirty, by recovery, by cleaning itself.
//!
//! Where sections are written in order this is counted in blocks against what the logs have left of theirs, because every
//! section that is free and not needed is missing as spare space, and recovery goes on in the sections that logs are in.
//! Elsewhere recovery gives each log a section of its own.
use crate::options::AllocMode;
use crate::segment::Left;
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

/// What is dirty, and where it can go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Nodes, and the blocks of nodes that directories will need.
    nodes: u64,
    dents: u64,
    /// Data that waits for a place outside used segments.
    data: u64,
    per_sec: u64,
    in_order: Option<InOrder>,
}

/// The same where sections are written in order.
#[derive(Clone, Copy, Debug)]
struct InOrder {
    left: Left,
    /// What nobody has counted yet: nodes and data.
    more: (u64, u64),
    /// Nodes that copies can make dirty.
    clean_nodes: u64,
}

impl Demand {
    /// If a section with so many valid blocks is to be emptied next.
    pub fn need(&self, valid_in_victim: u64) -> Need {
        let Some(InOrder { left, more: (nodes, data), clean_nodes }) = self.in_order else {
            return Need { dirty: self.sections(), kept: MARGIN };
        };
        let (nodes_now, data_now) = self.sections_in_order(left, nodes, data);
        // Copies make no more nodes dirty than there are of either.
        let copied = clean_nodes.min(valid_in_victim);
        let (nodes_then, data_then) = self.sections_in_order(left, nodes + copied, data + valid_in_victim);
        let data_then = data_then.min(data_now + 1);
        Need { dirty: data_now + nodes_now, kept: data_then - data_now + nodes_then - nodes_now + left.stuck }
    }

    /// Sections that what is dirty takes: without so many free ones there is no space.
    pub fn sections(&self) -> u64 {
        if let Some(InOrder { left, .. }) = self.in_order {
            let (nodes, data) = self.sections_in_order(left, 0, 0);
            return nodes + data;
        }
        [self.nodes, self.dents, self.data].map(|n| n.div_ceil(self.per_sec)).iter().sum()
    }

    /// Those of nodes and those of data, with so many blocks more.
    fn sections_in_order(&self, left: Left, nodes: u64, data: u64) -> (u64, u64) {
        let nodes = sections(self.nodes + nodes, left.nodes, self.per_sec);
        (nodes, sections(self.data + self.dents + data, left.data, self.per_sec))
    }
}

impl Volume {
    pub(super) fn demand(&self) -> Demand {
        let dents = self.mem.dirty_dents.get() + self.quota.blocks_due();
        let data = if self.opts.mode == AllocMode::Lfs { self.mem.dirty_data.get() } else { 0 };
        let dirty_nodes = self.mem.dirty_nodes.get();
        let in_order = self.dev.is_zoned().then(|| {
            let valid = u64::from(self.counts.values().valid_nodes);
            // What fsync logged, recovery writes once more.
            let more = (self.since.logged().min(valid) + UNCOUNTED, self.mem.coming.get() + UNCOUNTED);
            InOrder { left: self.segs.left(), more, clean_nodes: valid.saturating_sub(dirty_nodes) }
        });
        let per_sec = u64::from(self.geo.blocks_per_sec()).max(1);
        Demand { nodes: dirty_nodes + dents, dents, data, per_sec, in_order }
    }

    /// Sections that should stay free: for what is dirty, and the reserve.
    pub(crate) fn sections_wanted(&self) -> u64 {
        self.demand().need(0).dirty + u64::from(self.segs.reserved_sections)
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
