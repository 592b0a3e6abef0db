//! The guaranteed reserve against a search through all reserves and all numbers of nodes.
#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use segno_clean::guard::{Extent, Guarded, least_reserve};

/// The two bounds as they are documented, over rationals: `o >= 11 + 2 * sqrt(s)`, or
/// `o >= 10 + ceil(s/b) + ceil(n/b)`.
fn suffices(o: u64, s: u64, b: u64, n: u64) -> bool {
    any(o, s) || few(o, s, b, n)
}

fn any(o: u64, s: u64) -> bool {
    o >= 11 && (o - 11) * (o - 11) >= 4 * s
}

fn few(o: u64, s: u64, b: u64, n: u64) -> bool {
    let (of_sections, of_nodes) = ((0..).find(|k| k * b >= s).unwrap(), (0..).find(|k| k * b >= n).unwrap());
    o >= 10 + of_sections + of_nodes
}

fn extent(sections: u64, blocks_per_section: u64, reserve: u64, rest: u64) -> Extent {
    let blocks = sections * blocks_per_section;
    let user_blocks = blocks.saturating_sub(reserve * blocks_per_section + rest % blocks_per_section);
    Extent { sections, blocks_per_section, user_blocks }
}

/// Every volume of these small sizes, with every reserve.
#[test]
fn small_volumes_against_a_search() {
    for s in 1..60 {
        for b in [1, 3, 8] {
            for o in 0..=s {
                let volume = extent(s, b, o, 0);
                let most = (1..=volume.user_blocks).take_while(|&n| suffices(o, s, b, n)).last();
                let found = match most {
                    _ if any(o, s) => Guarded::All,
                    Some(n) if n == volume.user_blocks => Guarded::All,
                    Some(n) => Guarded::UpTo(n),
                    // Without a block for users nothing is ever written.
                    None if volume.user_blocks == 0 => continue,
                    None => Guarded::Never,
                };
                assert_eq!(volume.guarded(), found, "{volume:?}");
            }
        }
    }
}

#[test]
fn the_largest_volumes_do_not_overflow() {
    let (sections, blocks_per_section) = (1 << 23, 512);
    let largest =
        Extent { sections, blocks_per_section, user_blocks: (sections - 5804) * blocks_per_section };
    assert_eq!((largest.reserve(), largest.guarded()), (5804, Guarded::All));
    assert_eq!(least_reserve(sections, blocks_per_section, u64::MAX), 5804);
    for n in [0, u64::MAX] {
        let absurd = Extent { sections: n, blocks_per_section: n, user_blocks: !n };
        assert_eq!(absurd.guarded(), Guarded::Never);
        assert!(least_reserve(n, n, n) >= 10);
    }
}

proptest! {
    /// The least reserve suffices, and one section less does not.
    #[test]
    fn the_least_reserve_is_the_least(s in 1..1_000_000_u64, b in 512..4_000_u64, n in 0..10_000_000_u64) {
        let least = least_reserve(s, b, n);
        prop_assert!(suffices(least, s, b, n));
        prop_assert!(!suffices(least - 1, s, b, n));
    }

    /// The greatest number of nodes is guarded, and one more is not unless the volume cannot hold it.
    #[test]
    fn one_node_more_is_not_guarded(s in 1..5_000_u64, b in 512..4_000_u64, o in 0..400_u64, rest in 0..4_000_u64) {
        let volume = extent(s, b, o, rest);
        prop_assume!(volume.user_blocks > 0);
        let o = volume.reserve();
        match volume.guarded() {
            Guarded::All => prop_assert!(suffices(o, s, b, volume.user_blocks)),
            Guarded::UpTo(n) => prop_assert!(suffices(o, s, b, n) && !suffices(o, s, b, n + 1)),
            Guarded::Never => prop_assert!(!suffices(o, s, b, 1)),
        }
    }

    /// A larger reserve never guards fewer nodes, and `covers` has its limit at the guarded number.
    #[test]
    fn the_guard_grows_with_the_reserve(s in 1..5_000_u64, b in 512..4_000_u64, o in 0..400_u64) {
        let (less, more) = (extent(s, b, o, 0).guarded(), extent(s, b, o + 1, 0).guarded());
        if let Some(n) = less.most_nodes() {
            prop_assert!(more.covers(n) && less.covers(n) && !less.covers(n + 1));
        } else {
            prop_assert_eq!(more, Guarded::All);
        }
    }
}
