//! Geometries and writes, drawn from a seed.
use super::device::Geometry;
use segno_testkit::Rng;

/// Most positions of a file that one node maps.
const PER_NODE: u64 = 1018;
/// Fewest sections: with fewer the reserve leaves little for users.
const LEAST_SECTIONS: u64 = 18;
/// Most sections of one segment and of two, so that a case takes seconds.
const MOST_SECTIONS: [u64; 2] = [36, 24];

/// The order of the writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    #[default]
    Uniform,
    /// One block of each section's length in turn, so that all sections get equally empty.
    Strided,
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
        [Self::Uniform, Self::Strided, Self::NewestFirst, Self::Synced, Self::Refill, Self::Sequential];
}

/// A volume, and how it is written.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub seed: u64,
    /// `reserved` is the least; it is raised until the reserve guards the volume.
    pub geometry: Geometry,
    /// File blocks from one page of the file to the next; many make many nodes.
    pub stride: u64,
    /// Most blocks of a small file.
    pub small: u32,
    pub pattern: Pattern,
    /// Dirty pages above which some are written back.
    pub dirty_pages: usize,
    pub policy: &'static str,
    pub lifetime: bool,
    /// Power cuts.
    pub cuts: u32,
    /// Writes to an fsync, where there are fsyncs.
    pub fsync_every: u64,
}

impl Case {
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let (segments_per_section, most) =
            if rng.one_in(2) { (1, MOST_SECTIONS[0]) } else { (2, MOST_SECTIONS[1]) };
        let sections = rng.between(LEAST_SECTIONS, most);
        let share = if rng.one_in(2) { 0 } else { rng.between(5, 30) };
        let pattern = rng.pick(&Pattern::ALL);
        Self {
            seed,
            geometry: Geometry {
                zoned: !rng.one_in(3),
                sections: sections as u32,
                segments_per_section,
                overprovision_percent: 1.0,
                reserved: (sections * share / 100).max(1) as u32,
            },
            stride: between_by_ratio(&mut rng, 1, PER_NODE),
            small: rng.pick(&[4, 16, 64, 256]),
            pattern,
            dirty_pages: between_by_ratio(&mut rng, 1, 1024) as usize,
            policy: if rng.one_in(2) { "predictive" } else { "benefit" },
            lifetime: rng.one_in(2),
            cuts: rng.between(1, 4) as u32,
            fsync_every: if rng.one_in(2) { 1 } else { between_by_ratio(&mut rng, 2, 512) },
        }
    }
}

/// A number from `low` to `high`, so that each order of magnitude is as likely.
fn between_by_ratio(rng: &mut Rng, low: u64, high: u64) -> u64 {
    let ratio = (high + 1) as f64 / low as f64;
    ((low as f64 * ratio.powf(rng.unit())) as u64).clamp(low, high)
}
