//! An fsync that waits for a checkpoint uses the checkpoint's flush.
use super::{Hook, Journal, create};
use crate::common::fresh;
use segno_device::{BlockDevice, MemDevice};
use segno_engine::Volume;
use segno_engine::lab::Probe;
use segno_engine::options::FsyncMode;
use segno_format::{Block, Ino};
use segno_mkfs::MkfsOptions;
use segno_testkit::forward;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// Runs a hook before a write, and another before a durable one, which is the last of a checkpoint. Counts flushes.
struct Hooked {
    memory: MemDevice,
    write: Mutex<Option<Hook>>,
    durable_write: Mutex<Option<Hook>>,
    flushes: AtomicU64,
}

impl Hooked {
    fn run(hook: &Mutex<Option<Hook>>) {
        let hook = hook.lock().unwrap().take();
        hook.into_iter().for_each(|f| f());
    }
}

impl BlockDevice for Hooked {
    forward!(memory: block_count, read, discard, read_only);

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        Self::run(&self.write);
        self.memory.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        Self::run(&self.durable_write);
        self.memory.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.memory.flush()
    }
}

/// Starts an fsync and returns once it waits.
fn fsync_until_it_waits(v: Arc<Volume>, file: Ino) -> thread::JoinHandle<()> {
    let task = Arc::new(OnceLock::new());
    let own = task.clone();
    let fsync = thread::spawn(move || {
        own.get_or_init(|| fs::read_link("/proc/thread-self").unwrap());
        v.fsync(file, false).unwrap();
    });
    let waits = || {
        let status = task.get().map(|task| format!("/proc/{}/stat", task.display()));
        let status = status.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        status.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
    };
    while !waits() {
        assert!(!fsync.is_finished(), "the fsync did not wait for the checkpoint");
        thread::sleep(Duration::from_millis(1));
    }
    fsync
}

/// Flushes of an fsync that waits for a checkpoint, and of the checkpoint. Between the two flushes of the checkpoint
/// another file is written.
fn flushes(mode: FsyncMode, change_during_it: bool) -> u64 {
    let memory = MemDevice::from_snapshot(&fresh(96, &MkfsOptions::default()).snapshot());
    let (write, durable_write, flushes) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
    let dev = Arc::new(Hooked { memory, write, durable_write, flushes });
    let mut options = Journal::Without.options();
    options.fsync_mode = mode;
    let v = Volume::mount(dev.clone(), options).unwrap();
    let [file, other] = ["file", "other"].map(|name| create(&v, Ino::ROOT, name));
    [file, other].into_iter().for_each(|ino| _ = v.write(ino, 0, &[1; 8192]).unwrap());
    v.sync().unwrap();
    v.write(file, 0, &[2; 4096]).unwrap();
    v.extents(file).unwrap();
    let waiting = Arc::new(Mutex::new(None));
    let (volume, keep) = (v.clone(), waiting.clone());
    *dev.write.lock().unwrap() = Some(Box::new(move || {
        if change_during_it {
            volume.write(file, 4096, &[3; 4096]).unwrap();
        }
        *keep.lock().unwrap() = Some(fsync_until_it_waits(volume, file));
    }));
    let volume = v.clone();
    *dev.durable_write.lock().unwrap() = Some(Box::new(move || {
        volume.write(other, 0, &[4; 4096]).unwrap();
        volume.extents(other).unwrap();
    }));
    let before = dev.flushes.load(Ordering::Relaxed);
    Probe(&v).checkpoint().unwrap();
    waiting.lock().unwrap().take().expect("the checkpoint wrote nothing").join().unwrap();
    dev.flushes.load(Ordering::Relaxed) - before
}

#[test]
fn an_fsync_that_waited_for_a_checkpoint_repeats_no_flush() {
    for mode in [FsyncMode::Strict, FsyncMode::Posix] {
        assert_eq!(flushes(mode, false), 1, "{mode:?}: the checkpoint has the file");
        assert_eq!(flushes(mode, true), 2, "{mode:?}: the checkpoint flushed the data, the mark is left");
    }
}
