//! How many data sections are emptied between two checkpoints of cleaning.
use crate::need::Figures;

/// Metadata blocks of a checkpoint: pack, SIT and NAT.
const METADATA: u64 = 9;
/// Sections that do not count as spare: the open ones, and what the need keeps free.
const NOT_SPARE: u64 = 8;
/// Most sections of a batch, as a part of the spare ones.
const MOST_OF_SPARE: u64 = 8;
/// The mean of nodes is kept in so many parts; each checkpoint counts for one part in as many.
const MEAN_PARTS: u64 = 8;

/// The size of a batch. Twice as many sections save half of the checkpoints, but copies occupy free sections until then,
/// which are missing as spare space.
#[derive(Clone, Copy, Debug)]
pub struct BatchSize {
    sections: u64,
    /// Mean node blocks of a checkpoint, times `MEAN_PARTS`.
    nodes: u64,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self { sections: 1, nodes: 0 }
    }
}

impl BatchSize {
    /// Data sections of a batch.
    #[must_use]
    pub fn sections(&self) -> u64 {
        self.sections
    }

    /// Learns from a checkpoint of cleaning that wrote `nodes` node blocks.
    pub fn committed(&mut self, nodes: u64, figures: &Figures) {
        self.nodes =
            if self.nodes == 0 { nodes * MEAN_PARTS } else { self.nodes - self.nodes / MEAN_PARTS + nodes };
        let spare = (figures.unused / figures.per_section.max(1)).saturating_sub(NOT_SPARE);
        let mean = self.nodes / MEAN_PARTS;
        let saved = mean * mean / figures.nodes.max(1) + METADATA;
        let valid = figures.victim.unwrap_or(figures.per_section);
        // What a batch of this size costs, if the spare sections that it occupies are missing.
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
        (0..100).for_each(|_| size.committed(written, &figures));
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
