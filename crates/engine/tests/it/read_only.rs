//! Read-only mounts after a crash: they show what was fsynced, and write nothing.
use crate::common::quiet;
use segno_device::{BlockDevice, MemDevice, MultiDevice, Overlay, Zone, ZoneLimits};
use segno_engine::lab::Probe;
use segno_engine::options::JournalMode;
use segno_engine::{
    Compression, Error, JournalArea, MountOptions, Notice, Observer, Owner, SetAttr, Stale, Volume,
    give_up_journal,
};
use segno_format::checkpoint::newer_pack;
use segno_format::superblock::RawSuperblock;
use segno_format::{Block, Features, Ino};
use segno_journal::Journal;
use segno_mkfs::{Member, MkfsOptions, format};
use segno_testkit::{ZoneShape, ZonedDevice};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 256;
const FILES: usize = 40;

/// Counts every call that would change the device, and carries out the first `allowed`.
struct Sealed {
    inner: Arc<dyn BlockDevice>,
    allowed: u64,
    changes: AtomicU64,
    read_only: bool,
}

impl Sealed {
    fn new(inner: Arc<dyn BlockDevice>, read_only: bool) -> Arc<Self> {
        Arc::new(Self { inner, allowed: 0, changes: AtomicU64::new(0), read_only })
    }

    /// A power cut after that many changes.
    fn cut(inner: Arc<dyn BlockDevice>, allowed: u64) -> Arc<Self> {
        Arc::new(Self { inner, allowed, changes: AtomicU64::new(0), read_only: false })
    }

    fn change(&self, carry_out: impl FnOnce(&dyn BlockDevice) -> io::Result<()>) -> io::Result<()> {
        let before = self.changes.fetch_add(1, Ordering::Relaxed);
        if before < self.allowed { carry_out(&*self.inner) } else { Err(io::ErrorKind::Other.into()) }
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

impl BlockDevice for Sealed {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.change(|d| d.write(addr, blocks))
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.change(|d| d.write_fua(addr, blocks))
    }
    fn flush(&self) -> io::Result<()> {
        self.change(|d| d.flush())
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.change(|d| d.discard(addr, count))
    }
    fn prepare(&self, addr: u64, count: u64) -> io::Result<()> {
        self.change(|d| d.prepare(addr, count))
    }
    fn read_only(&self) -> bool {
        self.read_only
    }
    fn zones(&self) -> io::Result<Vec<Zone>> {
        self.inner.zones()
    }
    fn zone_limits(&self) -> ZoneLimits {
        self.inner.zone_limits()
    }
    fn reset_zone(&self, start: u64) -> io::Result<()> {
        self.change(|d| d.reset_zone(start))
    }
    fn finish_zone(&self, start: u64) -> io::Result<()> {
        self.change(|d| d.finish_zone(start))
    }
}

/// Storage of a volume, and how it is mounted.
struct Storage {
    device: Arc<dyn BlockDevice>,
    /// Device of an external journal.
    side: Option<Arc<dyn BlockDevice>>,
    options: MountOptions,
}

impl Storage {
    /// Options of a mount with another device for the external journal, if one is given.
    fn options(&self, side: Option<Arc<dyn BlockDevice>>) -> MountOptions {
        let journal = match side {
            Some(side) => JournalMode::External(JournalArea::whole(side)),
            None => self.options.journal.clone(),
        };
        MountOptions { journal, ..self.options.clone() }
    }

    /// Files that are fsynced and lost their server, with names and content.
    fn crash(&self) -> Vec<(String, Vec<u8>)> {
        let volume = Volume::mount(self.device.clone(), self.options(self.side.clone())).unwrap();
        (0..FILES).map(|i| fsynced(&volume, i)).collect()
    }
}

/// The contents differ in length: inline, one block, several.
fn fsynced(volume: &Volume, i: usize) -> (String, Vec<u8>) {
    let (name, content) = (format!("file{i:02}"), vec![i as u8 + 1; 1 + i * i * 40]);
    let ino = volume.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    assert_eq!(volume.write(ino, 0, &content).unwrap(), content.len());
    volume.fsync(ino).unwrap();
    (name, content)
}

fn formatted(members: &[Arc<dyn BlockDevice>], options: &MkfsOptions) {
    let member = |d: &Arc<dyn BlockDevice>| Member { device: d.clone(), path: "m".into(), zeroed: true };
    format(&members.iter().map(member).collect::<Vec<_>>(), options).unwrap();
}

fn memory(mib: u64) -> Arc<dyn BlockDevice> {
    Arc::new(MemDevice::new(mib * MIB))
}

fn chain() -> Storage {
    let device = memory(96);
    formatted(std::slice::from_ref(&device), &MkfsOptions::default());
    Storage { device, side: None, options: quiet() }
}

fn journal_with(options: MkfsOptions, mount: MountOptions) -> Storage {
    let device = memory(112);
    formatted(std::slice::from_ref(&device), &MkfsOptions { blocks: Some(96 * MIB), ..options });
    Storage { device, side: None, options: MountOptions { journal: JournalMode::On, ..mount } }
}

fn journal() -> Storage {
    journal_with(MkfsOptions::default(), quiet())
}

fn compressed() -> Storage {
    let features = Features::EXTRA_ATTR | Features::COMPRESSION;
    let compression = Compression { extensions: vec!["*".into()], ..Compression::default() };
    journal_with(MkfsOptions { features, ..MkfsOptions::default() }, MountOptions { compression, ..quiet() })
}

fn external() -> Storage {
    Storage { side: Some(memory(16)), ..chain() }
}

fn several() -> Storage {
    let members = [memory(64), memory(64)];
    formatted(&members, &MkfsOptions::default());
    let device = Arc::new(MultiDevice::new(members.map(|m| (m, 64 * MIB)).to_vec()).unwrap());
    Storage { device, side: None, options: quiet() }
}

fn zoned() -> Storage {
    let limits = ZoneLimits { open: 8, active: 8 };
    let shape = ZoneShape { zones: 42, conventional: 9, blocks: 512, capacity: 512, limits };
    let device: Arc<dyn BlockDevice> = Arc::new(ZonedDevice::new(shape));
    let options = MkfsOptions {
        zoned: true,
        overprovision_percent: Some(20.0),
        reserved_sections: Some(8),
        ..MkfsOptions::default()
    };
    formatted(std::slice::from_ref(&device), &options);
    Storage { device, side: None, options: quiet() }
}

type Made = (&'static str, fn() -> Storage);
const ALL: [Made; 6] = [
    ("chain", chain),
    ("journal", journal),
    ("external journal", external),
    ("journal of compressed files", compressed),
    ("chain on several devices", several),
    ("chain on a zoned device", zoned),
];

fn heard() -> (Observer, Arc<Mutex<Vec<Notice>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let to = heard.clone();
    (Observer::new(move |n| to.lock().unwrap().push(n.clone())), heard)
}

fn content(volume: &Volume, name: &str) -> Vec<u8> {
    let ino = volume.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
    let mut bytes = vec![0; volume.getattr(ino).unwrap().size as usize];
    assert_eq!(volume.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Mounts read-only, on a device that may be written and on one that may not, and compares.
fn judge(case: &str, storage: &Storage, files: &[(String, Vec<u8>)]) {
    for read_only in [false, true] {
        let device = Sealed::new(storage.device.clone(), read_only);
        let side = storage.side.clone().map(|side| Sealed::new(side, read_only));
        let (observer, heard) = heard();
        let options = storage.options(side.clone().map(|s| s as _));
        let options = MountOptions { read_only: true, guard: true, background: true, observer, ..options };
        let volume = Volume::mount(device.clone(), options).unwrap();
        assert_eq!(*heard.lock().unwrap(), [Notice::RecoveredInMemory], "{case}");
        for (name, expected) in files {
            assert!(content(&volume, name) == *expected, "{case}: {name}");
        }
        let ino = volume.lookup(Ino::ROOT, b"file00").unwrap().ino;
        assert!(matches!(volume.write(ino, 0, b"x"), Err(Error::ReadOnly)), "{case}");
        assert!(matches!(volume.set_label("x"), Err(Error::ReadOnly)), "{case}");
        volume.fsync(ino).unwrap();
        volume.sync().unwrap();
        volume.unmount().unwrap();
        assert_eq!((device.changes(), side.map_or(0, |s| s.changes())), (0, 0), "{case}");
    }
}

#[test]
fn a_read_only_mount_shows_what_was_fsynced_and_writes_nothing() {
    for (case, storage) in ALL {
        let storage = storage();
        let files = storage.crash();
        assert_eq!(files.len(), FILES);
        judge(case, &storage, &files);
        // The next writable mount finds all of it.
        let volume = Volume::mount(storage.device.clone(), storage.options(storage.side.clone())).unwrap();
        for (name, expected) in &files {
            assert!(content(&volume, name) == *expected, "{case}: {name}");
        }
    }
}

/// The recovery of the writable mount after the first cut is cut off at each of its writes.
#[test]
fn a_read_only_mount_shows_it_after_a_second_cut() {
    for (case, storage) in ALL {
        let storage = storage();
        let files = storage.crash();
        for allowed in 0.. {
            let scratch = Overlay::new(storage.device.clone());
            let device: Arc<dyn BlockDevice> = Arc::new(scratch);
            let side = storage.side.clone().map(|s| Arc::new(Overlay::new(s)) as Arc<dyn BlockDevice>);
            let second = Storage { device, side, options: storage.options.clone() };
            let cut = Sealed::cut(second.device.clone(), allowed);
            let mounted = Volume::mount(cut.clone(), second.options(second.side.clone()));
            let whole = mounted.is_ok() && cut.changes() <= allowed;
            drop(mounted);
            let options = second.options(second.side.clone());
            let read_only = MountOptions { read_only: true, ..options };
            let volume = Volume::mount(second.device.clone(), read_only)
                .unwrap_or_else(|e| panic!("{case}, cut after {allowed}: {e}"));
            for (name, expected) in &files {
                assert!(content(&volume, name) == *expected, "{case}, cut after {allowed}: {name}");
            }
            if whole {
                break;
            }
        }
    }
}

#[test]
fn norecovery_shows_the_checkpoint() {
    for (case, storage) in ALL {
        let storage = storage();
        storage.crash();
        let side = storage.side.clone();
        let options = MountOptions { norecovery: true, ..storage.options(side.clone()) };
        let refused = Volume::mount(Sealed::new(storage.device.clone(), false), options.clone());
        assert!(matches!(refused, Err(Error::Invalid(_))), "{case}");
        let device = Sealed::new(storage.device.clone(), false);
        let volume = Volume::mount(device.clone(), MountOptions { read_only: true, ..options }).unwrap();
        assert!(matches!(volume.lookup(Ino::ROOT, b"file39"), Err(Error::NotFound)), "{case}");
        assert_eq!(device.changes(), 0, "{case}");
    }
}

/// More than 64 MiB of nodes change by records of a few bytes each.
#[test]
fn recovery_in_memory_has_a_limit() {
    let device = memory(468);
    let options = MkfsOptions { blocks: Some(448 * MIB), ..MkfsOptions::default() };
    formatted(std::slice::from_ref(&device), &options);
    let mount = MountOptions { journal: JournalMode::On, cache_bytes: 2 << 30, ..quiet() };
    let volume = Volume::mount(device.clone(), mount.clone()).unwrap();
    let create = |i: u32| {
        let name = i.to_string();
        volume.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap().ino
    };
    let files: Vec<Ino> = (0..24_000).map(create).collect();
    Probe(&volume).checkpoint().unwrap();
    let before = volume.stats().checkpoints.load(Ordering::Relaxed);
    for ino in files {
        volume.setattr(ino, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    }
    volume.sync().unwrap();
    let checkpoints = volume.stats().checkpoints.load(Ordering::Relaxed);
    assert_eq!(checkpoints, before, "the journal has all of it");
    drop(volume);
    let read_only = MountOptions { read_only: true, cache_bytes: 1 << 20, ..mount };
    let refused = Volume::mount(Sealed::new(device.clone(), false), read_only.clone()).err().unwrap();
    assert!(matches!(refused, Error::RecoveryMemory(64..80)), "{refused}");
    assert!(refused.to_string().contains("mount the volume writable once"), "{refused}");
    let larger = MountOptions { cache_bytes: 256 << 20, ..read_only };
    let volume = Volume::mount(Sealed::new(device, false), larger).unwrap();
    assert_eq!(volume.lookup(Ino::ROOT, b"23999").unwrap().mode & 0o777, 0o600);
}

/// After a change of one byte in the newest checkpoint only the older one is left, which the journal does not
/// follow.
#[test]
fn a_journal_ahead_of_its_volume_is_not_given_up() {
    for (case, storage) in [("journal", journal()), ("external journal", external())] {
        let options = storage.options(storage.side.clone());
        let volume = Volume::mount(storage.device.clone(), options.clone()).unwrap();
        let first = fsynced(&volume, 0);
        Probe(&volume).checkpoint().unwrap();
        let (second, third) = (fsynced(&volume, 1), fsynced(&volume, 2));
        Probe(&volume).checkpoint().unwrap();
        let last = fsynced(&volume, 3);
        drop(volume);
        damage_newest_pack(&*storage.device);
        let sealed = Sealed::new(storage.device.clone(), false);
        let refused = Volume::mount(sealed.clone(), options.clone()).err().unwrap();
        let Error::JournalAhead(Stale::AheadOfVolume { journal, volume, records, inodes }) = refused else {
            panic!("{case}: {refused}")
        };
        assert_eq!((journal, inodes, refused.errno()), (volume + 1, 2, 117), "{case}");
        assert!(records > 2 && !refused.to_string().contains("mkfs"), "{case}: {refused}");
        let (observer, heard) = heard();
        let read_only = MountOptions { read_only: true, observer, ..options.clone() };
        let shown = Volume::mount(sealed.clone(), read_only).unwrap();
        assert!(matches!(heard.lock().unwrap()[..], [Notice::JournalAhead(_)]), "{case}");
        assert_eq!(content(&shown, &first.0), first.1, "{case}");
        for (name, _) in [&second, &third, &last] {
            assert!(shown.lookup(Ino::ROOT, name.as_bytes()).is_err(), "{case}: {name}");
        }
        assert_eq!(sealed.changes(), 0, "{case}");
        let area = match &options.journal {
            JournalMode::External(area) => area.clone(),
            _ => JournalArea::tail(storage.device.clone(), 96 * MIB).unwrap(),
        };
        Journal::discard(&area).unwrap();
        assert!(give_up_journal(storage.device.clone()).unwrap(), "{case}: the mark is gone");
        Volume::mount(storage.device.clone(), options).unwrap().unmount().unwrap();
    }
}

/// Changes a byte at the end of the header of the pack in force.
fn damage_newest_pack(device: &dyn BlockDevice) {
    let read = |at: u64| {
        let mut one = [Block::zeroed()];
        device.read(at, &mut one).unwrap();
        let [block] = one;
        block
    };
    let sb = RawSuperblock::from_block(&read(0).0).parse(0).unwrap();
    let at = |pack: usize| u64::from(sb.geo.pack_addr(pack).0);
    let version = |pack: usize| u64::from_le_bytes(read(at(pack)).0[..8].try_into().unwrap());
    let newest = newer_pack(Some(version(0)), Some(version(1))).unwrap();
    let mut block = read(at(newest));
    block.0[16] ^= 1;
    device.write(at(newest), &[&block]).unwrap();
}
