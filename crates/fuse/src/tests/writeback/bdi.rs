//! Limits of the kernel's page cache.
use super::{TRANSPORTS, cached};
use crate::bdi;
use crate::page_cache::PageCache;
use crate::tests::{Mount, volume};
use std::fs;

/// The values of `max_ratio` and `strict_limit` before and after tuning; `None` if the kernel has no such limits or this
/// process may not change them.
fn limits(mount: &Mount, page_cache: PageCache) -> Option<[[u32; 2]; 2]> {
    let bdi = bdi::directory(mount.path(), &mount.mount_type).unwrap();
    let limit = |name| fs::read_to_string(bdi.join(name)).ok()?.trim().parse().ok();
    let read = || Some([limit("max_ratio")?, limit("strict_limit")?]);
    let before: [u32; 2] = read()?;
    // Writing what is there already changes nothing.
    fs::write(bdi.join("max_ratio"), before[0].to_string()).ok()?;
    bdi::tune(mount.path(), &mount.mount_type, page_cache);
    Some([before, read()?])
}

#[test]
fn the_limit_of_dirty_pages_is_lifted_with_the_writeback_cache_alone() {
    for choice in TRANSPORTS {
        let Some(with) = cached(volume(), choice, &[]) else { continue };
        let Some(without) = Mount::new(choice, &[]) else { continue };
        let Some([_, tuned]) = limits(&with, PageCache::Writeback) else {
            return eprintln!("NOT TESTED: no limits to set here");
        };
        assert_eq!(tuned, [20, 0]);
        let [before, after] = limits(&without, PageCache::WriteThrough).unwrap();
        assert_eq!((before, after[1]), (after, 1));
    }
}
