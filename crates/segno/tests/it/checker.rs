//! From changes left by a crash, and from damage, to the repaired volume.
use super::{finish, volume};
use segno::{
    BlockDevice, CheckOptions, Checker, Device, FormatOptions, Judged, MountOptions, PendingReplay,
    ProblemKind, Volume,
};
use segno_device::MemDevice;
use segno_format::Block;
use segno_format::inode::RawInode;
use segno_format::node::RawNode;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCKS: u64 = 16 << 10;

fn judged(checker: &Checker) -> Judged {
    checker.check(&CheckOptions::default(), |_| ()).unwrap()
}

#[test]
fn what_a_crash_left_is_judged_in_memory_and_replayed_on_request() {
    let (volume, device) = volume();
    let panicked = std::thread::spawn(move || {
        let file = volume.create_file("/synced").unwrap();
        file.write_at(b"kept", 0).unwrap();
        file.sync_all().unwrap();
        panic!("as a caller does");
    });
    assert!(panicked.join().is_err());
    let checker = Checker::new(&device).quick(true);
    assert_eq!(checker.pending_in_journal().unwrap(), PendingReplay::Nothing);
    for _ in 0..2 {
        let found = judged(&checker);
        assert!(found.is_clean() && found.replayed && !found.quick && !found.is_repairable());
        assert_eq!((found.report.summary.files, found.report.summary.roll_forward.fsynced), (1, 0));
    }
    assert!(segno::check(&device).unwrap().summary.roll_forward.fsynced > 0, "nothing was written");
    checker.replay().unwrap();
    let found = judged(&checker);
    assert!(found.is_clean() && !found.replayed && found.quick);
    let volume = Volume::open(&device).unwrap();
    assert_eq!(volume.read("/synced").unwrap(), b"kept");
    assert_eq!(checker.replay().unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    finish(volume, &device);
}

#[test]
fn damage_is_repaired_as_planned_and_not_before() {
    let storage = Arc::new(MemDevice::new(BLOCKS));
    let device = Device::from(storage.clone() as Arc<dyn BlockDevice>);
    segno::format(&device, &FormatOptions::default()).unwrap();
    let volume = Volume::open(&device).unwrap();
    volume.write("/file", "content").unwrap();
    let ino = volume.metadata("/file").unwrap().ino();
    volume.close().unwrap();
    let mut block = [Block::zeroed()];
    for addr in 0..BLOCKS {
        storage.read(addr, &mut block).unwrap();
        let footer = block[0].view::<RawNode>().footer;
        if (footer.nid.get(), footer.ino.get()) == (ino, ino) {
            block[0].view_mut::<RawInode>().i_links.set(9);
            storage.write(addr, &[&block[0]]).unwrap();
        }
    }
    let checker = Checker::new(&device);
    let found = judged(&checker);
    assert!(found.report.has(ProblemKind::InodeLinks) && found.is_repairable() && !found.is_clean());
    assert_eq!((found.replay_error(), found.lost_checkpoint(), found.keeps_journal()), (None, None, None));
    let plan = checker.plan_repair(&found, true).unwrap();
    assert!(!plan.has_loss() && plan.addresses().count() > 0, "{:?}", plan.actions);
    assert_eq!(judged(&checker).report.errors, found.report.errors, "nothing was written");
    checker.repair(&plan).unwrap();
    assert!(judged(&checker).is_clean());
    let volume = Volume::open(&device).unwrap();
    assert_eq!(volume.read("/file").unwrap(), b"content");
    finish(volume, &device);
}

#[test]
fn a_journal_of_another_volume_or_none_is_refused_by_every_call() {
    let [mine, other, journal, blank] = [(); 4].map(|()| Device::in_memory(64 << 20));
    for device in [&mine, &other] {
        segno::format(device, &FormatOptions::default()).unwrap();
    }
    let volume = Volume::open_with(&other, &MountOptions::new().journal(&journal)).unwrap();
    volume.write("/file", "x").unwrap();
    volume.close().unwrap();
    let of = |device, journal| Checker::new(device).journal(journal);
    assert_eq!(of(&other, &journal).verify_journal().unwrap(), None);
    for (wrong, why) in [(&journal, "it belongs to another volume"), (&blank, "no journal")] {
        let checker = of(&mine, wrong);
        let plan = Checker::new(&mine).check(&CheckOptions::default(), |_| ()).unwrap();
        let said = [
            checker.verify_journal().map(drop),
            checker.check(&CheckOptions::default(), |_| ()).map(drop),
            checker.pending_in_journal().map(drop),
            checker.plan_repair(&plan, true).map(drop),
            checker.replay(),
        ];
        for done in said {
            let e = done.unwrap_err();
            let all = e.source().map(ToString::to_string).unwrap_or_default();
            assert!(all.contains("the external journal cannot be used: ") && all.contains(why), "{e}: {all}");
            assert_eq!(e.kind(), std::io::ErrorKind::InvalidInput);
        }
    }
    // Nothing was written to the one that is empty.
    assert!(of(&mine, &blank).verify_journal().is_err());
}

/// Counts the reads of the superblocks of the journal after the end of a volume.
struct Opened {
    inner: MemDevice,
    end: u64,
    times: AtomicU64,
}

impl BlockDevice for Opened {
    segno_testkit::forward!(inner: block_count, write, write_fua, flush, discard, read_only);

    fn read(&self, addr: u64, into: &mut [Block]) -> std::io::Result<()> {
        if addr == self.end {
            self.times.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.read(addr, into)
    }
}

#[test]
fn a_check_reads_the_journal_once() {
    let storage =
        Arc::new(Opened { inner: MemDevice::new(BLOCKS + 4096), end: BLOCKS, times: AtomicU64::new(0) });
    let device = Device::from(storage.clone() as Arc<dyn BlockDevice>);
    let member = segno_mkfs::Member { device: storage.clone(), path: String::new(), zeroed: true };
    let options = segno_mkfs::MkfsOptions { blocks: Some(BLOCKS), ..Default::default() };
    segno_mkfs::format(&[member], &options).unwrap();
    let volume = Volume::open_with(&device, &"journal=on".parse().unwrap()).unwrap();
    volume.write("/file", "content").unwrap();
    volume.close().unwrap();
    for quick in [true, false] {
        let before = storage.times.load(Ordering::Relaxed);
        let found = judged(&Checker::new(&device).quick(quick));
        assert!(found.is_clean() && found.quick == quick);
        assert_eq!(storage.times.load(Ordering::Relaxed) - before, 1, "quick: {quick}");
    }
}
