//! How many contexts there are: chosen from the machine and from what is free, never from the geometry.
use std::fmt;

/// Contexts at most, whatever is asked for.
pub const MOST: u32 = 64;
/// Where nothing is known of the device: four streams saturate what was measured so far.
const DEVICE: u64 = 4;
/// Sections that a context may hold open: three shared streams, two exclusive ones.
const SECTIONS: u64 = 5;
/// Dirty pages that a context is worth (32 MiB).
const DIRTY: u64 = 8192;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting {
    #[default]
    Auto,
    Fixed(u32),
}

impl std::str::FromStr for Setting {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let fixed = || s.parse().ok().filter(|n| (1..=MOST).contains(n)).map(Self::Fixed);
        if s == "auto" {
            return Ok(Self::Auto);
        }
        fixed().ok_or_else(|| format!("choose auto or a number from 1 to {MOST}"))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(n) => n.fmt(f),
        }
    }
}

/// What decides.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub cpus: u64,
    /// Free sections beyond what is dirty and the reserve.
    pub spare_sections: u64,
    /// Sections of the main area.
    pub sections: u64,
    /// Dirty pages at most.
    pub dirty_limit: u64,
    /// Sections are written in order.
    pub zoned: bool,
}

/// The number, and what kept it from being larger.
pub fn number(setting: Setting, f: &Facts) -> (u32, &'static str) {
    let space = (f.spare_sections / (4 * SECTIONS), "free space");
    let mut bounds = vec![space, (MOST.into(), "the most there can be")];
    if f.zoned {
        bounds.push((1, "zones"));
    }
    match setting {
        Setting::Fixed(n) => bounds.insert(0, (n.into(), "the setting")),
        Setting::Auto => bounds.extend([
            (f.cpus / 2, "processors"),
            (DEVICE, "device"),
            (f.dirty_limit / DIRTY, "memory"),
            // Large sections: what is held open stays a small part of the volume.
            (f.sections / (20 * 3), "size of a section"),
        ]),
    }
    let least = bounds.into_iter().min_by_key(|&(n, _)| n).unwrap_or((1, ""));
    (least.0.clamp(1, MOST.into()) as u32, least.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Facts =
        Facts { cpus: 32, spare_sections: 1 << 22, sections: 1 << 23, dirty_limit: 1 << 20, zoned: false };

    #[test]
    fn the_largest_volume_has_no_more_contexts_than_a_large_one() {
        assert_eq!(number(Setting::Auto, &LARGE), (4, "device"));
        assert_eq!(number(Setting::Fixed(64), &LARGE), (64, "the setting"));
        let small = Facts { spare_sections: 300, sections: 512, ..LARGE };
        assert_eq!(number(Setting::Auto, &small), (4, "device"));
    }

    #[test]
    fn one_processor_has_one_context() {
        assert_eq!(number(Setting::Auto, &Facts { cpus: 1, ..LARGE }).0, 1);
        assert_eq!(number(Setting::Auto, &Facts { cpus: 4, ..LARGE }), (2, "processors"));
    }

    #[test]
    fn space_lowers_any_setting_to_one_at_last() {
        let spare = |n| Facts { spare_sections: n, ..LARGE };
        assert_eq!(number(Setting::Fixed(16), &spare(200)), (10, "free space"));
        assert_eq!(number(Setting::Fixed(16), &spare(0)), (1, "free space"));
        assert_eq!(number(Setting::Fixed(16), &Facts { zoned: true, ..LARGE }), (1, "zones"));
        assert_eq!(number(Setting::Auto, &Facts { dirty_limit: 9000, ..LARGE }), (1, "memory"));
    }

    #[test]
    fn settings_are_checked_whole() {
        for wrong in ["0", "65", "-1", "many", "", "4 "] {
            assert!(wrong.parse::<Setting>().is_err(), "{wrong}");
        }
        assert_eq!(("auto".parse(), "64".parse()), (Ok(Setting::Auto), Ok(Setting::Fixed(64))));
        assert_eq!(format!("{} {}", Setting::Auto, Setting::Fixed(7)), "auto 7");
    }
}
