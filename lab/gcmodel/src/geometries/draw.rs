//! Guarded volumes and writes, drawn from a seed.
use super::planted_bug::PlantedBug;
use crate::experiment::{Experiment, Shape, Workload};
use crate::volume::sizes;
use segno_clean::BLOCKS_PER_SEG;
use segno_clean::guard::Extent;
use segno_clean::need;
use segno_testkit::Rng;

/// Most positions of a file that one node maps.
const PER_NODE: u64 = 1018;

/// Most sections, but for one of `LARGE_EVERY` seeds, so that many seeds take minutes.
const SMALL: u64 = 32;
const LARGE: u64 = 512;
const LARGE_EVERY: u64 = 50;

/// The order of the writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    #[default]
    Uniform,
    /// A block of every section in turn, so that all sections get equally empty.
    EverySection,
    /// The whole file again and again, the block written last first.
    NewestFirst,
    /// Uniform, with an fsync after each write.
    Synced,
    /// Small files are deleted and replaced by others.
    Refill,
    Sequential,
}

impl Pattern {
    const ALL: [Self; 6] =
        [Self::Uniform, Self::EverySection, Self::NewestFirst, Self::Synced, Self::Refill, Self::Sequential];
}

/// A volume that is guarded for its number of nodes, and how it is written.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub seed: u64,
    pub experiment: Experiment,
    pub policy: &'static str,
    pub lifetime: bool,
    pub pattern: Pattern,
    /// Blocks placed between two checks of the room.
    pub quantum: u64,
    pub bug: Option<PlantedBug>,
}

impl Case {
    /// `None` if the sections drawn cannot be guarded.
    #[must_use]
    pub fn draw(seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed);
        let pattern = rng.pick(&Pattern::ALL);
        let blocks_per_zone = rng.between(1, 4) as u32 * BLOCKS_PER_SEG;
        let shape = match pattern {
            Pattern::Refill => Shape::Small { blocks: rng.pick(&[4, 16, 64, 256]) },
            _ => Shape::File { stride: between_by_ratio(&mut rng, 1, PER_NODE) },
        };
        let most = if seed.is_multiple_of(LARGE_EVERY) { LARGE } else { SMALL };
        let zones = between_by_ratio(&mut rng, 16, most) as u32;
        // Half of the volumes have only the sections that the guard requires.
        let share = if rng.one_in(2) { 0 } else { rng.between(5, 40) };
        let experiment = guarded(zones, blocks_per_zone, shape, (u64::from(zones) * share / 100) as u32)?;
        let most_dirty = (experiment.extent().0 / 20).max(1);
        let most = need::quantum(blocks_per_zone.into());
        Some(Self {
            seed,
            experiment: Experiment {
                dirty_pages: Some(if rng.one_in(4) {
                    most_dirty
                } else {
                    between_by_ratio(&mut rng, 1, most_dirty)
                }),
                ..experiment
            },
            policy: if rng.one_in(2) { "predictive" } else { "benefit" },
            lifetime: rng.one_in(2),
            pattern,
            quantum: if rng.one_in(2) { most } else { rng.between(1, most) },
            bug: None,
        })
    }
}

/// The volume with the least reserve from `least` sections on that is guarded.
fn guarded(zones: u32, blocks_per_zone: u32, shape: Shape, least: u32) -> Option<Experiment> {
    (least.max(1)..zones.saturating_sub(1)).find_map(|reserved| {
        let e = Experiment {
            name: "",
            zones,
            blocks_per_zone,
            reserved,
            overprovision: 0.0,
            shape,
            file_blocks: None,
            workload: Workload::Uniform,
            times: 5.0,
            writes: None,
            dirty: 0.0,
            dirty_pages: None,
            fsync_every: None,
        };
        let volume = Extent {
            sections: zones.into(),
            blocks_per_section: blocks_per_zone.into(),
            user_blocks: e.user_blocks(),
        };
        volume.guarded().covers(sizes(&e).1 as u64).then_some(e)
    })
}

/// A number from `low` to `high`, so that each order of magnitude is as likely.
fn between_by_ratio(rng: &mut Rng, low: u64, high: u64) -> u64 {
    let ratio = (high + 1) as f64 / low as f64;
    ((low as f64 * ratio.powf(rng.unit())) as u64).clamp(low, high)
}
