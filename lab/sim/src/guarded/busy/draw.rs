//! Volumes and writers, drawn from a seed.
use super::super::device::Geometry;
use segno_format::BLOCK_SIZE;
use segno_testkit::Rng;

/// The cache in parts of 64 of the volume, from and to.
const CACHE_PARTS: [u64; 2] = [4, 24];
/// Sections of a drawn volume, from and to, so that a case takes seconds.
const SECTIONS: [u64; 2] = [30, 60];

/// A volume, and who overwrites its files.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    pub seed: u64,
    pub geometry: Geometry,
    pub writers: u32,
    /// Files that share the pages, one after the other.
    pub files: u32,
    /// Writeback contexts, as far as the volume permits them.
    pub contexts: u32,
    /// Exponent of the distribution of writes; `None` if it is even.
    pub zipf: Option<f64>,
    pub cache: usize,
    /// Blocks overwritten, as a multiple of the files.
    pub times: u64,
    /// Writes of each writer to an fsync, if there are any.
    pub fsync_every: Option<u64>,
    pub policy: Option<&'static str>,
    /// Longest pause of a device command, in microseconds.
    pub pause: u64,
    /// Ranges of another file are collapsed and inserted meanwhile.
    pub moves: bool,
}

/// Volumes that are measured.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// 128 zones of 4 MiB, of which this percentage is kept from users.
    Zones(f64),
    /// 512 MiB without zones, `mode=lfs`.
    Lfs,
}

impl Busy {
    /// A small volume, as full as its reserve guards.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let segments_per_section = rng.between(1, 2) as u32;
        let sections = rng.between(SECTIONS[0], SECTIONS[1]);
        let bytes = sections * u64::from(segments_per_section) * 512 * BLOCK_SIZE as u64;
        Self {
            seed,
            geometry: Geometry {
                zoned: !rng.one_in(3),
                sections: sections as u32,
                segments_per_section,
                overprovision_percent: 1.0,
                reserved: 8,
            },
            writers: rng.between(1, 8) as u32,
            zipf: rng.one_in(2).then_some(0.7),
            cache: (bytes * rng.between(CACHE_PARTS[0], CACHE_PARTS[1]) / 64) as usize,
            times: 2,
            fsync_every: rng.one_in(3).then(|| rng.between(1, 512)),
            policy: rng.one_in(3).then_some("benefit"),
            pause: rng.pick(&[0, 50, 200, 1000]),
            moves: rng.one_in(2),
            files: rng.pick(&[1, 2, 8]),
            contexts: rng.pick(&[1, 2, 6]),
        }
    }

    /// A volume of 512 MiB whose files are overwritten three times.
    #[must_use]
    pub fn measured(seed: u64, layout: Layout, zipf: Option<f64>) -> Self {
        let mut rng = Rng::new(seed);
        let (zoned, sections, segments_per_section, overprovision_percent, reserved) = match layout {
            Layout::Zones(percent) => (true, 128, 2, percent, 8),
            Layout::Lfs => (false, 250, 1, 1.0, 12),
        };
        Self {
            seed,
            geometry: Geometry { zoned, sections, segments_per_section, overprovision_percent, reserved },
            writers: rng.between(1, 8) as u32,
            zipf,
            cache: 143 << 20,
            times: 3,
            fsync_every: None,
            policy: None,
            pause: rng.pick(&[0, 50, 200]),
            moves: false,
            files: rng.pick(&[1, 2, 8]),
            contexts: rng.pick(&[1, 2, 6]),
        }
    }
}
