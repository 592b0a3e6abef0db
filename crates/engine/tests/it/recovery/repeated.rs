//! Power cuts during a recovery with enough inodes that it opens segments in addition to the open ones.
use super::*;
use crate::common::assert_clean_to_f2fs_tools;
use segno_engine::lab::Probe;
use segno_engine::options::JournalMode;
use segno_engine::{Notice, Observer};
use segno_mkfs::Member;
use segno_testkit::{CrashChoice, CrashLog, Event, Kept, RecordDevice, Rng};
use std::collections::BTreeSet;
use std::sync::Mutex;

const DIRS: u32 = 20;
const FILES: u32 = 2_000;
const SEED: u64 = 0x0DD5_0DD5;
/// Second cuts, each after a first one.
const PAIRS: usize = 12;

fn content(file: u32) -> Vec<u8> {
    let repeated = format!("content of file {file} ");
    // Most fit into their inodes, some have blocks.
    repeated.repeat(if file.is_multiple_of(50) { 300 } else { 3 }).into_bytes()
}

fn dir_name(dir: u32) -> String {
    format!("directory {dir}")
}

/// A volume of 256 MiB with room for a journal.
fn journaled() -> Arc<MemDevice> {
    let dev = Arc::new(MemDevice::new((256 + 64) * 256));
    let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
    let format = MkfsOptions { blocks: Some(256 * 256), ..MkfsOptions::default() };
    segno_mkfs::format(&[member], &format).unwrap();
    dev
}

/// All files, durable in the journal only.
fn fill(v: &Volume) {
    for dir in 0..DIRS {
        let at = v.mkdir(Ino::ROOT, dir_name(dir).as_bytes(), 0o755, Owner::default()).unwrap().ino;
        for file in (0..FILES).filter(|f| f % DIRS == dir) {
            let ino = create_in(v, at, &format!("file {file}"));
            v.write(ino, 0, &content(file)).unwrap();
        }
    }
    v.sync().unwrap();
}

fn damage(v: &Volume) -> Result<(), String> {
    for dir in 0..DIRS {
        let at =
            v.lookup(Ino::ROOT, dir_name(dir).as_bytes()).map_err(|e| format!("directory {dir}: {e}"))?;
        for file in (0..FILES).filter(|f| f % DIRS == dir) {
            let found = v.lookup(at.ino, format!("file {file}").as_bytes());
            let ino = found.map_err(|e| format!("file {file}: {e}"))?.ino;
            let mut bytes = vec![0; 10_000];
            let len = v.read(ino, 0, &mut bytes).map_err(|e| format!("file {file}: {e}"))?;
            if bytes[..len] != content(file) {
                return Err(format!("file {file} has {len} other bytes"));
            }
        }
    }
    Ok(())
}

fn recover(from: &MemDevice, opts: &MountOptions) -> Result<CrashLog, String> {
    recover_and(from, opts, damage)
}

/// Recovers a device. Returns what that wrote, or what is wrong.
fn recover_and(
    from: &MemDevice,
    opts: &MountOptions,
    judge: impl Fn(&Volume) -> Result<(), String>,
) -> Result<CrashLog, String> {
    let base = from.snapshot();
    let dev = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
    let heard: Arc<Mutex<Vec<Notice>>> = Arc::default();
    let hear = heard.clone();
    let observer = Observer::new(move |notice: &Notice| hear.lock().unwrap().push(notice.clone()));
    let opts = MountOptions { observer, ..opts.clone() };
    let v = Volume::mount(dev.clone(), opts).map_err(|e| format!("it does not mount: {e}"))?;
    let log = CrashLog::new(base, dev.log()).unwrap();
    judge(&v)?;
    let heard = heard.lock().unwrap();
    if heard.is_empty() { Ok(log) } else { Err(format!("the user is told {heard:?}")) }
}

/// Before each write, and after the last.
fn prefixes(log: &CrashLog) -> Vec<CrashChoice> {
    let changes = (0..).zip(log.events()).filter(|(_, e)| !matches!(e, Event::Flush { .. } | Event::Mark(_)));
    changes
        .map(|(cut, _)| cut)
        .chain([log.events().len()])
        .map(|cut| CrashChoice { cut, kept: Kept::All, torn: None })
        .collect()
}

/// Segments of the main area that are written.
fn segments(log: &CrashLog, geo: &segno_format::Geometry) -> BTreeSet<u32> {
    let of = |e: &Event| match e {
        Event::Write { addr, blocks, .. } => (0..blocks.len() as u64)
            .filter_map(|i| geo.seg_of(segno_format::BlockAddr((addr + i) as u32)))
            .map(|(seg, _)| seg.0)
            .collect(),
        _ => Vec::new(),
    };
    log.events().iter().flat_map(of).collect()
}

#[test]
fn recovery_of_a_large_journal_can_be_cut_after_any_write_and_again() {
    let dev = journaled();
    let opts = MountOptions { journal: JournalMode::On, ..quiet() };
    let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
    fill(&v);
    let geo = v.superblock().geo;
    let crashed = MemDevice::from_snapshot(&dev.snapshot());
    let log = recover(&crashed, &opts).unwrap();
    let cuts = prefixes(&log);
    // Two logs of nodes, one of directory blocks, and three more of files' inodes.
    let opened = segments(&log, &geo);
    assert!(opened.len() >= 6 && cuts.len() > 20, "{opened:?}, {} cuts", cuts.len());
    let mut lost = Vec::new();
    let mut rng = Rng::new(SEED);
    let twice: BTreeSet<usize> = (0..PAIRS).map(|_| rng.below(cuts.len() as u64) as usize).collect();
    for (i, first) in cuts.iter().enumerate() {
        let image = log.image(first);
        let again = match recover(&image, &opts) {
            Ok(log) => log,
            Err(what) => {
                lost.push(format!("{first}: {what}"));
                continue;
            }
        };
        if i % 8 == 5 {
            let dev = Arc::new(log.image(first));
            assert_clean_to_f2fs_tools(&*dev, &format!("{first}"));
            Volume::mount(dev.clone(), opts.clone()).unwrap().unmount().unwrap();
            assert_clean_to_f2fs_tools(&*dev, &format!("{first}, recovered"));
        }
        if !twice.contains(&i) {
            continue;
        }
        let seconds = prefixes(&again);
        let second = &seconds[rng.below(seconds.len() as u64) as usize];
        if let Err(what) = recover(&again.image(second), &opts) {
            lost.push(format!("{first}; then {second}: {what}"));
        }
    }
    assert!(lost.is_empty(), "seed {SEED}, {} of {}:\n{}", lost.len(), cuts.len(), lost.join("\n"));
}

/// The journal that the first recovery makes has no record, so it is no evidence about the fsyncs of the
/// chain.
#[test]
fn a_journal_made_by_a_recovery_that_was_cut_is_not_taken_for_that_of_another_mount() {
    let dev = journaled();
    let v = Volume::mount(dev.clone(), quiet()).unwrap();
    let inos = ["a", "b"].map(|name| create_in(&v, Ino::ROOT, name));
    Probe(&v).checkpoint().unwrap();
    for ino in inos {
        v.write(ino, 0, &pattern(3, 3 * BLOCK)).unwrap();
        v.fsync(ino).unwrap();
    }
    let crashed = MemDevice::from_snapshot(&dev.snapshot());
    let opts = MountOptions { journal: JournalMode::On, ..quiet() };
    let intact = |v: &Volume| {
        let same = inos.iter().all(|&ino| content_of(v, ino) == pattern(3, 3 * BLOCK));
        if same { Ok(()) } else { Err("other bytes".to_owned()) }
    };
    let log = recover_and(&crashed, &opts, intact).unwrap();
    for cut in prefixes(&log) {
        let again = recover_and(&log.image(&cut), &opts, intact);
        assert!(again.is_ok(), "{cut}: {}", again.unwrap_err());
    }
}

/// The segment of the checkpoint's only data gets a block of the journal after replay has freed the rest.
#[test]
fn a_cut_of_recovery_leaves_the_checkpoint_its_owners_of_blocks() {
    let dev = journaled();
    let opts = MountOptions { journal: JournalMode::On, ..quiet() };
    let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
    let old = create_in(&v, Ino::ROOT, "old");
    v.write(old, 0, &pattern(1, 5 * BLOCK)).unwrap();
    v.fsync(old).unwrap();
    Probe(&v).checkpoint().unwrap();
    let new = create_in(&v, Ino::ROOT, "new");
    v.write(new, 0, &pattern(2, 5 * BLOCK)).unwrap();
    v.fsync(new).unwrap();
    let segment =
        |ino| v.superblock().geo.seg_of(segno_format::BlockAddr(v.extents(ino).unwrap()[0].addr)).unwrap().0;
    assert_eq!(segment(old), segment(new));
    v.setattr(old, &SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
    v.sync().unwrap();
    let base = dev.snapshot();
    let dev = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
    Volume::mount(dev.clone(), opts).unwrap();
    let log = CrashLog::new(base, dev.log()).unwrap();
    for cut in prefixes(&log) {
        assert_clean(&log.image(&cut));
    }
}
