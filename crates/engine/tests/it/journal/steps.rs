//! Background steps with a journal: names are committed every second, data on its own schedule.
use super::{FILE, Rig, format};
use crate::common::quiet;
use segno_device::{BlockDevice, MemDevice};
use segno_engine::lab::Probe;
use segno_engine::options::JournalMode;
use segno_engine::{Background, MountOptions, Owner, Volume};
use segno_format::{Block, Ino};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

#[test]
fn a_step_commits_names_and_leaves_data_for_later() {
    let mut rig = Rig::new();
    rig.file("small", b"inline");
    rig.file("large", &[7; 100_000]);
    Probe(&rig.v).tick().unwrap();
    assert_eq!((rig.stat("data_blocks"), rig.stat("journal_commits")), (0, 1));
    let before = rig.dev.clone();
    rig.crash();
    assert_eq!(rig.content("small"), b"inline", "inline data is metadata");
    assert_eq!(rig.content("large"), b"", "no size without its data");
    rig.dev = before;
    rig.crash();
    rig.file("late", &[8; 100_000]);
    Probe(&rig.v).write_aged().unwrap();
    assert_eq!(rig.stat("data_blocks"), 25, "every page once");
    Probe(&rig.v).tick().unwrap();
    rig.crash();
    assert_eq!(rig.content("late"), [8; 100_000]);
    rig.judge();
}

/// Batches of a large file, and groups of small ones.
#[test]
fn aged_data_is_written_completely() {
    let mut rig = Rig::new();
    rig.file("large", &vec![9; 3 << 20]);
    (0..300).for_each(|n| _ = rig.file(&format!("f{n}"), &[n as u8; 5000]));
    Probe(&rig.v).write_aged().unwrap();
    assert_eq!(rig.stat("data_blocks"), 768 + 600);
    Probe(&rig.v).tick().unwrap();
    rig.crash();
    assert!(rig.content("large") == vec![9; 3 << 20]);
    assert!((0..300).all(|n| rig.content(&format!("f{n}")) == [n as u8; 5000]));
    rig.judge();
}

#[test]
fn the_threads_write_and_commit_and_stop() {
    let opts = MountOptions { journal: JournalMode::On, background: true, commit_interval: 1, ..quiet() };
    let v = Volume::mount(format(), opts).unwrap();
    let background = Background::start(&v).unwrap();
    let rig = Rig { dev: format(), v: v.clone(), opts: quiet() };
    rig.file("a", &[7; 100_000]);
    while rig.stat("data_blocks") < 25 || rig.stat("journal_commits") == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop((background, rig));
    assert_eq!(std::sync::Arc::strong_count(&v), 1);
    v.unmount().unwrap();
}

/// Records how blocks are written.
struct WriteRecorder {
    dev: Arc<MemDevice>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Number of blocks written with `write_behind`.
    behind: usize,
    /// Addresses of single-block writes.
    single: Vec<u64>,
    prepared: Vec<Range<u64>>,
}

impl BlockDevice for WriteRecorder {
    fn block_count(&self) -> u64 {
        self.dev.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.dev.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        if blocks.len() == 1 {
            self.seen.lock().unwrap().single.push(addr);
        }
        self.dev.write(addr, blocks)
    }
    fn write_behind(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.seen.lock().unwrap().behind += blocks.len();
        self.dev.write_behind(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.dev.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.dev.flush()
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.dev.discard(addr, count)
    }
    fn prepare(&self, addr: u64, count: u64) -> io::Result<()> {
        self.seen.lock().unwrap().prepared.push(addr..addr + count);
        Ok(())
    }
    fn read_only(&self) -> bool {
        false
    }
}

/// Aged data leaves nothing for the flush of an fsync; blocks of fsyncs share a separate segment.
#[test]
fn aged_data_does_not_delay_fsyncs() {
    const PAGES: usize = 100;
    let dev = Arc::new(WriteRecorder { dev: format(), seen: Mutex::default() });
    let opts = MountOptions { journal: JournalMode::On, ..quiet() };
    let v = Volume::mount(dev.clone(), opts).unwrap();
    let create = |name: &[u8]| v.mknod(Ino::ROOT, name, FILE, (0, 0), Owner::default()).unwrap().ino;
    let (mine, others) = (create(b"mine"), create(b"others"));
    for round in 1..=12 {
        v.write(others, 0, &vec![round; PAGES * 4096]).unwrap();
        Probe(&v).write_aged().unwrap();
        assert_eq!(dev.seen.lock().unwrap().behind, usize::from(round) * PAGES);
        dev.seen.lock().unwrap().single.clear();
        v.write(mine, u64::from(round) * 4096, &[round; 4096]).unwrap();
        v.fsync(mine).unwrap();
        let seen = dev.seen.lock().unwrap();
        assert_eq!(seen.behind, usize::from(round) * PAGES, "an fsync does not write behind");
        // Preparation starts after several fsyncs.
        assert_eq!(seen.prepared.len(), usize::from(round > 4), "round {round}");
        let inside = |p: &Range<u64>| seen.single.iter().any(|at| p.contains(at));
        assert!(seen.prepared.iter().all(inside), "round {round}: {:?}", seen.single);
    }
    v.unmount().unwrap();
}
