//! Room in blocks ([`segno_clean::need`]), where cleaning is paced.
use super::Room;
use segno_clean::guard::Extent;
use segno_clean::need::{Figures, UNCOUNTED};

impl Room {
    /// Whether the volume can spare so many sections for recovery and still guarantees cleaning for what it holds. Kept on a
    /// fuller volume, they would make cleaning empty sections without a hole.
    pub(super) fn spares(&self, sections: u64) -> bool {
        let values = self.space.counts.values();
        let held = Extent {
            sections: self.base.geo.section_count.into(),
            blocks_per_section: self.per_section(),
            user_blocks: values.valid_blocks + sections * self.per_section(),
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
        let dents = mem.dirty_dents.get() + self.nodes.quota.blocks_due();
        let dirty_nodes = mem.dirty_nodes.get() + dents;
        let in_checkpoint = mem.in_checkpoint.get();
        let values = self.space.counts.values();
        let nodes = u64::from(values.valid_nodes);
        let logged = self.nodes.since.logged().min(nodes);
        let left = self.space.log_room();
        let kept = if logged > 0 || self.spares(left.without_pointer) { left.without_pointer } else { 0 };
        Figures {
            per_section: self.per_section(),
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
