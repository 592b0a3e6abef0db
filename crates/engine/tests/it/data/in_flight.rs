//! A change of pages whose flush is under way. The flush took the old content, so the pages are dirty afterwards, and the
//! next fsync makes the change durable. Of a packed cluster all of its pages are written once more.
use super::BLOCK;
use crate::common::{fresh, quiet};
use segno_codec::Algorithm;
use segno_device::MemDevice;
use segno_engine::lab::Probe;
use segno_engine::options::JournalMode;
use segno_engine::{Compression, FallocMode, MountOptions, Owner, Result, Volume};
use segno_format::{Features, Ino};
use segno_mkfs::MkfsOptions;
use segno_testkit::{PauseDevice, Rng};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Four clusters of four blocks.
const LEN: usize = 16 * BLOCK as usize;
/// Device calls of one flush in which a change is tried.
const CALLS: u64 = 3;
/// The flush continues after this time if the change waits for it.
const STUCK: Duration = Duration::from_millis(40);

type Flush = fn(&Volume, Ino) -> Result<()>;

const FLUSHES: [(&str, Flush); 3] = [
    ("fsync", |v, ino| v.fsync(ino, false)),
    ("sync", |v, _| v.sync()),
    ("writeback", |v, ino| Probe(v).write_back(ino, 0, 1024).map(|_| ())),
];

/// A change of the file, and the same of its expected content.
type Change = (&'static str, fn(&Volume, Ino) -> Result<()>, fn(&mut Vec<u8>));

fn write(v: &Volume, ino: Ino, at: u64, len: usize) -> Result<()> {
    v.write(ino, at, &vec![b'n'; len]).map(|n| assert_eq!(n, len))
}

fn fill(content: &mut Vec<u8>, at: usize, len: usize, byte: u8) {
    content.resize(content.len().max(at + len), 0);
    content[at..at + len].fill(byte);
}

const CHANGES: [Change; 5] = [
    ("a whole page", |v, ino| write(v, ino, 5 * BLOCK, 4096), |c| fill(c, 5 * 4096, 4096, b'n')),
    ("part of a page", |v, ino| write(v, ino, 6 * BLOCK + 100, 7), |c| fill(c, 6 * 4096 + 100, 7, b'n')),
    ("all pages", |v, ino| write(v, ino, 0, LEN), |c| fill(c, 0, LEN, b'n')),
    ("an appended page", |v, ino| write(v, ino, LEN as u64, 4096), |c| fill(c, LEN, 4096, b'n')),
    (
        "a hole",
        |v, ino| v.fallocate(ino, FallocMode::PunchHole, 9 * BLOCK, BLOCK),
        |c| fill(c, 9 * 4096, 4096, 0),
    ),
];

/// The content of a file, and whether it is compressed.
fn kinds() -> [(&'static str, bool, Vec<u8>); 3] {
    let mut rng = Rng::new(0x1F_0001);
    let noise: Vec<u8> = (0..LEN).map(|_| rng.draw() as u8).collect();
    let pattern = (0..LEN).map(|i| (i % 61) as u8).collect();
    [("plain", false, noise.clone()), ("packed", true, pattern), ("compressed, with noise", true, noise)]
}

fn options(compressed: bool, journal: &JournalMode) -> MountOptions {
    let extensions = if compressed { vec!["*".into()] } else { vec![] };
    let compression =
        Compression { algorithm: Algorithm::Lz4, log_cluster: 2, extensions, ..Compression::default() };
    MountOptions { compression, journal: journal.clone(), ..quiet() }
}

/// Content after a flush with a change in one of its device calls, an fsync and a power cut, and whether
/// the change ended inside this call.
fn after_cut(
    start: &MemDevice,
    opts: &MountOptions,
    content: &[u8],
    flush: Flush,
    change: &Change,
    call: u64,
) -> (Vec<u8>, bool) {
    let device = Arc::new(PauseDevice::new(MemDevice::from_snapshot(&start.snapshot())));
    let v = Volume::mount(device.clone(), opts.clone()).unwrap();
    let ino = v.mknod(v.root(), b"f", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    v.write(ino, 0, content).unwrap();
    let (report, ended) = channel();
    let (in_hook, done) = channel();
    let (of_change, run) = (v.clone(), change.1);
    device.set_hook(call, move || {
        let changer = thread::spawn(move || {
            run(&of_change, ino).unwrap();
            let _flush_went_on = report.send(());
        });
        let inside = ended.recv_timeout(STUCK).is_ok();
        in_hook.send((changer, inside)).unwrap();
    });
    flush(&v, ino).unwrap();
    device.clear_hook();
    let inside = match done.try_recv() {
        Ok((changer, inside)) => {
            changer.join().unwrap();
            inside
        }
        // The flush has fewer calls.
        Err(_) => {
            run(&v, ino).unwrap();
            false
        }
    };
    v.fsync(ino, false).unwrap();
    let cut = Arc::new(MemDevice::from_snapshot(&device.inner().snapshot()));
    let after = Volume::mount(cut, opts.clone()).unwrap();
    let attr = after.lookup(after.root(), b"f").unwrap();
    let mut bytes = vec![0; attr.size as usize];
    assert_eq!(after.read(attr.ino, 0, &mut bytes).unwrap(), bytes.len());
    (bytes, inside)
}

#[test]
fn a_change_during_a_flush_survives_the_next_fsync() {
    let features = Features::EXTRA_ATTR | Features::COMPRESSION;
    let format = MkfsOptions { features, gap_blocks: 1024, ..MkfsOptions::default() };
    for (kind, compressed, content) in kinds() {
        let mut inside = 0;
        for journal in [JournalMode::Off, JournalMode::On] {
            let opts = options(compressed, &journal);
            let start = fresh(64, &format);
            for (flush_name, flush) in FLUSHES {
                for (change, call) in CHANGES.iter().flat_map(|c| (0..CALLS).map(move |call| (c, call))) {
                    let (found, ended) = after_cut(&start, &opts, &content, flush, change, call);
                    let mut expected = content.clone();
                    change.2(&mut expected);
                    let context = format!("{kind}, {journal:?}, {flush_name}, {} in call {call}", change.0);
                    assert!(found == expected, "{context}");
                    inside += u32::from(ended);
                }
            }
        }
        assert!(inside >= 20, "{kind}: only {inside} changes ended inside a flush");
    }
}
