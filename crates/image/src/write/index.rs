//! Which blocks a file has, and the nodes that hold their addresses.
use crate::{Error, Result};
use segno_format::inode::InodeLayout;
use segno_format::node::path;

/// Consecutive blocks of a file, and of the main area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First block in the file.
    pub(crate) at: u32,
    /// First block in the main area.
    pub(crate) rel: u32,
    pub(crate) len: u32,
    /// Whether they are the stored blocks of the compressed cluster that begins at `at`.
    pub(crate) cluster: bool,
}

/// Blocks of a file in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(pub(crate) Vec<Run>);

impl Runs {
    /// Appends blocks.
    pub(crate) fn push(&mut self, run: Run) {
        match self.0.last_mut() {
            Some(last)
                if !last.cluster
                    && !run.cluster
                    && last.at + last.len == run.at
                    && last.rel + last.len == run.rel =>
            {
                last.len += run.len;
            }
            _ => self.0.push(run),
        }
    }

    /// Blocks in the main area.
    pub(crate) fn stored(&self) -> u64 {
        self.0.iter().map(|r| u64::from(r.len)).sum()
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.0.iter().any(|r| r.cluster)
    }

    /// Blocks that compressed clusters of this size save.
    pub(crate) fn saved(&self, cluster: u32) -> u64 {
        self.0.iter().filter(|r| r.cluster).map(|r| u64::from(cluster - r.len)).sum()
    }

    /// The longest run of plain blocks.
    pub(crate) fn largest(&self) -> Option<Run> {
        self.0.iter().copied().max_by_key(|r| r.len)
    }
}

/// A step along the slots of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A new node: its depth below the inode, its index in the parent, and its offset in the tree.
    Node { depth: usize, index: u32, offset: u32, direct: bool },
    /// Slots from `first` on, in the node that came last or in the inode.
    Slots { first: u32, run: Run },
}

/// Visits the slots of all runs with the nodes that hold them, in ascending order. The slots of a cluster are
/// visited as one run, with the stored blocks; they never span two nodes.
pub(crate) fn walk(
    layout: &InodeLayout,
    runs: &Runs,
    mut each: impl FnMut(Step) -> Result<()>,
) -> Result<()> {
    let mut open = [0u32; 4];
    for run in &runs.0 {
        let mut rest = *run;
        while rest.len > 0 {
            let found = path(layout.slots, layout.per_node, rest.at.into()).ok_or(Error::TooLarge)?;
            let slot = found.index.get(found.depth).copied().unwrap_or_default();
            let room = if found.depth == 0 { layout.slots } else { layout.per_node }.saturating_sub(slot);
            let mut same = true;
            for depth in 1..=found.depth {
                let (offset, index) = (at(&found.offset, depth), at(&found.index, depth - 1));
                same = same && at(&open, depth) == offset;
                if !same {
                    each(Step::Node { depth, index, offset, direct: depth == found.depth })?;
                }
            }
            open = found.offset;
            let len = if rest.cluster { rest.len } else { rest.len.min(room) };
            each(Step::Slots { first: slot, run: Run { len, ..rest } })?;
            rest = Run { at: rest.at + len, rel: rest.rel + len, len: rest.len - len, ..rest };
        }
    }
    Ok(())
}

fn at(numbers: &[u32; 4], i: usize) -> u32 {
    numbers.get(i).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> InodeLayout {
        InodeLayout { extra_words: 9, xattr_words: 50, slots: 864, per_node: 1018 }
    }

    fn steps(runs: Vec<Run>) -> Vec<Step> {
        let mut all = Vec::new();
        walk(&layout(), &Runs(runs), |s| {
            all.push(s);
            Ok(())
        })
        .unwrap();
        all
    }

    fn plain(at: u32, rel: u32, len: u32) -> Run {
        Run { at, rel, len, cluster: false }
    }

    #[test]
    fn runs_are_joined() {
        let mut runs = Runs::default();
        for run in [plain(0, 10, 2), plain(2, 12, 3), plain(6, 15, 1), plain(7, 20, 1)] {
            runs.push(run);
        }
        assert_eq!(runs.0, [plain(0, 10, 5), plain(6, 15, 1), plain(7, 20, 1)]);
        assert_eq!((runs.stored(), runs.largest().unwrap().len), (7, 5));
    }

    #[test]
    fn nodes_come_before_their_slots() {
        assert_eq!(steps(vec![plain(0, 0, 864)]), [Step::Slots { first: 0, run: plain(0, 0, 864) }]);
        let node = |depth, index, offset, direct| Step::Node { depth, index, offset, direct };
        assert_eq!(
            steps(vec![plain(863, 7, 1020)]),
            [
                Step::Slots { first: 863, run: plain(863, 7, 1) },
                node(1, 0, 1, true),
                Step::Slots { first: 0, run: plain(864, 8, 1018) },
                node(1, 1, 2, true),
                Step::Slots { first: 0, run: plain(1882, 1026, 1) },
            ]
        );
        // The first block below the first indirect node, and a block in a later direct node below it.
        assert_eq!(
            steps(vec![plain(2900, 0, 1), plain(2900 + 1018 * 2, 1, 1)]),
            [
                node(1, 2, 3, false),
                node(2, 0, 4, true),
                Step::Slots { first: 0, run: plain(2900, 0, 1) },
                node(2, 2, 6, true),
                Step::Slots { first: 0, run: plain(4936, 1, 1) },
            ]
        );
    }
}
