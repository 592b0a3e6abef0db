//! Journals that fail, are unwanted, or are stale.
use super::guard::marks;
use super::{FILE, MIB, Rig, format};
use crate::common::{assert_clean, fresh, quiet};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::options::JournalMode;
use segno_engine::{Error, JournalArea, MountOptions, Notice, Observer, Owner, Stale, Volume};
use segno_format::checkpoint::RawCheckpoint;
use segno_format::{Block, Ino, SegNo};
use segno_mkfs::MkfsOptions;
use segno_testkit::{Fault, FaultCall, FaultDevice, FaultError};
use std::sync::{Arc, Mutex};

fn external(journal: Arc<dyn BlockDevice>) -> MountOptions {
    MountOptions { journal: JournalMode::External(JournalArea::whole(journal)), ..quiet() }
}

/// Notices that an observer received.
#[derive(Clone, Default)]
struct NoticeLog(Arc<Mutex<Vec<Notice>>>);

impl NoticeLog {
    fn by(&self, opts: MountOptions) -> MountOptions {
        let heard = self.0.clone();
        MountOptions { observer: Observer::new(move |n| heard.lock().unwrap().push(n.clone())), ..opts }
    }
    fn all(&self) -> Vec<Notice> {
        self.0.lock().unwrap().clone()
    }
}

fn report(v: &Volume, name: &str) -> u64 {
    v.report().into_iter().find(|(n, _)| *n == name).unwrap().1
}

fn make(v: &Volume, name: &str) -> Ino {
    let ino = v.mknod(Ino::ROOT, name.as_bytes(), FILE, (0, 0), Owner::default()).unwrap().ino;
    v.write(ino, 0, name.as_bytes()).unwrap();
    ino
}

fn crashed(dev: &MemDevice) -> Arc<MemDevice> {
    Arc::new(MemDevice::from_snapshot(&dev.snapshot()))
}

#[test]
fn a_journal_on_its_own_device() {
    let (dev, journal) = (fresh(96, &MkfsOptions::default()), Arc::new(MemDevice::new(8 * MIB)));
    let v = Volume::mount(dev.clone(), external(journal.clone())).unwrap();
    make(&v, "f");
    v.sync().unwrap();
    let (dev, journal) = (crashed(&dev), crashed(&journal));
    for journal in [JournalMode::Off, JournalMode::Auto, external(Arc::new(MemDevice::new(8 * MIB))).journal]
    {
        let refused = Volume::mount(dev.clone(), MountOptions { journal, ..quiet() });
        assert!(matches!(refused, Err(Error::JournalNotNamed)));
    }
    let older = MountOptions { read_only: true, norecovery: true, ..quiet() };
    let without = Volume::mount(dev.clone(), older).unwrap();
    assert!(without.lookup(Ino::ROOT, b"f").is_err(), "the volume alone knows nothing of it");
    drop(without);
    let v = Volume::mount(dev.clone(), external(journal)).unwrap();
    assert!(v.lookup(Ino::ROOT, b"f").is_ok());
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn after_a_journal_failure_the_volume_continues_with_checkpoints() {
    for call in [FaultCall::Write, FaultCall::Flush] {
        for nth in 1..7 {
            let dev = fresh(96, &MkfsOptions::default());
            let journal = Arc::new(FaultDevice::new(MemDevice::new(8 * MIB), Vec::new()));
            let heard = NoticeLog::default();
            let v = Volume::mount(dev.clone(), heard.by(external(journal.clone()))).unwrap();
            journal.set_plan(vec![Fault { call, nth, error: FaultError::Io, lasting: true }]);
            for i in 0..8 {
                let ino = make(&v, &format!("f{i}"));
                v.fsync(ino).unwrap();
                // Also of the checkpoint that follows the failure.
                let after = Volume::mount(crashed(dev.as_ref()), external(crashed(journal.inner()))).unwrap();
                assert!(after.lookup(Ino::ROOT, format!("f{i}").as_bytes()).is_ok(), "f{i}, {call:?} {nth}");
            }
            assert!(!v.is_stopped());
            assert_eq!(report(&v, "journal_failed"), 1, "{call:?} {nth}");
            let told = heard.all();
            assert!(matches!(told[..], [Notice::JournalFailed(_)]), "{call:?} {nth}: {told:?}");
            assert_eq!(marks(&*dev), [false; 2], "{call:?} {nth}: a checkpoint has all that the journal had");
            journal.set_plan(Vec::new());
            let (dev, journal) = (crashed(&dev), crashed(journal.inner()));
            let v = Volume::mount(dev.clone(), external(journal)).unwrap();
            for i in 0..8 {
                assert!(v.lookup(Ino::ROOT, format!("f{i}").as_bytes()).is_ok(), "f{i}, {call:?} {nth}");
            }
            v.unmount().unwrap();
            assert_clean(&*dev);
        }
    }
}

#[test]
fn many_changes_are_committed_without_a_request() {
    let rig = Rig::new();
    let before = (rig.stat("journal_commits"), rig.stat("checkpoints"));
    for i in 0..1500 {
        rig.file(&format!("f{i}"), &[7; 3000]);
    }
    assert!(rig.stat("journal_commits") > before.0, "pending records are bounded");
    assert_eq!(rig.stat("checkpoints"), before.1, "the ring has room");
}

#[test]
fn checkpoints_keep_their_distance() {
    let rig = Rig::new();
    let before = rig.stat("checkpoints");
    let mut bytes = 0;
    for i in 0..6000u32 {
        rig.file(&format!("f{i}"), &[7; 3000]);
        if i % 50 == 0 {
            rig.v.sync().unwrap();
            bytes = rig.stat("journal_bytes");
        }
    }
    // Half a ring of 16 MiB each.
    let most = bytes / (7 << 20) + 1;
    let made = rig.stat("checkpoints") - before;
    assert!(made >= 1 && made <= most, "{made} checkpoints for {bytes} bytes");
}

#[test]
fn a_write_of_another_implementation_makes_it_stale() {
    let mut rig = Rig::new();
    rig.file("f", &[1; 9000]);
    rig.v.sync().unwrap();
    rig.dev = crashed(&rig.dev);
    // Linux continues at the checkpoint's log positions, and loses power before its first checkpoint.
    let at = position_of_warm_data(&*rig.dev, &rig.v);
    rig.dev.write(at, &[&Block([0xAA; 4096])]).unwrap();
    let heard = NoticeLog::default();
    rig.crash_into(heard.by(rig.opts.clone()));
    let told = heard.all();
    assert!(
        matches!(told[..], [Notice::JournalStale(Stale::ForeignWrite { at: a, .. })] if u64::from(a.0) == at),
        "{told:?}"
    );
    assert!(!rig.has("f"), "its blocks may be overwritten");
    rig.judge();
}

/// Position of the warm data log in the newest checkpoint.
fn position_of_warm_data(dev: &dyn BlockDevice, v: &Volume) -> u64 {
    let geo = v.superblock().geo;
    let header = |pack| {
        let mut one = [Block::zeroed()];
        dev.read(geo.pack_addr(pack).0.into(), &mut one).unwrap();
        let [block] = one;
        block
    };
    let newest =
        [header(0), header(1)].into_iter().max_by_key(|b| b.view::<RawCheckpoint>().checkpoint_ver.get());
    let block = newest.unwrap();
    let cp: &RawCheckpoint = block.view();
    let off = cp.cur_data_blkoff[1].get();
    geo.seg_start(SegNo(cp.cur_data_segno[1].get())).offset(off.into()).0.into()
}

#[test]
fn a_volume_without_a_gap_refuses_a_journal() {
    let dev = fresh(96, &MkfsOptions::default());
    let on = MountOptions { journal: JournalMode::On, ..quiet() };
    let Err(e) = Volume::mount(dev.clone(), on) else { panic!("there is no room for it") };
    assert!(e.to_string().contains("no gap behind the volume"), "{e}");
    let auto = MountOptions { journal: JournalMode::Auto, ..quiet() };
    Volume::mount(dev, auto.clone()).unwrap().unmount().unwrap();
    let v = Volume::mount(format(), auto).unwrap();
    make(&v, "f");
    v.sync().unwrap();
    assert_eq!(report(&v, "journal_commits"), 0, "none was ever made there");
}
