//! The guard: implementations without journal support must not write to the volume.
use super::{FILE, MIB, Rig, format};
use crate::common::{assert_clean, assert_clean_to_f2fs_tools, quiet};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::lab::Probe;
use segno_engine::options::JournalMode;
use segno_engine::{Error, JournalArea, MountOptions, Owner, Volume};
use segno_format::checkpoint::CpFlags;
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES};
use segno_format::{Block, Features, Ino};
use segno_journal::{Journal, Missing};
use segno_layout::Pack;
use segno_mkfs::MkfsOptions;
use segno_testkit::{
    CrashLog, CrashPlan, CrashStates, Fault, FaultCall, FaultDevice, FaultError, RecordDevice,
};
use std::sync::Arc;

fn guarded() -> MountOptions {
    MountOptions { journal: JournalMode::On, ..quiet() }
}

fn unguarded() -> MountOptions {
    MountOptions { guard: false, ..guarded() }
}

fn stored(dev: &dyn BlockDevice, copy: usize) -> RawSuperblock {
    let mut one = [Block::zeroed()];
    dev.read(SUPERBLOCK_COPIES[copy].0.into(), &mut one).unwrap();
    RawSuperblock::from_block(&one[0].0)
}

/// The feature that makes Linux refuse writes, in both copies.
pub fn marks(dev: &dyn BlockDevice) -> [bool; 2] {
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
    let rig = Rig::new();
    rig.file("f", b"content");
    rig.v.sync().unwrap();
    let dev = crashed(&rig.dev);
    assert_eq!(marks(&*dev), [true; 2]);
    for options in [unguarded(), MountOptions { journal: JournalMode::Off, ..guarded() }] {
        let dev = crashed(&dev);
        let v = Volume::mount(dev.clone(), options).unwrap();
        assert_eq!(marks(&*dev), [false; 2], "replayed, and not asked to guard");
        assert_eq!(v.lookup(Ino::ROOT, b"f").unwrap().size, 7);
        v.unmount().unwrap();
        assert_clean(&*dev);
    }
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
    let v = Volume::mount(dev.clone(), MountOptions { journal: beside(side), ..unguarded() }).unwrap();
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
        assert!(matches!(refused, Err(Error::JournalMissing(Missing::Absent { .. }))));
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
        let v = Volume::mount(dev.clone(), unguarded()).unwrap();
        assert_eq!(marks(&*dev), [false; 2], "copy {marked}");
        v.unmount().unwrap();
        assert_clean(&*dev);
    }
}

/// Flags of the checkpoint in force, and the inodes that it lists as open without a name.
fn newest(dev: &dyn BlockDevice) -> (CpFlags, usize) {
    let geo = stored(dev, 0).parse(0).unwrap().geo;
    let pack = Pack::in_force(dev, &geo).unwrap().unwrap();
    (pack.flags(), pack.orphans().flat_map(Result::unwrap).count())
}

/// Linux frees orphans and syncs quota files, and then writes a checkpoint, even if it mounts read-only.
#[test]
fn checkpoints_of_a_marked_volume_show_others_no_work() {
    let features = Features::EXTRA_ATTR | Features::PRJQUOTA | Features::QUOTA_INO | Features::LOST_FOUND;
    let work = CpFlags::ORPHAN_PRESENT | CpFlags::QUOTA_NEED_FSCK;
    for (options, shown, copies) in
        [(guarded(), CpFlags::QUOTA_NEED_FSCK, [true; 2]), (unguarded(), CpFlags::ORPHAN_PRESENT, [false; 2])]
    {
        let dev = super::format_with(96, &MkfsOptions { features, ..MkfsOptions::default() });
        let v = Volume::mount(dev.clone(), options.clone()).unwrap();
        let free = v.statfs().bfree;
        let f = v.mknod(Ino::ROOT, b"f", FILE, (0, 0), Owner::default()).unwrap().ino;
        v.open(f).unwrap();
        v.write(f, 0, &[1; 50_000]).unwrap();
        v.unlink(Ino::ROOT, b"f").unwrap();
        Probe(&v).checkpoint().unwrap();
        assert_eq!(marks(&*dev), copies);
        let (flags, orphans) = newest(&dev);
        assert_eq!((flags & work, orphans), (shown, 1));
        assert_clean(&*dev);
        // A crash: the next mount knows them, and counts quota again.
        let dev = crashed(&dev);
        let v = Volume::mount(dev.clone(), options).unwrap();
        assert_eq!(v.statfs().bfree, free);
        v.unmount().unwrap();
        assert_eq!((newest(&dev).0 & work, marks(&*dev)), (CpFlags::empty(), [false; 2]));
        assert_clean(&*dev);
        assert_clean_to_f2fs_tools(&*dev, "after a crash of a guarded volume");
    }
}

/// The mark is set before the first checkpoint that hides work, and cleared when the last one is durable.
/// After a cut between any two writes, the checkpoint's flags show all work that Linux would do, or the mark
/// keeps Linux from writing.
#[test]
fn no_cut_leaves_work_hidden_in_a_volume_without_the_mark() {
    let dev = format();
    let v = Volume::mount(dev.clone(), MountOptions { journal: JournalMode::Off, ..quiet() }).unwrap();
    let f = v.mknod(Ino::ROOT, b"f", FILE, (0, 0), Owner::default()).unwrap().ino;
    v.open(f).unwrap();
    v.unlink(Ino::ROOT, b"f").unwrap();
    v.sync().unwrap();
    assert_eq!(newest(&dev).1, 1);
    // Crashed without a journal, then mounted with one, and without one again.
    for options in [guarded(), MountOptions { journal: JournalMode::Off, ..quiet() }, unguarded()] {
        let base = dev.snapshot();
        let recorded = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
        let v = Volume::mount(recorded.clone(), guarded()).unwrap();
        v.open(v.mknod(Ino::ROOT, b"g", FILE, (0, 0), Owner::default()).unwrap().ino).unwrap();
        v.unlink(Ino::ROOT, b"g").unwrap();
        Probe(&v).checkpoint().unwrap();
        drop(v);
        let v = Volume::mount(recorded.clone(), options).unwrap();
        v.unmount().unwrap();
        let log = CrashLog::new(base, recorded.log()).unwrap();
        let (mut hidden, mut cuts) = (0, 0);
        for state in CrashStates::new(&log, CrashPlan { subsets: 4, ..CrashPlan::new(1) }, |_, _| false) {
            let (flags, orphans) = newest(&state.device);
            let is_hidden = orphans > 0 && !flags.contains(CpFlags::ORPHAN_PRESENT);
            // Linux reads the first copy.
            assert!(!is_hidden || marks(&state.device)[0], "{:?}", state.choice);
            (hidden, cuts) = (hidden + u32::from(is_hidden), cuts + 1);
        }
        println!("{cuts} states, {hidden} with hidden orphans");
        assert!(hidden > 0 && cuts > 100, "{hidden} of {cuts}");
    }
}

/// A failed write during a mount leaves no work hidden from other implementations in a volume without the
/// mark, even if the journal fails after the checkpoint of the mount was announced.
#[test]
fn no_failed_write_leaves_work_hidden_in_a_volume_without_the_mark() {
    let dev = format();
    let v = Volume::mount(dev.clone(), guarded()).unwrap();
    v.open(v.mknod(Ino::ROOT, b"g", FILE, (0, 0), Owner::default()).unwrap().ino).unwrap();
    v.unlink(Ino::ROOT, b"g").unwrap();
    Probe(&v).checkpoint().unwrap();
    let (mut hidden, mut failed) = (0, 0);
    for nth in 0.. {
        let fault = Fault { call: FaultCall::Write, nth, error: FaultError::Io, lasting: false };
        let faulty = Arc::new(FaultDevice::new(crashed(&dev), vec![fault]));
        drop(Volume::mount(faulty.clone(), guarded()));
        if faulty.failed() == 0 {
            break;
        }
        let (flags, orphans) = newest(&**faulty.inner());
        let is_hidden = orphans > 0 && !flags.contains(CpFlags::ORPHAN_PRESENT);
        assert!(!is_hidden || marks(&**faulty.inner())[0], "write {nth}");
        (hidden, failed) = (hidden + u32::from(is_hidden), failed + 1);
    }
    println!("{failed} writes, {hidden} with hidden orphans");
    assert!(hidden > 0 && failed > hidden, "{hidden} of {failed}");
}
