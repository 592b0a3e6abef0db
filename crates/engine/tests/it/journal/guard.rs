//! The guard: implementations without journal support must not write to the volume.
use super::{FILE, MIB, Rig, format};
use crate::common::{assert_clean, quiet};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::options::JournalMode;
use segno_engine::{Error, JournalArea, MountOptions, Owner, Volume};
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES};
use segno_format::{Block, Features, Ino};
use segno_journal::Journal;
use segno_mkfs::MkfsOptions;
use std::sync::Arc;

fn guarded() -> MountOptions {
    MountOptions { journal: JournalMode::On, guard: true, ..quiet() }
}

fn stored(dev: &dyn BlockDevice, copy: usize) -> RawSuperblock {
    let mut one = [Block::zeroed()];
    dev.read(SUPERBLOCK_COPIES[copy].0.into(), &mut one).unwrap();
    RawSuperblock::from_block(&one[0].0)
}

/// The feature that makes Linux refuse writes, in both copies.
fn marks(dev: &dyn BlockDevice) -> [bool; 2] {
    [0, 1].map(|copy| {
        let raw = stored(dev, copy);
        raw.parse(copy as u64).unwrap();
        Features::from_bits_retain(raw.feature.get()).contains(Features::RO)
    })
}

fn crashed(dev: &MemDevice) -> Arc<MemDevice> {
    Arc::new(MemDevice::from_snapshot(&dev.snapshot()))
}

#[test]
fn a_mounted_volume_is_marked_and_an_unmounted_one_is_not() {
    for features in [Features::empty(), Features::EXTRA_ATTR | Features::SB_CHKSUM] {
        let dev = super::format_with(96, &MkfsOptions { features, ..MkfsOptions::default() });
        let v = Volume::mount(dev.clone(), guarded()).unwrap();
        assert_eq!(marks(&*dev), [true; 2]);
        v.unmount().unwrap();
        assert_eq!(marks(&*dev), [false; 2]);
        assert_clean(&*dev);
    }
}

#[test]
fn replaying_the_journal_removes_the_guard() {
    let mut rig = Rig::on(format());
    rig.v.unmount().unwrap();
    rig.v = Volume::mount(rig.dev.clone(), guarded()).unwrap();
    rig.file("f", b"content");
    rig.v.sync().unwrap();
    rig.crash();
    assert_eq!(marks(&*rig.dev), [false; 2], "replayed, and not asked to guard");
    assert_eq!(rig.content("f"), b"content");
    rig.judge();
}

#[test]
fn nothing_is_written_without_the_journal() {
    let (dev, side) = (format(), Arc::new(MemDevice::new(8 * MIB)));
    // A journal exists, but it is not the right one.
    Volume::mount(dev.clone(), MountOptions { journal: JournalMode::On, ..quiet() })
        .unwrap()
        .unmount()
        .unwrap();
    let beside = |side| JournalMode::External(JournalArea::whole(side));
    let opts = MountOptions { journal: beside(side.clone()), ..guarded() };
    let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
    v.mknod(Ino::ROOT, b"f", FILE, (0, 0), Owner::default()).unwrap();
    v.sync().unwrap();
    let (dev, side) = (crashed(&dev), crashed(&side));
    assert_clean(&*dev);
    let other = beside(Arc::new(MemDevice::new(8 * MIB)));
    for journal in [JournalMode::Off, JournalMode::Auto, JournalMode::On, other] {
        let refused = Volume::mount(dev.clone(), MountOptions { journal, ..quiet() });
        assert!(matches!(refused, Err(Error::JournalNotNamed)));
    }
    let looking = MountOptions { read_only: true, norecovery: true, ..quiet() };
    assert!(Volume::mount(dev.clone(), looking).unwrap().lookup(Ino::ROOT, b"f").is_err());
    let v = Volume::mount(dev.clone(), MountOptions { journal: beside(side), ..quiet() }).unwrap();
    assert!(v.lookup(Ino::ROOT, b"f").is_ok());
    assert_eq!(marks(&*dev), [false; 2]);
}

/// The journal after the end of the volume was erased.
#[test]
fn a_guarded_volume_without_its_journal_is_shown_and_not_written() {
    let dev = format();
    let v = Volume::mount(dev.clone(), guarded()).unwrap();
    v.mknod(Ino::ROOT, b"f", FILE, (0, 0), Owner::default()).unwrap();
    v.sync().unwrap();
    let end = v.superblock().geo.block_count;
    let dev = crashed(&dev);
    Journal::discard(&JournalArea::tail(dev.clone(), end).unwrap()).unwrap();
    for journal in [JournalMode::Off, JournalMode::Auto, JournalMode::On] {
        let refused = Volume::mount(dev.clone(), MountOptions { journal, ..quiet() });
        assert!(matches!(refused, Err(Error::Invalid(why)) if why.contains("marked read-only")));
    }
    let looking = MountOptions { read_only: true, ..quiet() };
    assert!(Volume::mount(dev.clone(), looking).unwrap().lookup(Ino::ROOT, b"f").is_err());
}

#[test]
fn differing_superblock_copies_are_repaired() {
    for marked in [0, 1] {
        let dev = format();
        Volume::mount(dev.clone(), guarded()).unwrap().unmount().unwrap();
        let mut raw = stored(&*dev, marked);
        raw.set_guard(true);
        let mut one = [Block::zeroed()];
        dev.read(SUPERBLOCK_COPIES[marked].0.into(), &mut one).unwrap();
        raw.store(&mut one[0].0);
        dev.write(SUPERBLOCK_COPIES[marked].0.into(), &[&one[0]]).unwrap();
        let v = Volume::mount(dev.clone(), MountOptions { journal: JournalMode::On, ..quiet() }).unwrap();
        assert_eq!(marks(&*dev), [false; 2], "copy {marked}");
        v.unmount().unwrap();
        assert_clean(&*dev);
    }
}
