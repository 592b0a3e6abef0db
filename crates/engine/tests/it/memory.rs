//! Memory that grows with the number of files stays within `cache_bytes`.
use crate::common::{assert_clean, fresh, quiet};
use segno_engine::{Attr, Error, MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_mkfs::MkfsOptions;
use segno_testkit::Rng;
use std::sync::Arc;

const REG: u16 = 0o100_000;
const CACHE: u64 = 2 << 20;
/// Memory that one operation may add before the next one evicts: a listing reads ahead, an inode loads its
/// neighbours.
const STEP: u64 = 512 << 10;

fn report(v: &Volume, what: &str) -> u64 {
    v.report().into_iter().find(|(name, _)| *name == what).unwrap().1
}

fn assert_bounded(v: &Volume, when: &str) {
    let bytes = report(v, "cache_bytes");
    assert!(bytes <= CACHE + STEP, "{bytes} bytes {when}");
    let blocks = report(v, "cached_nodes") + report(v, "cached_pages");
    assert!(blocks * 4096 < bytes, "the blocks alone take more than was counted");
}

fn small_cache(mib: u64) -> (Arc<segno_device::MemDevice>, Arc<Volume>) {
    let dev = fresh(mib, &MkfsOptions::default());
    let v = Volume::mount(dev.clone(), MountOptions { cache_bytes: CACHE as usize, ..quiet() }).unwrap();
    (dev, v)
}

/// Creates `count` files, `each` per directory, all referenced by the front end.
fn make(v: &Volume, first: usize, count: usize, each: usize) -> Vec<(Ino, String, Attr)> {
    let mut dir = Ino::ROOT;
    let mut files = Vec::new();
    for i in first..first + count {
        if (i - first).is_multiple_of(each) {
            dir = v.mkdir(Ino::ROOT, format!("d{i}").as_bytes(), 0o755, Owner::default()).unwrap().ino;
            v.add_reference(dir);
        }
        let name = format!("file {i}");
        let attr = v.mknod(dir, name.as_bytes(), REG, (0, 0), Owner::default()).unwrap();
        v.add_reference(attr.ino);
        assert_bounded(v, "while files are made");
        files.push((dir, name, attr));
    }
    files
}

fn look_at_all(v: &Volume, files: &[(Ino, String, Attr)]) {
    let mut rng = Rng::new(3);
    for _ in 0..files.len() / 2 {
        let (dir, name, attr) = &files[rng.below(files.len() as u64) as usize];
        assert_eq!(v.lookup(*dir, name.as_bytes()).unwrap(), *attr);
        assert_eq!(v.read(attr.ino, 0, &mut [0]).unwrap(), 0);
        assert_bounded(v, "while files are looked up");
    }
    // As `ls -l` reads the access control list of each file.
    for (.., attr) in files {
        assert!(matches!(v.getxattr(attr.ino, b"system.posix_acl_access"), Err(Error::NoData)));
        assert_eq!(v.listxattr(attr.ino).unwrap(), b"");
        assert_bounded(v, "while attributes are read");
    }
    for (dir, _, attr) in files.iter().step_by(97) {
        let mut found = false;
        let each = &mut |e: segno_engine::DirEntry<'_>| {
            found |= e.ino == attr.ino;
            true
        };
        v.readdir(*dir, 0, each).unwrap();
        assert!(found);
        v.getattr(attr.ino).unwrap();
    }
    assert_bounded(v, "after directories were listed");
}

fn remove_all(v: &Volume, files: Vec<(Ino, String, Attr)>) {
    for (dir, name, attr) in files {
        v.unlink(dir, name.as_bytes()).unwrap();
        v.drop_references(attr.ino, 1).unwrap();
        assert_bounded(v, "while files are removed");
    }
}

#[test]
fn the_limit_holds_for_any_number_of_files() {
    for (count, each) in [(2_000, 200), (8_000, 200), (8_000, 8_000)] {
        let (dev, v) = small_cache(256);
        let files = make(&v, 0, count, each);
        look_at_all(&v, &files);
        v.sync().unwrap();
        look_at_all(&v, &files);
        remove_all(&v, files);
        v.unmount().unwrap();
        assert_clean(&*dev);
    }
}

#[test]
fn entries_in_use_survive_a_scan() {
    let (_dev, v) = small_cache(256);
    let hot = make(&v, 0, 50, 50);
    let cold = make(&v, 50, 4_000, 200);
    v.sync().unwrap();
    let read = |files: &[(Ino, String, Attr)]| {
        files.iter().for_each(|f| assert_eq!(v.read(f.2.ino, 0, &mut [0]).unwrap(), 0));
    };
    read(&hot);
    for part in cold.chunks(20) {
        read(&hot);
        read(part);
    }
    let stay = hot.iter().filter(|f| v.is_cached(f.2.ino)).count();
    let others = cold.iter().filter(|f| v.is_cached(f.2.ino)).count();
    assert_eq!(stay, hot.len());
    assert!(others < cold.len() / 2, "{others}");
    v.unmount().unwrap();
}

#[test]
fn lookups_keep_the_limit_while_half_of_the_cache_is_dirty() {
    let (_dev, v) = small_cache(256);
    let files = make(&v, 0, 4_000, 200);
    v.sync().unwrap();
    // Dirty pages and nodes: a write each to as many files as half of the cache has blocks.
    let half = CACHE / 2 / 4096;
    let mut dirty = 0;
    for (.., attr) in &files {
        v.write(attr.ino, 0, &[7; 4096]).unwrap();
        dirty = report(&v, "dirty_nodes") + report(&v, "dirty_data_pages");
        if dirty >= half {
            break;
        }
    }
    assert!(dirty >= half, "{dirty} blocks are dirty");
    for (dir, name, attr) in &files {
        assert_eq!(v.lookup(*dir, name.as_bytes()).unwrap().ino, attr.ino);
        v.read(attr.ino, 0, &mut [0]).unwrap();
        assert_bounded(&v, "while files are looked up");
    }
    v.unmount().unwrap();
}

/// Directory pages are evicted while other threads search, change and write the directory.
#[test]
fn a_directory_in_use_gives_pages_back_and_loses_no_name() {
    let (dev, v) = small_cache(256);
    let dir = v.mkdir(Ino::ROOT, b"d", 0o755, Owner::default()).unwrap().ino;
    let name = |own: u64, i: u64| format!("a name of some length {own} {i}");
    // More dentry blocks than fit in the cache.
    let count = 8_000;
    std::thread::scope(|s| {
        for own in 0..3 {
            let v = &v;
            s.spawn(move || {
                let mut rng = Rng::new(own + 7);
                let mut there = Vec::new();
                for i in 0..count {
                    v.mknod(dir, name(own, i).as_bytes(), REG, (0, 0), Owner::default()).unwrap();
                    there.push(i);
                    let at = rng.below(there.len() as u64) as usize;
                    v.lookup(dir, name(own, there[at]).as_bytes()).unwrap();
                    if i % 3 == 0 {
                        let i = there.swap_remove(at);
                        v.unlink(dir, name(own, i).as_bytes()).unwrap();
                        assert!(v.lookup(dir, name(own, i).as_bytes()).is_err());
                    }
                    if i % 2_000 == 0 {
                        v.sync().unwrap();
                    }
                }
                assert!(there.iter().all(|&i| v.lookup(dir, name(own, i).as_bytes()).is_ok()));
            });
        }
    });
    v.lookup(dir, name(0, count).as_bytes()).unwrap_err();
    assert_bounded(&v, "after all");
    v.unmount().unwrap();
    assert_clean(&*dev);
}
