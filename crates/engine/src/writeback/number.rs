//! The number of contexts, chosen from the machine and the free space, never from the geometry.
use crate::options::{ContextSetting, MOST_CONTEXTS};

/// Streams for an unknown device: four saturate the devices measured so far.
const DEVICE: u64 = 4;
/// Sections that a context may hold open: three shared and two exclusive streams.
const SECTIONS: u64 = 5;
/// Dirty pages that justify one context (32 MiB).
const DIRTY: u64 = 8192;

/// Inputs of the choice.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub cpus: u64,
    /// Free sections beyond the dirty data and the reserve.
    pub spare_sections: u64,
    /// Sections of the main area.
    pub sections: u64,
    /// Upper bound on dirty pages.
    pub dirty_limit: u64,
    /// Sections must be written in order.
    pub zoned: bool,
}

/// The number, and the limit that determines it.
pub fn number(setting: ContextSetting, f: &Limits) -> (u32, &'static str) {
    let space = (f.spare_sections / (4 * SECTIONS), "free space");
    let mut bounds = vec![space, (MOST_CONTEXTS.into(), "the most there can be")];
    if f.zoned {
        bounds.push((1, "zones"));
    }
    match setting {
        ContextSetting::Fixed(n) => bounds.insert(0, (n.into(), "the setting")),
        ContextSetting::Auto => bounds.extend([
            (f.cpus / 2, "processors"),
            (DEVICE, "device"),
            (f.dirty_limit / DIRTY, "memory"),
            // With large sections, open sections stay a small part of the volume.
            (f.sections / (20 * 3), "size of a section"),
        ]),
    }
    let least = bounds.into_iter().min_by_key(|&(n, _)| n).unwrap_or((1, ""));
    (least.0.clamp(1, MOST_CONTEXTS.into()) as u32, least.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Limits =
        Limits { cpus: 32, spare_sections: 1 << 22, sections: 1 << 23, dirty_limit: 1 << 20, zoned: false };

    #[test]
    fn the_largest_volume_has_no_more_contexts_than_a_large_one() {
        assert_eq!(number(ContextSetting::Auto, &LARGE), (4, "device"));
        assert_eq!(number(ContextSetting::Fixed(64), &LARGE), (64, "the setting"));
        let small = Limits { spare_sections: 300, sections: 512, ..LARGE };
        assert_eq!(number(ContextSetting::Auto, &small), (4, "device"));
    }

    #[test]
    fn one_processor_has_one_context() {
        assert_eq!(number(ContextSetting::Auto, &Limits { cpus: 1, ..LARGE }).0, 1);
        assert_eq!(number(ContextSetting::Auto, &Limits { cpus: 4, ..LARGE }), (2, "processors"));
    }

    #[test]
    fn low_space_reduces_any_setting_to_one() {
        let spare = |n| Limits { spare_sections: n, ..LARGE };
        assert_eq!(number(ContextSetting::Fixed(16), &spare(200)), (10, "free space"));
        assert_eq!(number(ContextSetting::Fixed(16), &spare(0)), (1, "free space"));
        assert_eq!(number(ContextSetting::Fixed(16), &Limits { zoned: true, ..LARGE }), (1, "zones"));
        assert_eq!(number(ContextSetting::Auto, &Limits { dirty_limit: 9000, ..LARGE }), (1, "memory"));
    }

    #[test]
    fn settings_are_validated() {
        for wrong in ["0", "65", "-1", "many", "", "4 "] {
            assert!(wrong.parse::<ContextSetting>().is_err(), "{wrong}");
        }
        assert_eq!(("auto".parse(), "64".parse()), (Ok(ContextSetting::Auto), Ok(ContextSetting::Fixed(64))));
        assert_eq!(format!("{} {}", ContextSetting::Auto, ContextSetting::Fixed(7)), "auto 7");
    }
}
