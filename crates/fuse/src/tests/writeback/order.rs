//! Readers race writers: a read never returns bytes of another file, nor anything older than a write that had returned.
use super::{PAGE, TRANSPORTS, cached};
use crate::tests::{Mount, volume};
use rustix::fs::{Advice, OFlags, fadvise};
use segno_testkit::Rng;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const FILES: usize = 2;
const PAGES: u64 = 64;
const ROUNDS: u64 = 1500;

/// A page with the number of its file and a version, repeated.
#[repr(align(4096))]
struct Page([u8; PAGE]);

impl Page {
    fn new(file: usize, version: u64) -> Self {
        let mut page = Self([0; PAGE]);
        let word = (file as u64) << 56 | version;
        page.0.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&word.to_le_bytes()));
        page
    }

    /// The file and version of each word that is not zero.
    fn words(&self) -> impl Iterator<Item = (usize, u64)> {
        let words = self.0.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap()));
        words.map(|w| ((w >> 56) as usize, w & ((1 << 56) - 1)))
    }
}

/// A file whose only writer announces each version after its write returned.
struct Race<'a> {
    path: &'a Path,
    number: usize,
    seed: u64,
    written: [AtomicU64; PAGES as usize],
    stop: &'a AtomicBool,
}

impl Race<'_> {
    fn open(&self, direct: bool) -> File {
        let flags = if direct { OFlags::DIRECT.bits().cast_signed() } else { 0 };
        File::options().read(true).write(true).custom_flags(flags).open(self.path).unwrap()
    }

    fn write(&self) {
        let (buffered, direct) = (self.open(false), self.open(true));
        let mut rng = Rng::new(self.seed);
        for version in 1..=ROUNDS {
            let page = rng.below(PAGES);
            let file = if rng.one_in(8) { &direct } else { &buffered };
            file.write_all_at(&Page::new(self.number, version).0, page * PAGE as u64).unwrap();
            self.written[page as usize].store(version, Ordering::Release);
            if rng.one_in(100) {
                buffered.sync_data().unwrap();
            }
        }
    }

    fn read(&self, direct: bool) {
        let (file, mut rng) = (self.open(direct), Rng::new(self.seed ^ 1));
        while !self.stop.load(Ordering::Relaxed) {
            let page = rng.below(PAGES);
            let oldest = self.written[page as usize].load(Ordering::Acquire);
            let mut found = Page([0; PAGE]);
            file.read_exact_at(&mut found.0, page * PAGE as u64).unwrap();
            for (number, version) in found.words() {
                assert!(version == 0 && oldest == 0 || number == self.number, "bytes of file {number}");
                assert!(
                    version >= oldest,
                    "version {version} of page {page} after {oldest}, seed {}",
                    self.seed
                );
            }
            if rng.one_in(50) {
                fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            }
        }
    }
}

fn race(mount: &Mount, seed: u64) {
    let stop = AtomicBool::new(false);
    let paths: Vec<_> = (0..FILES).map(|i| mount.path().join(format!("f{i}"))).collect();
    paths.iter().for_each(|p| File::create(p).unwrap().set_len(PAGES * PAGE as u64).unwrap());
    let races: Vec<_> = paths
        .iter()
        .zip(1..)
        .map(|(path, number)| Race {
            path,
            number,
            seed: seed + number as u64,
            written: std::array::from_fn(|_| AtomicU64::new(0)),
            stop: &stop,
        })
        .collect();
    thread::scope(|scope| {
        let readers: Vec<_> = races
            .iter()
            .flat_map(|race| [false, true].map(|direct| scope.spawn(move || race.read(direct))))
            .collect();
        let writers: Vec<_> = races.iter().map(|race| scope.spawn(|| race.write())).collect();
        let written: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        written.into_iter().chain(readers.into_iter().map(thread::ScopedJoinHandle::join)).for_each(|done| {
            done.unwrap_or_else(|failed| std::panic::resume_unwind(failed));
        });
    });
}

#[test]
fn a_read_is_never_older_than_a_completed_write() {
    for (seed, choice) in (100..).step_by(10).zip(TRANSPORTS) {
        if let Some(mount) = cached(volume(), choice, &[]) {
            race(&mount, seed);
        }
        if let Some(mount) = Mount::new(choice, &[]) {
            race(&mount, seed);
        }
    }
}
