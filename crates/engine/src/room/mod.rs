//! Room: whether blocks can be placed while cleaning, the next checkpoint and recovery keep the space that
//! they need.
//!
//! One [`Rule`] holds for a mount. Blocks and nodes that exist are counted exactly ([`Counts`](crate::space::Counts)), and that count alone
//! refuses a caller's reservation. Free sections, room of the logs, dirty and logged blocks are read without a common lock. They are hints: they
//! decide when to clean, and the log that finds no segment fails with `NoSpace`.
mod grant;
mod rounds;
mod under_way;

pub use grant::Grant;
pub use rounds::Sections;

use crate::base::Base;
use crate::lock::{Mutex, rank};
use crate::nodes::Nodes;
use crate::options::AllocMode;
use crate::space::{LogRoom, Space};
use segno_clean::guard::Extent;
use segno_clean::need::{Figures, UNCOUNTED, Work, quantum};
use std::sync::Arc;
use under_way::UnderWay;

/// How room is counted, and when sections are cleaned for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// In blocks; cleaning moves some with every batch that is written. Where sections are written in order, and with `mode=lfs`.
    Paced,
    /// In sections, cleaned in rounds once few are free; logs fill holes meanwhile. With parallel writeback on conventional
    /// volumes with `mode=lfs` the free sections ran out.
    Rounds,
}

/// Room of a volume: the room promised, and the rule for promising more.
pub struct Room {
    base: Arc<Base>,
    space: Arc<Space>,
    nodes: Arc<Nodes>,
    pub rule: Rule,
    /// Work left in the current batch of cleaning. The lock is held while a promise is made.
    batch: Mutex<Work, { rank::LOG }>,
    /// Grants of room to batches, fsyncs and copies, where cleaning is paced.
    pub under_way: UnderWay,
}

impl Room {
    pub fn new(nodes: Arc<Nodes>) -> Self {
        let (base, space) = (nodes.base.clone(), nodes.space.clone());
        let in_order = base.dev.is_zoned() || base.opts.mode == AllocMode::Lfs;
        Self {
            base,
            space,
            nodes,
            rule: if in_order { Rule::Paced } else { Rule::Rounds },
            batch: Mutex::default(),
            under_way: UnderWay::default(),
        }
    }

    /// Limit of pages in a batch of writeback. Where cleaning is paced, no more than it keeps room for.
    pub fn batch_pages(&self, most: usize) -> usize {
        match self.rule {
            Rule::Paced => most.min(quantum(self.per_section()) as usize),
            Rule::Rounds => most,
        }
    }

    /// Whether a writer must clean first: there is no room for a quantum of writeback in addition to the
    /// current batch, or free sections no longer cover dirty blocks plus the reserve. Where cleaning is
    /// paced, also sets the number of sections that data logs leave to nodes.
    pub fn assess(&self) -> bool {
        match self.rule {
            Rule::Paced => {
                let batch = self.batch.lock();
                self.look(&batch).floor_after(batch.left, batch.dirtied) < 0
            }
            Rule::Rounds => self.space.free_sections() <= self.sections_wanted(),
        }
    }

    /// Whether the logs may soon need every free section.
    pub fn is_spent(&self) -> bool {
        match self.rule {
            Rule::Paced => self.figures().floor() < 0,
            Rule::Rounds => self.space.free_sections() <= self.sections_kept(),
        }
    }

    /// Whether a change continues although cleaning found no room. Deleting must; writes are refused when
    /// nothing more can be placed.
    pub fn admits_without_room(&self, writes: bool) -> bool {
        self.rule == Rule::Paced && (!writes || self.can_place())
    }

    /// Blocks that a log can write to a section that it opens.
    fn per_section(&self) -> u64 {
        let stamp = u32::from(self.base.dev.stamp().is_some());
        u64::from(self.base.geo.blocks_per_sec().saturating_sub(stamp)).max(1)
    }

    /// Whether the volume can keep `sections` sections for recovery and still guarantees cleaning for its
    /// data and nodes. Kept on a fuller volume, they would make cleaning empty sections without a hole.
    fn spares(&self, sections: u64) -> bool {
        let values = self.space.counts.values();
        let held = Extent {
            sections: self.base.geo.section_count.into(),
            blocks_per_section: self.per_section(),
            user_blocks: values.valid_blocks + sections * self.per_section(),
        };
        sections == 0 || held.guarded().covers(values.valid_nodes.into())
    }

    /// Whether a quantum of writeback and the checkpoint after it fit, if no crash makes recovery write
    /// anything again.
    pub fn can_place(&self) -> bool {
        Figures { kept: 0, logged: 0, ..self.figures() }.floor() >= 0
    }

    /// Room in the logs after the next checkpoint: with a journal each log gives up the block at its
    /// position.
    fn room_of_logs(&self) -> LogRoom {
        let canary = u64::from(self.base.tx.epochs.open() > 0);
        let less = |room: [u64; 3]| room.map(|blocks| blocks.saturating_sub(canary));
        let room = self.space.log_room();
        LogRoom { data: less(room.data), nodes: less(room.nodes), ..room }
    }

    /// Figures for cleaning, without the sections that could be emptied. Blocks move from the counts of
    /// needed blocks to the counts of used ones, so the former are read first. The room in logs is read
    /// before the free sections: a log that opens a section takes it from these before its own room grows.
    pub fn figures(&self) -> Figures {
        let mem = &self.base.mem;
        let granted_nodes = mem.granted_nodes.get();
        let granted = mem.granted.get() + UNCOUNTED;
        let dents = mem.dirty_dents.get() + self.nodes.quota.blocks_due();
        let dirty_nodes = mem.dirty_nodes.get() + dents;
        let in_checkpoint = mem.in_checkpoint.get();
        let values = self.space.counts.values();
        let nodes = u64::from(values.valid_nodes);
        let logged = self.nodes.since.logged().min(nodes);
        let room = self.room_of_logs();
        let kept = if logged > 0 || self.spares(room.without_pointer) { room.without_pointer } else { 0 };
        Figures {
            per_section: self.per_section(),
            free_sections: self.space.free_sections(),
            kept,
            pending_sections: 0,
            unused: self.base.geo.main_blocks().saturating_sub(values.valid_blocks),
            data_left: room.data,
            node_left: room.nodes,
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
