//! Limits of the kernel's page cache.
use super::{TRANSPORTS, cached};
use crate::page_cache::PageCache;
use crate::tests::{Mount, volume};
use std::fs;

const SMALL: u64 = 128 << 20;
const LARGE: u64 = 1 << 40;

/// The values of `max_ratio_fine`, in millionths, and `strict_limit` before and after tuning; `None` if the kernel has no such
/// limits or this process may not change them.
fn limits(mount: &Mount, page_cache: PageCache, volume_bytes: u64) -> Option<[[u32; 2]; 2]> {
    let bdi = mount.bdi();
    let limit = |name| fs::read_to_string(bdi.join(name)).ok()?.trim().parse().ok();
    let read = || Some([limit("max_ratio_fine")?, limit("strict_limit")?]);
    let before: [u32; 2] = read()?;
    // Writing what is there already changes nothing.
    fs::write(bdi.join("max_ratio_fine"), before[0].to_string()).ok()?;
    mount.tune(page_cache == PageCache::Writeback, volume_bytes);
    Some([before, read()?])
}

#[test]
fn the_limit_of_dirty_pages_is_lifted_with_the_writeback_cache_on_a_large_volume_alone() {
    for choice in TRANSPORTS {
        let Some(with) = cached(volume(), choice, &[]) else { continue };
        let Some(without) = Mount::new(choice, &[]) else { continue };
        let Some([before, small]) = limits(&with, PageCache::Writeback, SMALL) else {
            return eprintln!("NOT TESTED: no limits to set here");
        };
        assert_eq!((small[1], small[0] > before[0]), (1, true), "{before:?} {small:?}");
        let [_, large] = limits(&with, PageCache::Writeback, LARGE).unwrap();
        assert_eq!(large, [200_000, 0]);
        let [before, after] = limits(&without, PageCache::WriteThrough, LARGE).unwrap();
        assert_eq!((before, after[1]), (after, 1));
    }
}
