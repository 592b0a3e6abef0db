//! Volumes whose reserve guards few nodes or none, as newer mkfs.f2fs make them, with and without `node_limit`.
use crate::common::{assert_clean, assert_clean_to_f2fs_tools, fresh, quiet};
use segno_clean::guard::Guarded;
use segno_device::{MemDevice, ZoneLimits};
use segno_engine::options::AllocMode;
use segno_engine::{Error, FallocMode, MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::{Rng, ZoneShape, ZonedDevice};
use std::sync::Arc;

const BLOCK: usize = 4096;
/// Blocks of a file.
const FILE_BLOCKS: u64 = 64;
/// Reserved sections that guard one section of nodes on a volume of at most 512 sections.
const GUARDS_512: u32 = 12;

/// A volume of 36 sections, of which 12 are kept from users.
fn full_device(zoned: bool) -> Arc<ZonedDevice> {
    let shape = ZoneShape {
        zones: 45,
        conventional: if zoned { 9 } else { 45 },
        blocks: 512,
        capacity: 512,
        limits: ZoneLimits::default(),
    };
    let dev = Arc::new(ZonedDevice::new(shape));
    let opts = MkfsOptions {
        zoned,
        overprovision_percent: Some(1.0),
        reserved_sections: Some(GUARDS_512),
        ..MkfsOptions::default()
    };
    let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &opts).unwrap();
    dev
}

/// A small volume with `sections` reserved sections and 1 % of overprovision.
fn reserved(sections: u32) -> Arc<MemDevice> {
    let opts = MkfsOptions {
        overprovision_percent: Some(1.0),
        reserved_sections: Some(sections),
        ..MkfsOptions::default()
    };
    fresh(100, &opts)
}

fn mount(dev: &Arc<MemDevice>, node_limit: bool, mode: AllocMode) -> Arc<Volume> {
    Volume::mount(dev.clone(), MountOptions { node_limit, mode, ..quiet() }).unwrap()
}

fn create(v: &Volume, n: u64) -> Result<Ino, Error> {
    v.mknod(Ino::ROOT, name(n).as_bytes(), 0o100_644, (0, 0), Owner::default()).map(|attr| attr.ino)
}

fn name(n: u64) -> String {
    format!("file {n}")
}

/// Creates empty files until one is refused; returns how many there are.
fn fill_with_nodes(v: &Volume) -> u64 {
    (0..).find(|&n| matches!(create(v, n), Err(Error::NoSpace))).unwrap()
}

/// Writes files until a block is refused.
fn fill_with_data(v: &Volume) -> Vec<(Ino, u64)> {
    let mut files = Vec::new();
    for n in 0.. {
        let Ok(ino) = create(v, n) else { return files };
        for block in 0..FILE_BLOCKS {
            match v.write(ino, block * BLOCK as u64, &[n as u8; BLOCK]) {
                Ok(_) => {}
                Err(Error::NoSpace) => {
                    files.push((ino, block));
                    return files;
                }
                Err(e) => panic!("{e}"),
            }
        }
        files.push((ino, FILE_BLOCKS));
    }
    files
}

fn remove_all(v: &Volume, files: u64) {
    for n in 0..files {
        v.unlink(Ino::ROOT, name(n).as_bytes()).unwrap_or_else(|e| panic!("{}: {e}", name(n)));
    }
}

/// The least reserve that F2FS mounts: six sections for the logs, none to clean with.
#[test]
fn an_unguarded_volume_mounts_and_deletes() {
    for mode in [AllocMode::Adaptive, AllocMode::Lfs] {
        let dev = reserved(6);
        let v = mount(&dev, false, mode);
        assert_eq!(v.guarded(), Guarded::Never);
        let empty = v.statfs().bfree;
        let files = fill_with_data(&v);
        v.sync().unwrap();
        v.unmount().unwrap();
        assert_clean(&*dev);

        let v = mount(&dev, false, mode);
        remove_all(&v, files.len() as u64);
        v.sync().unwrap();
        assert_eq!(v.statfs().bfree, empty);
        v.unmount().unwrap();
        assert_clean_to_f2fs_tools(&*dev, "everything was deleted");
    }
}

/// The volume of mkfs.f2fs with its own reserve, full, and with more nodes than this guards: new nodes are refused,
/// overwrites of nodes and data are not.
#[test]
fn beyond_the_guard_allocations_fail_before_overwrites() {
    for mode in [AllocMode::Adaptive, AllocMode::Lfs] {
        let dev = fresh(100, &MkfsOptions::default());
        let v = mount(&dev, false, mode);
        let Guarded::UpTo(guarded) = v.guarded() else { panic!("{:?}", v.guarded()) };
        let large = create(&v, 1 << 32).unwrap();
        let blocks = v.statfs().bfree - 3 * guarded / 2;
        for block in 0..blocks {
            v.write(large, block * BLOCK as u64, &[1; BLOCK]).unwrap();
        }
        let files = fill_with_nodes(&v);
        assert!(v.node_count() > guarded, "{} nodes, {guarded} are guarded", v.node_count());
        let mut rng = Rng::for_thread(1, 0);
        for i in 0..4_000 {
            v.write(large, rng.below(blocks) * BLOCK as u64, &[i as u8; BLOCK]).unwrap();
            let ino = v.lookup(Ino::ROOT, name(rng.below(files)).as_bytes()).unwrap().ino;
            v.write(ino, 0, &[i as u8]).unwrap();
            if i % 500 == 0 {
                v.sync().unwrap();
            }
        }
        v.unmount().unwrap();
        assert_clean(&*dev);
    }
}

/// If one file fills the whole user space, its blocks move to the space kept from users.
#[test]
fn ranges_of_a_full_volume_move() {
    for (zoned, mode) in [(false, AllocMode::Adaptive), (false, AllocMode::Lfs), (true, AllocMode::default())]
    {
        let dev = full_device(zoned);
        let opts = MountOptions { mode, cache_bytes: 4 << 20, ..quiet() };
        let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
        let (file, mut rng) = (create(&v, 0).unwrap(), Rng::new(1));
        let mut block = [0; BLOCK];
        let mut write = |at: u64, value: u64| {
            block[..8].copy_from_slice(&value.to_le_bytes());
            v.write(file, at * BLOCK as u64, &block)
        };
        let blocks = (0..).find(|&n| write(n, n).is_err()).unwrap();
        let mut holds: Vec<u64> = (0..blocks).collect();
        for round in 0..300 {
            for _ in 0..blocks / 100 {
                let (at, value) = (rng.below(blocks), rng.draw());
                write(at, value).unwrap();
                holds[at as usize] = value;
            }
            let end = blocks - rng.between(1, 100);
            let start = end - rng.between(1, 8);
            let moved = v.fallocate(
                file,
                FallocMode::CollapseRange,
                start * BLOCK as u64,
                (end - start) * BLOCK as u64,
            );
            moved.unwrap_or_else(|e| panic!("zoned {zoned}, {mode:?}, collapse {round}: {e}"));
            holds.drain(start as usize..end as usize);
            let hole = end - rng.between(10, 100);
            let moved =
                v.fallocate(file, FallocMode::InsertRange, hole * BLOCK as u64, (end - start) * BLOCK as u64);
            moved.unwrap_or_else(|e| panic!("zoned {zoned}, {mode:?}, insert {round}: {e}"));
            for at in hole..hole + end - start {
                holds.insert(at as usize, at);
                write(at, at).unwrap();
            }
        }
        v.unmount().unwrap();
        assert_clean(&*dev);
        let v = Volume::mount(dev.clone(), opts).unwrap();
        for (at, value) in (0..).zip(holds) {
            let mut found = [0; 8];
            v.read(file, at * BLOCK as u64, &mut found).unwrap();
            assert_eq!(u64::from_le_bytes(found), value, "zoned {zoned}, {mode:?}, block {at}");
        }
    }
}

#[test]
fn nodes_beyond_the_guard_are_refused_and_blocks_are_not() {
    let dev = reserved(GUARDS_512);
    let v = mount(&dev, true, AllocMode::Lfs);
    assert_eq!(v.guarded(), Guarded::UpTo(512));
    let files = fill_with_nodes(&v);
    assert_eq!((v.node_count(), v.statfs().ffree), (512, 0));
    assert!(v.statfs().bfree > 0);
    let (_, last) =
        (create(&v, files).unwrap_err(), v.lookup(Ino::ROOT, name(files - 1).as_bytes()).unwrap().ino);
    assert_eq!(v.write(last, 0, &[1; 2 * BLOCK]).unwrap(), 2 * BLOCK);
    remove_all(&v, 1);
    v.sync().unwrap();
    create(&v, files).unwrap();
    assert!(matches!(create(&v, 0), Err(Error::NoSpace)));
    v.unmount().unwrap();
    assert_clean(&*dev);
}

/// Volumes made without the option, or by others, stay usable: their files can be read, recovered and
/// deleted.
#[test]
fn a_volume_beyond_the_guard_mounts_with_the_option() {
    let dev = reserved(GUARDS_512);
    let v = mount(&dev, false, AllocMode::Lfs);
    for n in 0..600 {
        create(&v, n).unwrap();
    }
    v.sync().unwrap();
    // Only the log has this one when the mount ends without an unmount.
    let fsynced = create(&v, 600).unwrap();
    v.write(fsynced, 0, &[7; BLOCK]).unwrap();
    v.fsync(fsynced).unwrap();
    drop(v);

    let v = mount(&dev, true, AllocMode::Lfs);
    assert_eq!(v.node_count(), 602);
    assert_eq!((v.statfs().files, v.statfs().ffree), (602, 0));
    let found = v.lookup(Ino::ROOT, name(600).as_bytes()).unwrap();
    assert_eq!(found.size, BLOCK as u64);
    assert!(matches!(create(&v, 601), Err(Error::NoSpace)));
    remove_all(&v, 90);
    v.sync().unwrap();
    assert!(matches!(create(&v, 601), Err(Error::NoSpace)));
    v.unlink(Ino::ROOT, name(600).as_bytes()).unwrap();
    v.sync().unwrap();
    create(&v, 601).unwrap();
    v.unmount().unwrap();
    assert_clean(&*dev);
}
