//! Direct writes and the page cache: after the completion a buffered read returns the written data, even if other buffered
//! readers filled the cache during the write.
use super::aio::{self, WriteAll};
use super::{Mount, each_transport};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const CHUNK: usize = 64 << 10;
const CHUNKS: usize = 16;
const LEN: usize = CHUNK * CHUNKS;
/// Without the fix about every third cycle ends with stale pages.
const CYCLES: u8 = 64;
const READERS: usize = 2;
const ALIGN: usize = 4096;

/// Memory aligned for O_DIRECT.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn new() -> Self {
        let memory = vec![0; LEN + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Self { memory, start }
    }

    fn fill(&mut self, byte: u8) {
        self.memory.fill(byte);
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..LEN]
    }

    /// The memory in chunks, to be written from `base` on.
    fn chunks(&self, base: u64) -> Vec<(u64, &[u8])> {
        self.bytes().chunks(CHUNK).enumerate().map(|(i, c)| (base + (i * CHUNK) as u64, c)).collect()
    }
}

/// Reads the file repeatedly through the page cache.
fn keep_reading(path: &Path, stop: &AtomicBool) {
    let (file, mut bytes) = (File::open(path).unwrap(), vec![0; CHUNK]);
    while !stop.load(Ordering::Relaxed) {
        let mut at = 0;
        while let n @ 1.. = file.read_at(&mut bytes, at).unwrap() {
            at += n as u64;
        }
    }
}

/// In each cycle overwrites half of the file and appends to it; compares after each completion.
fn cycles(path: &Path, write_all: WriteAll) -> io::Result<()> {
    let direct = File::options().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path)?;
    let buffered = File::open(path)?;
    let (mut source, mut found) = (Aligned::new(), vec![0; LEN]);
    for cycle in 1..=CYCLES {
        source.fill(cycle);
        let grows = cycle % 8 == 0;
        let base = if grows { buffered.metadata()?.len() } else { 0 };
        write_all(&direct, &source.chunks(base))?;
        buffered.read_exact_at(&mut found, base)?;
        let stale = found.iter().filter(|&&b| b != cycle).count();
        assert_eq!(stale, 0, "stale bytes in cycle {cycle}, which wrote at {base}");
    }
    Ok(())
}

fn readers_see(mount: &Mount, write_all: WriteAll) {
    let path = mount.path().join("f");
    std::fs::write(&path, vec![0; LEN]).unwrap();
    let stop = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        (0..READERS).for_each(|_| drop(scope.spawn(|| keep_reading(&path, &stop))));
        let writer = scope.spawn(|| cycles(&path, write_all));
        let done = writer.join();
        stop.store(true, Ordering::Relaxed);
        done
    });
    match done.unwrap_or_else(|stale| std::panic::resume_unwind(stale)) {
        Err(e) if e.raw_os_error().is_some_and(|e| [libc::ENOSYS, libc::EPERM].contains(&e)) => {
            eprintln!("NOT TESTED: this machine has no such asynchronous I/O: {e}");
        }
        done => done.unwrap(),
    }
}

#[test]
fn a_read_after_asynchronous_direct_writes_returns_them() {
    each_transport(|mount| readers_see(mount, aio::linux_aio), &[]);
}

#[test]
fn a_read_after_direct_writes_by_io_uring_returns_them() {
    each_transport(|mount| readers_see(mount, aio::io_uring), &[]);
}
