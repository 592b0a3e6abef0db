//! Free sections required for dirty data and nodes, for recovery, and for cleaning itself.
//!
//! Where sections are written in order, the demand is counted in blocks against the room left in the logs' sections:
//! every free section kept without need is lost as spare space, and recovery continues in the sections of the logs.
//! Elsewhere recovery opens a section for each log.
use super::Nodes;
use crate::options::AllocMode;
use crate::space::LogRoom;
use segno_clean::need::Figures;

/// Free sections for recovery where logs cannot continue in theirs: one for each log.
const MARGIN: u64 = 6;
/// Node and data blocks that operations may make dirty before they are counted.
const UNCOUNTED: u64 = 128;

/// Numbers of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Sections that writing everything dirty may take.
    pub dirty: u64,
    /// Sections always kept beyond that, for recovery and for emptying one section.
    pub kept: u64,
}

/// Dirty blocks, and the room for them.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Dirty nodes, and node blocks that directories will need.
    nodes: u64,
    dents: u64,
    /// Dirty data that does not fit into used segments.
    data: u64,
    per_sec: u64,
    in_order: Option<InOrder>,
}

/// Additional figures where sections are written in order.
#[derive(Clone, Copy, Debug)]
struct InOrder {
    left: LogRoom,
    /// Nodes and data not counted yet.
    more: (u64, u64),
    /// Clean nodes, which copying can make dirty.
    clean_nodes: u64,
}

impl Demand {
    /// The need if a section with this many valid blocks is emptied next.
    pub fn need(&self, valid_in_victim: u64) -> Need {
        let Some(InOrder { left, more: (nodes, data), clean_nodes }) = self.in_order else {
            return Need { dirty: self.sections(), kept: MARGIN };
        };
        let (nodes_now, data_now) = self.sections_in_order(left, nodes, data);
        // Copying makes up to as many nodes dirty as there are clean ones, or valid blocks.
        let copied = clean_nodes.min(valid_in_victim);
        let (nodes_then, data_then) = self.sections_in_order(left, nodes + copied, data + valid_in_victim);
        let data_then = data_then.min(data_now + 1);
        Need {
            dirty: data_now + nodes_now,
            kept: data_then - data_now + nodes_then - nodes_now + left.without_pointer,
        }
    }

    /// Sections that dirty blocks may take; with fewer free ones the volume is full.
    pub fn sections(&self) -> u64 {
        if let Some(InOrder { left, .. }) = self.in_order {
            let (nodes, data) = self.sections_in_order(left, 0, 0);
            return nodes + data;
        }
        [self.nodes, self.dents, self.data].map(|n| n.div_ceil(self.per_sec)).iter().sum()
    }

    /// Sections for nodes and data, with additional blocks of each.
    fn sections_in_order(&self, left: LogRoom, nodes: u64, data: u64) -> (u64, u64) {
        let nodes = sections(self.nodes + nodes, left.nodes, self.per_sec);
        (nodes, sections(self.data + self.dents + data, left.data, self.per_sec))
    }
}

impl Nodes {
    pub fn demand(&self) -> Demand {
        let dents = self.base.mem.dirty_dents.get() + self.quota.blocks_due();
        let data = if self.base.opts.mode == AllocMode::Lfs { self.base.mem.dirty_data.get() } else { 0 };
        let dirty_nodes = self.base.mem.dirty_nodes.get();
        let in_order = self.base.dev.is_zoned().then(|| {
            let valid = u64::from(self.space.counts.values().valid_nodes);
            // Recovery writes nodes logged by fsync once more.
            let more =
                (self.since.logged().min(valid) + UNCOUNTED, self.base.mem.in_flight.get() + UNCOUNTED);
            InOrder { left: self.space.log_room(), more, clean_nodes: valid.saturating_sub(dirty_nodes) }
        });
        let per_sec = u64::from(self.base.geo.blocks_per_sec()).max(1);
        Demand { nodes: dirty_nodes + dents, dents, data, per_sec, in_order }
    }

    /// Number of sections to keep free: for dirty blocks, and the reserve.
    pub fn sections_wanted(&self) -> u64 {
        self.demand().need(0).dirty + u64::from(self.space.reserved_sections)
    }

    /// Whether a writer must clean first: there is no room for a quantum of writeback, or where logs may fill holes, free
    /// sections no longer cover dirty blocks plus the reserve.
    pub fn short_of_sections(&self) -> bool {
        match self.base.opts.mode {
            AllocMode::Lfs => self.figures().floor() < 0,
            _ => self.space.free_sections() <= self.sections_wanted(),
        }
    }

    /// Whether an fsync may write nodes ahead of the checkpoint that writes them again.
    pub fn has_room_for_chain(&self) -> bool {
        self.base.opts.mode != AllocMode::Lfs || self.figures().floor() >= 0
    }

    /// Whether a quantum of writeback and the checkpoint behind it fit, if no crash makes recovery write anything again.
    pub fn can_place(&self) -> bool {
        let free_sections = self.space.free_sections();
        Figures { free_sections, logged: 0, ..self.figures() }.floor() >= 0
    }

    /// Figures for cleaning, without the sections that could be emptied.
    pub fn figures(&self) -> Figures {
        let left = self.space.log_room();
        let values = self.space.counts.values();
        let nodes = u64::from(values.valid_nodes);
        let dents = self.base.mem.dirty_dents.get() + self.quota.blocks_due();
        // Sections that recovery opens, as it cannot continue in those of the logs.
        let kept = left.without_pointer;
        Figures {
            per_section: u64::from(self.base.geo.blocks_per_sec()).max(1),
            free_sections: self.space.free_sections().saturating_sub(kept),
            pending_sections: 0,
            unused: self.base.geo.main_blocks().saturating_sub(values.valid_blocks),
            data_left: left.data,
            node_left: left.nodes,
            nodes,
            dirty_nodes: self.base.mem.dirty_nodes.get() + dents,
            dents,
            logged: self.since.logged().min(nodes),
            granted: self.base.mem.granted.get() + UNCOUNTED,
            victim: None,
            victim_nodes: 0,
        }
    }
}

/// Upper limit of the sections that `blocks` may open, for any distribution over logs with `left` blocks in their
/// sections. A log that fills its section opens the next one at once.
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

    /// Tries every distribution of the blocks.
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
    fn no_distribution_of_blocks_opens_more_sections() {
        for left in [[1, 1, 1], [4, 1, 3], [4, 4, 4], [2, 4, 4], [3, 3, 1]] {
            for blocks in 0..16 {
                assert_eq!(sections(blocks, left, 4), by_trying(blocks, left, 4), "{blocks} {left:?}");
            }
        }
    }
}
