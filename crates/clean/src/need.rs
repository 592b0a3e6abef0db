//! Space that writeback, checkpoints and recovery need, in blocks, and the room beyond it.
//!
//! A checkpoint of all dirty nodes and directory blocks must always fit, after the data that writeback may
//! still place, and after a crash in which recovery writes logged nodes again. Dirty overwrites need no
//! additional space: each leaves a hole of the size that it takes, so one quantum of them at a time is
//! enough.
use crate::{Class, Index};

/// Logs of data, and of nodes.
const LOGS_OF_CLASS: i64 = 3;
/// Minimum number of unused sections on a guarded volume.
const LEAST_UNUSED: u64 = 12;

/// Data blocks that operations may place before they are counted as dirty or granted.
pub const UNCOUNTED: u64 = 128;

/// Figures of a volume, in blocks unless the name contains "sections".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Blocks in a section.
    pub per_section: u64,
    /// Sections that logs may open.
    pub free_sections: u64,
    /// Free sections that recovery opens, because it cannot continue in the open sections of the logs.
    pub kept: u64,
    /// Sections that the next checkpoint frees.
    pub pending_sections: u64,
    /// Blocks in which nothing is valid, wherever they are.
    pub unused: u64,
    /// Room left in the open sections of the data logs.
    pub data_left: [u64; 3],
    /// Room left in the open sections of the node logs.
    pub node_left: [u64; 3],
    /// Valid node blocks.
    pub nodes: u64,
    /// Dirty nodes, and nodes that dirty directory blocks will make dirty.
    pub dirty_nodes: u64,
    /// Dirty directory blocks.
    pub dents: u64,
    /// Nodes that recovery would write again.
    pub logged: u64,
    /// Dirty nodes that a checkpoint in progress has yet to write. Each may become dirty once more meanwhile.
    pub in_checkpoint: u64,
    /// Data blocks granted to writeback and not placed yet.
    pub granted: u64,
    /// Nodes that data already granted will make dirty.
    pub granted_nodes: u64,
    /// Valid blocks of the emptiest data section, if there is one.
    pub victim: Option<u64>,
}

/// Blocks to be placed with no cleaning between them. A request below a quantum counts as a quantum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Blocks to be placed.
    pub blocks: u64,
    /// Maximum of the nodes that they make dirty.
    pub nodes: u64,
}

impl Request {
    /// A batch of writeback: each page may have its own node.
    #[must_use]
    pub fn batch(pages: usize) -> Self {
        Self { blocks: pages as u64, nodes: pages as u64 }
    }
}

/// The rest of a batch of cleaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Copies still to be made.
    pub left: u64,
    /// Upper bound of the nodes that the copies make dirty.
    pub dirtied: u64,
    /// Sections that its checkpoint frees.
    pub sections: u64,
}

impl Figures {
    /// Adds the section that would be emptied next.
    #[must_use]
    pub fn with_victims(mut self, index: &Index) -> Self {
        self.victim = index.emptiest(Class::Data).map(|(_, valid)| valid.into());
        self
    }

    /// The figures once the part of a request beyond a quantum is granted.
    #[must_use]
    pub fn promising(self, request: Request) -> Self {
        let beyond = |n: u64| n.saturating_sub(self.quantum());
        Self {
            granted: self.granted + beyond(request.blocks),
            granted_nodes: self.granted_nodes + beyond(request.nodes),
            ..self
        }
    }

    /// Blocks that writeback places at a time when space is short.
    #[must_use]
    pub fn quantum(&self) -> u64 {
        quantum(self.per_section)
    }

    /// Data blocks that can still be placed, beyond one quantum, before a checkpoint may no longer fit. If
    /// negative, the invariant "a quantum and the checkpoint after it fit" does not hold.
    #[must_use]
    pub fn floor(&self) -> i64 {
        self.room_after(0, self.node_need(self.of_quantum()), 0)
    }

    /// Data blocks that can still be placed, beyond one quantum, before the emptiest section or the one after
    /// it can no longer be emptied. On volumes too small for that, this is the floor.
    #[must_use]
    pub fn goal(&self) -> i64 {
        if self.quantum() + self.batch(1) > self.unused {
            return self.floor();
        }
        let dirtied = self.per_section.min(self.clean_nodes());
        self.room_after(self.victim.unwrap_or(0), self.node_need(dirtied + self.of_quantum()), 0)
            - to_signed(self.late_holes())
    }

    /// Data blocks that can still be placed, beyond one quantum, before the batch under way or the next one
    /// no longer fits. If negative, cleaning has to catch up first.
    #[must_use]
    pub fn room(&self, batch: Work) -> i64 {
        if batch.sections == 0 && batch.left == 0 {
            return self.goal();
        }
        let completes = self.floor_after(batch.left, batch.dirtied);
        completes.min(self.beyond(batch, 1) + to_signed(self.slack()))
    }

    /// Blocks that can be placed before a batch must be finished so that the `next` sections can be emptied
    /// at once. The sections that the batch frees count as room for them.
    #[must_use]
    pub fn beyond(&self, batch: Work, next: u64) -> i64 {
        let freed = batch.sections * self.per_section;
        self.floor_after(batch.left, batch.dirtied) - to_signed(self.batch(next).saturating_sub(freed))
    }

    /// Blocks by which the room for the next batch may be missing while one is under way, so that the
    /// emptiest section still fits: copies of fewer blocks than a section make fewer nodes dirty than the
    /// goal counts.
    #[must_use]
    pub fn slack(&self) -> u64 {
        let dirtied = self.nodes.min(self.victim.unwrap_or(0));
        self.nodes.min(self.quantum() + self.per_section).saturating_sub(dirtied).min(self.per_section / 2)
    }

    /// The floor after a batch under way has copied `copies` more blocks and made `dirtied` nodes dirty.
    #[must_use]
    pub fn floor_after(&self, copies: u64, dirtied: u64) -> i64 {
        self.room_after(copies, self.nodes_after(copies, dirtied), 0)
    }

    /// Blocks that a batch of `sections` sections takes until its checkpoint: its copies, a section of nodes
    /// that they make dirty, and a section of nodes whose holes come late, as they are in the open section.
    #[must_use]
    pub fn batch(&self, sections: u64) -> u64 {
        sections * self.victim.unwrap_or(0) + self.nodes.min(self.per_section) + self.late_holes()
    }

    /// Whether the checkpoint still fits after `copies` copies, in any distribution over the logs, and
    /// `nodes` nodes made dirty. Data logs share the room that they have left. Sections kept for recovery may
    /// be used: a crash discards the copies with the sections that they opened, and below the floor no fsync
    /// writes ahead of the checkpoint.
    #[must_use]
    pub fn fits(&self, copies: u64, nodes: u64) -> bool {
        let for_data = (copies + self.granted + self.dents)
            .saturating_sub(self.shared_room())
            .div_ceil(self.per_section.max(1));
        let for_nodes = sections(self.node_need(nodes), self.node_left, self.per_section);
        for_nodes + for_data <= self.free_sections
    }

    /// Room of the data logs that any of them may use.
    fn shared_room(&self) -> u64 {
        self.data_left.iter().map(|left| left.saturating_sub(1)).sum()
    }

    /// Sections that a data log leaves to the nodes, as long as another data log has room.
    #[must_use]
    pub fn for_nodes(&self, dirtied: u64) -> u64 {
        let granted = self.granted.saturating_sub(self.granted_nodes);
        let nodes = self.node_need(self.quantum() + granted + dirtied) + self.late_holes();
        self.kept + sections(nodes, self.node_left, self.per_section)
    }

    /// Whether an fsync may write `nodes` nodes ahead of the checkpoint.
    #[must_use]
    pub fn has_room_for_chain(&self, nodes: u64) -> bool {
        self.room_after(0, self.node_need(self.of_quantum()), nodes) >= to_signed(nodes)
    }

    /// Whether a batch may still wait that has `copies` copies to make and makes `dirtied` nodes dirty: a
    /// quantum and `more` blocks leave room for them.
    #[must_use]
    pub fn may_wait(&self, copies: u64, dirtied: u64, more: u64) -> bool {
        self.room_after(copies, self.nodes_after(copies, dirtied), more) >= to_signed(more)
    }

    /// The room at which a batch begins: a section for unforeseen needs, and another one on volumes that are
    /// too small to be guarded.
    #[must_use]
    pub fn begins_at(&self) -> i64 {
        to_signed(self.per_section * (1 + u64::from(self.is_too_small())))
    }

    /// Whether less is unused than on any guarded volume ([`crate::guard`]).
    fn is_too_small(&self) -> bool {
        self.unused < LEAST_UNUSED * self.per_section
    }

    fn clean_nodes(&self) -> u64 {
        self.nodes.saturating_sub(self.dirty_since())
    }
    /// Dirty nodes that a checkpoint in progress does not write.
    fn dirty_since(&self) -> u64 {
        self.dirty_nodes.saturating_sub(self.in_checkpoint)
    }
    /// Holes in the open section of nodes, which cleaning cannot reach.
    fn late_holes(&self) -> u64 {
        self.nodes.min(self.per_section)
    }

    /// Nodes that a quantum makes dirty.
    fn of_quantum(&self) -> u64 {
        self.quantum().min(self.clean_nodes())
    }

    fn nodes_after(&self, copies: u64, dirtied: u64) -> u64 {
        self.node_need(dirtied.min(copies).min(self.clean_nodes()) + self.of_quantum())
    }

    /// Blocks left after a quantum, `copies` copies and `nodes` nodes. Up to `more` of them may be used for
    /// nodes.
    fn room_after(&self, copies: u64, nodes: u64, more: u64) -> i64 {
        self.data_room(nodes, more) - to_signed(self.quantum() + copies + self.granted + self.dents)
    }

    /// Node blocks still to be written once `more` nodes have become dirty: by a checkpoint in progress, and
    /// by the next checkpoint, or by recovery and its checkpoint.
    fn node_need(&self, more: u64) -> u64 {
        let since = self.dirty_since();
        let next = (since + more + self.granted_nodes).min(self.nodes.max(since));
        self.logged + self.dirty_nodes.min(self.in_checkpoint) + next
    }

    /// Data blocks that can be placed in addition to `nodes` nodes, in any order and any distribution over
    /// the logs; data logs share sections. Each block placed takes one. If the room cannot hold `more` nodes
    /// and the nodes of a batch that makes room again, open data sections do not count.
    fn data_room(&self, nodes: u64, more: u64) -> i64 {
        let per_section = to_signed(self.per_section);
        let left: u64 = self.node_left.iter().sum();
        let sections = to_signed(self.free_sections) - to_signed(self.kept) - (LOGS_OF_CLASS - 1);
        let beside_nodes = sections * per_section + to_signed(left) - to_signed(nodes) - 1;
        let shared = to_signed(self.shared_room()) + 1 - per_section;
        // Nodes cannot use the room in open sections of data.
        let for_more = beside_nodes - to_signed(self.late_holes());
        if for_more < to_signed(more) { for_more + shared.min(0) } else { beside_nodes + shared }
    }
}

/// Blocks that writeback places at a time when space is short.
#[must_use]
pub fn quantum(per_section: u64) -> u64 {
    (per_section / 4).clamp(1, 512)
}

pub(crate) fn to_signed(blocks: u64) -> i64 {
    i64::try_from(blocks).unwrap_or(i64::MAX)
}

/// Upper limit of the sections that `blocks` may open, for any distribution over logs with `left` blocks in
/// their sections. A log that fills its section opens the next one at once.
#[must_use]
pub fn sections(blocks: u64, mut left: [u64; 3], per_section: u64) -> u64 {
    left.sort_unstable();
    let (mut used, mut most) = (0, 0);
    for (logs, left) in (1..).zip(left) {
        used += left;
        if let Some(more) = blocks.checked_sub(used) {
            most = most.max(logs + more / per_section.max(1));
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifetime::DataLog;
    use proptest::prelude::*;

    /// Sections opened by the worst distribution of `blocks`, by trying all.
    fn by_trying(blocks: u64, left: [u64; 3], per_section: u64) -> u64 {
        let of = |n: u64, left: u64| n.checked_sub(left).map_or(0, |more| 1 + more / per_section);
        let [a, b, c] = left;
        (0..=blocks)
            .flat_map(|x| (0..=blocks - x).map(move |y| (x, y)))
            .map(|(x, y)| of(x, a) + of(y, b) + of(blocks - x - y, c))
            .max()
            .unwrap_or(0)
    }

    /// Logs with blocks still to be written.
    #[derive(Debug)]
    struct Logs {
        f: Figures,
        data: u64,
        nodes: u64,
    }

    impl Logs {
        /// Writes a block if any of the kind is left; false if there is no section for it.
        fn write(&mut self, is_node: bool, log: usize) -> bool {
            let (of_kind, left, log) = if is_node {
                (&mut self.nodes, &mut self.f.node_left, log)
            } else {
                let opens = self.f.data_left[log] == 1;
                let short = self.f.free_sections <= self.f.for_nodes(0);
                let room = self.f.data_left.map(|left| left - 1);
                let shared = DataLog::ALL[log].shared(room).filter(|_| opens && short);
                let log =
                    shared.map_or(log, |shared| DataLog::ALL.iter().position(|&l| l == shared).unwrap());
                (&mut self.data, &mut self.f.data_left, log)
            };
            if *of_kind == 0 {
                return true;
            }
            *of_kind -= 1;
            left[log] -= 1;
            if left[log] == 0 {
                let Some(free) = self.f.free_sections.checked_sub(1) else { return false };
                (self.f.free_sections, left[log]) = (free, self.f.per_section);
            }
            self.f.dirty_nodes = self.nodes.min(self.f.nodes);
            true
        }
    }

    /// Figures of a volume with a section that can be emptied.
    fn figures() -> impl Strategy<Value = Figures> {
        let left = || proptest::array::uniform3(1u64..=8);
        (left(), left(), 0u64..20, 0u64..40, 0u64..40, 0u64..8).prop_map(
            |(data_left, node_left, free_sections, nodes, dirty_nodes, valid)| Figures {
                per_section: 8,
                free_sections,
                unused: 1000,
                data_left,
                node_left,
                nodes,
                dirty_nodes: dirty_nodes.min(nodes),
                victim: Some(valid),
                ..Figures::default()
            },
        )
    }

    proptest! {
        #[test]
        fn no_distribution_of_blocks_opens_more_sections(
            left in proptest::array::uniform3(1u64..=4), blocks in 0u64..16,
        ) {
            prop_assert_eq!(sections(blocks, left, 4), by_trying(blocks, left, 4));
        }

        /// Blocks within the floor fit in any order and any distribution over the logs.
        #[test]
        fn what_the_floor_promises_can_be_placed(
            data_left in proptest::array::uniform3(1u64..=8),
            node_left in proptest::array::uniform3(1u64..=8),
            free_sections in 0u64..8,
            nodes in 0u64..20,
            dirty_nodes in 0u64..20,
            choices in proptest::collection::vec((any::<bool>(), 0usize..3), 100),
        ) {
            let dirty_nodes = dirty_nodes.min(nodes);
            let f = Figures { per_section: 8, free_sections, data_left, node_left, nodes, dirty_nodes, ..Figures::default() };
            if let Ok(room) = u64::try_from(f.floor()) {
                let clean = f.of_quantum();
                let mut logs = Logs { f, data: room + f.quantum(), nodes: dirty_nodes + clean };
                for &(is_node, log) in choices.iter().cycle() {
                    if logs.data + logs.nodes == 0 {
                        break;
                    }
                    prop_assert!(logs.write(is_node, log), "no section: {logs:?} from {f:?}");
                }
            }
        }

        /// The argument of docs/design/cleaning.md: with the goal, a quantum and the emptiest section fit,
        /// and then a section of nodes, or the next section if the first was empty already.
        #[test]
        fn the_goal_is_room_for_the_section_to_be_emptied_and_the_next(f in figures(), logged in 0u64..10) {
            let f = Figures { logged, ..f };
            let valid = f.victim.unwrap_or(0);
            if f.goal() >= 0 {
                prop_assert!(f.fits(f.quantum() + valid, f.quantum() + valid));
                let freed = Figures { free_sections: f.free_sections + 1, ..f };
                prop_assert!(valid > 0 || freed.fits(f.quantum() + 7, f.quantum() + 7));
                prop_assert!(f.fits(f.quantum(), f.quantum() + 7));
            }
        }

        /// With the room for it, a batch of writeback leaves room for the batch of cleaning under way, and
        /// after that for the emptiest section.
        #[test]
        fn the_room_is_that_of_the_batch_under_way_and_of_the_next(
            f in figures(),
            in_checkpoint in 0u64..10,
            granted in 0u64..10,
            left in 0u64..8,
            dirtied in 0u64..8,
        ) {
            let in_checkpoint = in_checkpoint.min(f.dirty_nodes);
            let f = Figures { in_checkpoint, granted, granted_nodes: granted, ..f };
            let valid = f.victim.unwrap_or(0);
            let dirtied = dirtied.min(left);
            let batch = Work { left, dirtied, sections: 1 };
            if f.room(batch) >= 0 {
                prop_assert!(f.fits(f.quantum() + left, f.quantum() + dirtied));
            }
            if f.room(Work::default()) >= 0 {
                prop_assert!(f.fits(f.quantum() + valid, f.quantum() + valid));
            }
        }
    }

    /// Figures of a mount whose writeback was granted down to the floor.
    #[test]
    fn where_the_floor_alone_holds_no_section_can_be_emptied() {
        let f = Figures {
            per_section: 1024,
            free_sections: 1,
            unused: 20_624,
            data_left: [1, 567, 109],
            node_left: [1022, 49, 1023],
            nodes: 111,
            dirty_nodes: 1,
            granted: UNCOUNTED,
            victim: Some(628),
            ..Figures::default()
        };
        assert_eq!((f.floor(), f.goal(), f.fits(628, 111)), (225, -514, false));
        assert_eq!(f.room(Work::default()), -514);
    }

    #[test]
    fn a_request_needs_room_for_its_blocks_beyond_a_quantum() {
        let f = Figures {
            per_section: 512,
            free_sections: 12,
            data_left: [512; 3],
            node_left: [512; 3],
            nodes: 100,
            unused: 20_000,
            victim: Some(300),
            ..Figures::default()
        };
        let room = |blocks| f.promising(Request { blocks, nodes: 0 }).room(Work::default());
        assert_eq!((room(0), room(f.quantum())), (f.goal(), f.goal()));
        assert_eq!(room(f.quantum() + 1000), f.goal() - 1000);
        // 100 nodes are all there are, and they are counted once.
        assert_eq!(f.promising(Request { blocks: 0, nodes: 5000 }).goal(), f.goal());
    }

    /// A node of a checkpoint in progress that an operation changed is written twice.
    #[test]
    fn a_checkpoint_in_progress_and_the_next_one_both_count() {
        let f = Figures { per_section: 64, nodes: 10, dirty_nodes: 10, ..Figures::default() };
        assert_eq!((f.node_need(0), f.node_need(100)), (10, 10));
        let f = Figures { in_checkpoint: 10, ..f };
        assert_eq!((f.node_need(0), f.node_need(3), f.node_need(100)), (10, 13, 20));
        let f = Figures { dirty_nodes: 17, granted_nodes: 2, ..f };
        assert_eq!((f.node_need(0), f.node_need(100)), (19, 20));
    }

    #[test]
    fn a_block_placed_takes_one_block_of_room() {
        let mut f = Figures {
            per_section: 512,
            free_sections: 9,
            data_left: [512, 3, 200],
            node_left: [512; 3],
            nodes: 100,
            unused: 20_000,
            victim: Some(300),
            ..Figures::default()
        };
        let mut before = f.goal();
        for _ in 0..600 {
            f.data_left[1] -= 1;
            if f.data_left[1] == 0 {
                (f.data_left[1], f.free_sections) = (512, f.free_sections - 1);
            }
            assert_eq!(f.goal(), before - 1);
            before = f.goal();
        }
    }

    #[test]
    fn data_logs_share_what_they_have_left_and_node_logs_do_not() {
        let f =
            Figures { per_section: 512, data_left: [1, 2, 3], node_left: [1, 2, 3], ..Figures::default() };
        assert!(f.fits(3, 0) && !f.fits(4, 0));
        assert!(Figures { free_sections: 1, ..f }.fits(3 + 512, 0));
        let dirty = Figures { nodes: 2, dirty_nodes: 2, ..f };
        assert!(!dirty.fits(0, 0) && Figures { node_left: [3; 3], ..dirty }.fits(0, 0));
    }

    #[test]
    fn the_goal_is_the_floor_where_the_volume_is_too_small_for_it() {
        let f = Figures { per_section: 512, free_sections: 9, nodes: 10, unused: 9000, ..Figures::default() };
        assert_eq!(f.goal(), f.floor() - 10, "the holes of ten nodes may come late");
        let even = Figures { victim: Some(510), unused: 600, ..f };
        assert_eq!(even.goal(), even.floor());
        assert_eq!(Figures { victim: Some(510), ..f }.goal(), f.goal() - 510);
    }
}
