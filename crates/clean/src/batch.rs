//! How many data sections are emptied between two checkpoints of cleaning.
use crate::need::Figures;

/// Unused sections that are not spare: open sections, and sections that the need keeps free.
const NOT_SPARE: u64 = 8;
/// Maximum size of a batch, as a fraction (1/8) of the spare sections.
const MOST_OF_SPARE: u64 = 8;
/// Weight of a checkpoint in the running means: one part in `MEAN_PARTS`.
const MEAN_PARTS: u64 = 8;

/// The size of a batch. Twice as many sections save half of the checkpoints, but copies occupy free sections
/// until then, which are missing as spare space.
#[derive(Clone, Copy, Debug)]
pub struct BatchSize {
    sections: u64,
    /// Means of checkpoints, times `MEAN_PARTS`.
    mean: Option<Committed>,
    moves: u64,
}

/// Blocks that a checkpoint wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Nodes.
    pub nodes: u64,
    /// All others: directory blocks, NAT, SIT, summaries, the pack.
    pub metadata: u64,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self { sections: 1, mean: None, moves: 0 }
    }
}

impl BatchSize {
    /// Data sections of a batch.
    #[must_use]
    pub fn sections(&self) -> u64 {
        self.sections
    }

    /// Nodes that `moves` moves are expected to make dirty: the nodes per move of the last checkpoints.
    #[must_use]
    pub fn nodes_of(&self, moves: u64) -> u64 {
        self.mean.map_or(moves, |mean| moves * mean.nodes / self.moves.max(1))
    }

    /// Updates the means and the size of a batch with a checkpoint that followed `moves` moves.
    pub fn committed(&mut self, moves: u64, written: Committed, figures: &Figures) {
        let update = |mean: u64, new: u64| mean - mean / MEAN_PARTS + new;
        let mean = self.mean.map_or(
            Committed { nodes: written.nodes * MEAN_PARTS, metadata: written.metadata * MEAN_PARTS },
            |m| Committed {
                nodes: update(m.nodes, written.nodes),
                metadata: update(m.metadata, written.metadata),
            },
        );
        self.moves = if self.mean.is_none() { moves * MEAN_PARTS } else { update(self.moves, moves) };
        self.mean = Some(mean);
        let (nodes, metadata) = (mean.nodes / MEAN_PARTS, mean.metadata / MEAN_PARTS);
        let spare = (figures.unused / figures.per_section.max(1)).saturating_sub(NOT_SPARE);
        // Nodes that two checkpoints both write are written once by one.
        let saved = nodes * nodes / figures.nodes.max(1) + metadata;
        let valid = figures.victim.unwrap_or(figures.per_section);
        // Cost of a batch of this size: the spare sections that it occupies are missing until the checkpoint.
        let cost = valid * self.sections * self.sections / spare.max(1);
        if saved > 2 * cost {
            self.sections *= 2;
        } else if saved < cost / 4 {
            self.sections /= 2;
        }
        self.sections = self.sections.clamp(1, (spare / MOST_OF_SPARE).max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(per_section: u64, unused_sections: u64, victim: u64, nodes: u64, written: u64) -> u64 {
        let unused = unused_sections * per_section;
        let figures = Figures { per_section, unused, victim: Some(victim), nodes, ..Figures::default() };
        let mut size = BatchSize::default();
        let written = Committed { nodes: written, metadata: 9 };
        (0..100).for_each(|_| size.committed(1000, written, &figures));
        size.sections()
    }

    #[test]
    fn expensive_checkpoints_make_large_batches() {
        assert_eq!(settled(2048, 20, 1000, 88, 88), 1, "few nodes, few spare sections");
        assert_eq!(settled(512, 165, 474, 1962, 60), 2, "a checkpoint writes few nodes");
        let large = settled(512, 165, 474, 1962, 450);
        assert!((4..=8).contains(&large), "{large}: a checkpoint writes a quarter of all nodes");
    }

    #[test]
    fn a_batch_is_at_most_an_eighth_of_the_spare_sections() {
        assert_eq!(settled(512, 40, 10, 100_000, 90_000), 4);
        assert_eq!(settled(512, 6, 10, 100_000, 90_000), 1);
    }
}
