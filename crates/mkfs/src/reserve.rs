//! Overprovision: how much of the main area is kept from users so that cleaning always finds room.
//!
//! The kernel and fsck accept any plausible numbers here, so there is one rule: that of mkfs.f2fs 1.15, which
//! keeps about twice as many free sections for the cleaner as 1.16 does. Unlike 1.15, segments that do not
//! fill a zone at the end of a device are not counted: 1.15 reports them as free although no section contains
//! them.
use crate::{MkfsError, MkfsOptions};
use segno_format::BLOCKS_PER_SEG;

/// Segments that the logs fill while the cleaner works.
const CURSEGS: u32 = 6;
/// Main areas with fewer segments get coarse, large ratios.
const SMALL_MAIN: u32 = 256;

/// The reserve of a volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reserve {
    /// Overprovision ratio in percent; 0 on read-only volumes.
    pub percent: f64,
    /// Segments that only the cleaner may use.
    pub rsvd_segment_count: u32,
    /// Segments kept from users, the former included.
    pub overprov_segment_count: u32,
    /// Blocks that users may fill.
    pub user_block_count: u64,
}

impl Reserve {
    /// No reserve: nothing is ever written to the volume.
    pub(crate) fn none(main: u32) -> Self {
        Self {
            percent: 0.0,
            rsvd_segment_count: 0,
            overprov_segment_count: 0,
            user_block_count: u64::from(main) * u64::from(BLOCKS_PER_SEG),
        }
    }

    /// The reserve of `main` segments, at a given ratio or at the best one.
    pub(crate) fn of(main: u32, opts: &MkfsOptions) -> Result<Self, MkfsError> {
        let segs_per_sec = opts.segs_per_sec;
        let percent = opts.overprovision_percent.unwrap_or_else(|| best_percent(main, segs_per_sec));
        // Both are cut to whole segments, as mkfs.f2fs does.
        let rsvd = match opts.reserved_sections {
            Some(n) => f64::from(n) * f64::from(segs_per_sec),
            None => rsvd_segments(percent, segs_per_sec).trunc(),
        };
        let overprov = ((f64::from(main) - rsvd) * percent / 100.0).trunc() + rsvd;
        if rsvd + f64::from(CURSEGS) > f64::from(main) || overprov >= f64::from(main) {
            return Err(MkfsError::NoUserSpace { rsvd: rsvd as u64, main: main.into() });
        }
        // In range: both are at least 0 and below `main`.
        let (rsvd, overprov) = (rsvd as u32, overprov as u32);
        Ok(Self {
            percent,
            rsvd_segment_count: rsvd,
            overprov_segment_count: overprov,
            user_block_count: u64::from(main.saturating_sub(overprov)) * u64::from(BLOCKS_PER_SEG),
        })
    }
}

/// Free segments that the cleaner needs to clean a section of which only `percent` is free.
fn rsvd_segments(percent: f64, segs_per_sec: u32) -> f64 {
    (2.0 * (100.0 / percent + 1.0) + f64::from(CURSEGS)) * f64::from(segs_per_sec)
}

/// The ratio that leaves the most room: a larger one needs fewer free segments for the cleaner.
fn best_percent(main: u32, segs_per_sec: u32) -> f64 {
    let (mut percent, last, step) = if main < SMALL_MAIN { (10.0, 95.0, 5.0) } else { (0.01, 10.0, 0.01) };
    let (mut best, mut most) = (percent, f64::NEG_INFINITY);
    // mkfs.f2fs adds steps instead of multiplying; rounding decides some sizes.
    while percent <= last {
        let rest = f64::from(main) - rsvd_segments(percent, segs_per_sec);
        let space = rest - rest * percent / 100.0;
        if space > most {
            (best, most) = (percent, space);
        }
        percent += step;
    }
    best
}
