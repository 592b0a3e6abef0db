//! The default reserve against the one that guarantees cleaning.
use segno_clean::guard::{Extent, Guarded};
use segno_format::BLOCKS_PER_SEG;
use segno_mkfs::{Layout, MkfsOptions, plan};

fn extent(layout: &Layout) -> Extent {
    Extent {
        sections: layout.geo.section_count.into(),
        blocks_per_section: u64::from(layout.geo.segs_per_sec * BLOCKS_PER_SEG),
        user_blocks: layout.reserve.user_block_count,
    }
}

fn default_layout(segs_per_sec: u32, sections: u64) -> Option<Layout> {
    let opts = MkfsOptions { segs_per_sec, ..MkfsOptions::default() };
    plan(&[sections * u64::from(segs_per_sec * BLOCKS_PER_SEG)], &opts).ok()
}

/// The default of mkfs.f2fs guards a volume full of small files from 13 sections on (12 have one or two for users), so it
/// stays. From 70 sections on it guards any number of nodes.
#[test]
fn the_default_reserve_guards() {
    for segs_per_sec in [1, 2, 3, 4, 7, 8, 16, 32, 64, 512, 1024] {
        let sizes = (10..600).chain((3..=20).map(|shift| 1 << shift)).chain((600..100_000).step_by(977));
        for layout in sizes.filter_map(|sections| default_layout(segs_per_sec, sections)) {
            let (extent, context) =
                (extent(&layout), format!("{segs_per_sec} segments a section: {layout:?}"));
            assert!(extent.guards_small_files() || layout.geo.section_count <= 12, "{context}");
            if layout.geo.section_count >= 70 {
                assert_eq!(extent.guarded(), Guarded::All, "{context}");
            }
        }
    }
}

/// Newer mkfs.f2fs reserve fewer sections, and both choices can be overridden.
#[test]
fn a_chosen_reserve_may_not_guard() {
    let chosen = |percent, sections| {
        let opts = MkfsOptions {
            overprovision_percent: Some(percent),
            reserved_sections: Some(sections),
            ..MkfsOptions::default()
        };
        extent(&plan(&[512 * 256], &opts).unwrap()).guarded()
    };
    // 248 sections: 43 guard any number of nodes, 11 none.
    assert_eq!(chosen(1.0, 6), Guarded::Never);
    assert_eq!(chosen(1.0, 10), Guarded::UpTo(512));
    assert_eq!(chosen(1.0, 41), Guarded::All);
}
