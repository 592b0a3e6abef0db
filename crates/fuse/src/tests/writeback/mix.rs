//! Random mixes of operations against an array of bytes, with the writeback cache and without, on both transports.
use super::{PAGE, TRANSPORTS};
use crate::tests::{Mount, run};
use rustix::fs::{Advice, FallocateFlags, OFlags, copy_file_range, fadvise, fallocate};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use segno_testkit::Rng;
use std::env::{self, current_exe};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Command;

/// A file of this size extends from inline data and addresses in the inode into separate node blocks.
const MAX: u64 = 4 << 20;
const OPS: usize = 400;
const SEED: u64 = 19;
/// Environment variable with the child's task.
const MAPPED: &str = "SEGNO_TEST_MAPPED";
const MAPPED_LEN: u64 = 96;

/// A file under test, through two handles, and its expected content.
struct File2 {
    path: PathBuf,
    file: File,
    append: File,
    direct: File,
    content: Vec<u8>,
}

impl File2 {
    fn create(path: PathBuf) -> Self {
        File::create(&path).unwrap();
        Self::open(path, Vec::new())
    }

    fn open(path: PathBuf, content: Vec<u8>) -> Self {
        let direct = OFlags::DIRECT.bits().cast_signed();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let append = File::options().append(true).open(&path).unwrap();
        let direct = File::options().read(true).write(true).custom_flags(direct).open(&path).unwrap();
        Self { path, file, append, direct, content }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = at as usize;
        self.content.resize(self.content.len().max(at + bytes.len()), 0);
        self.content[at..][..bytes.len()].copy_from_slice(bytes);
    }

    fn zero(&mut self, at: u64, len: u64) {
        let end = ((at + len) as usize).min(self.content.len());
        self.content.get_mut(at as usize..end).unwrap_or_default().fill(0);
    }

    /// Compares size and content.
    fn assert_equal(&self, what: &str) {
        assert_eq!(self.file.metadata().unwrap().size(), self.content.len() as u64, "size {what}");
        let mut found = vec![0; self.content.len() + 1];
        let n = read_all(&self.file, &mut found);
        assert_eq!(n, self.content.len(), "length {what}");
        assert_same(&found[..n], &self.content, what);
    }
}

fn read_all(file: &File, into: &mut [u8]) -> usize {
    let mut n = 0;
    while let more @ 1.. = file.read_at(&mut into[n..], n as u64).unwrap() {
        n += more;
    }
    n
}

fn assert_same(found: &[u8], expected: &[u8], what: &str) {
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "first differing byte {what}");
}

fn pattern(first: u8, len: u64) -> Vec<u8> {
    (0..len).map(|i| first.wrapping_add(i as u8)).collect()
}

fn bytes(rng: &mut Rng, len: u64) -> Vec<u8> {
    pattern(rng.draw() as u8 | 1, len)
}

/// A range that ends within the maximum size, mostly short, at times aligned.
fn range(rng: &mut Rng, f: &File2) -> (u64, u64) {
    let at = rng.below((f.content.len() as u64 + 20_000).min(MAX));
    let len = 1 + rng.scaled(200_000).min(MAX - at);
    if rng.one_in(3) { (at / 4096 * 4096, len.next_multiple_of(4096)) } else { (at, len) }
}

/// Memory aligned for O_DIRECT.
fn aligned(memory: &mut Vec<u8>, len: usize) -> &mut [u8] {
    memory.resize(len + PAGE, 0);
    let at = memory.as_ptr().align_offset(PAGE);
    &mut memory[at..at + len]
}

/// Changes part of a page through a shared mapping. munmap(2) waits for the server, which may need the lock of the address
/// space, so another process does it.
fn write_mapped(f: &File2, page: u64, at: usize, first: u8) {
    let mut child = Command::new(current_exe().unwrap());
    child.args(["--exact", "tests::writeback::mix::child", "--ignored"]);
    child.env(MAPPED, format!("{} {page} {at} {first}", f.path.display()));
    let out = run(&mut child).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
#[ignore = "the child of the random changes"]
fn child() {
    let task = env::var(MAPPED).unwrap();
    let mut words = task.split(' ');
    let file = File::options().read(true).write(true).open(words.next().unwrap()).unwrap();
    let [page, at, first] = std::array::from_fn(|_| words.next().unwrap().parse::<u64>().unwrap());
    let (prot, data) = (ProtFlags::READ | ProtFlags::WRITE, pattern(first as u8, MAPPED_LEN));
    // SAFETY: a new mapping of a page that the file has; no other process truncates it.
    unsafe {
        let map =
            mmap(std::ptr::null_mut(), PAGE, prot, MapFlags::SHARED, &file, page * PAGE as u64).unwrap();
        std::ptr::copy_nonoverlapping(data.as_ptr(), map.cast::<u8>().add(at as usize), data.len());
        if first & 2 == 0 {
            msync(map, PAGE, MsyncFlags::SYNC).unwrap();
        }
        munmap(map, PAGE).unwrap();
    }
}

fn change(rng: &mut Rng, f: &mut File2, other: &mut File2) -> &'static str {
    match rng.below(16) {
        0..=8 => write_some(rng, f, other),
        9..=12 => reshape(rng, f),
        13 => {
            f.append.sync_data().unwrap();
            "fdatasync"
        }
        14 => {
            let renamed = f.path.with_extension(if rng.one_in(2) { "a" } else { "b" });
            if renamed != other.path {
                fs::rename(&f.path, &renamed).unwrap();
                f.path = renamed;
            }
            "rename"
        }
        _ => {
            // Dirty pages stay, the others are read again.
            fadvise(&f.file, 0, None, Advice::DontNeed).unwrap();
            "drop"
        }
    }
}

/// Writes bytes in one of several ways.
fn write_some(rng: &mut Rng, f: &mut File2, other: &File2) -> &'static str {
    let (at, len) = range(rng, f);
    match rng.below(9) {
        0 | 1 => {
            let (data, end) = (bytes(rng, 1 + len % 9000), f.content.len() as u64);
            f.append.write_all(&data).unwrap();
            f.put(end, &data);
            "append"
        }
        2 if f.content.len() >= PAGE => {
            let page = rng.below((f.content.len() / PAGE) as u64);
            let (offset, first) = (rng.below(4000) as usize, rng.draw() as u8);
            write_mapped(f, page, offset, first);
            f.put(page * PAGE as u64 + offset as u64, &pattern(first, MAPPED_LEN));
            "mapped write"
        }
        3 => {
            let (at, len) = (at / 4096 * 4096, len.next_multiple_of(4096));
            let mut memory = Vec::new();
            let data = aligned(&mut memory, len as usize);
            data.copy_from_slice(&bytes(rng, len));
            f.direct.write_all_at(data, at).unwrap();
            f.put(at, data);
            "direct write"
        }
        4 => {
            let (mut from, mut to) = (at, at);
            let n =
                copy_file_range(&other.file, Some(&mut from), &f.file, Some(&mut to), len as usize).unwrap();
            f.put(at, &other.content.get(at as usize..).unwrap_or_default()[..n]);
            "copy"
        }
        _ => {
            let data = bytes(rng, len);
            f.file.write_all_at(&data, at).unwrap();
            f.put(at, &data);
            "write"
        }
    }
}

/// Changes the size, or reserves, frees or zeroes a range.
fn reshape(rng: &mut Rng, f: &mut File2) -> &'static str {
    let (at, len) = range(rng, f);
    let end = (at + len) as usize;
    match rng.below(5) {
        0 => {
            f.file.set_len(at).unwrap();
            f.content.resize(at as usize, 0);
            "truncate"
        }
        1 => {
            fallocate(&f.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len).unwrap();
            f.zero(at, len);
            "punch"
        }
        2 => {
            fallocate(&f.file, FallocateFlags::ZERO_RANGE, at, len).unwrap();
            f.content.resize(f.content.len().max(end), 0);
            f.zero(at, len);
            "zero range"
        }
        3 => {
            fallocate(&f.file, FallocateFlags::KEEP_SIZE, at, len).unwrap();
            "reserve"
        }
        _ => {
            fallocate(&f.file, FallocateFlags::empty(), at, len).unwrap();
            f.content.resize(f.content.len().max(end), 0);
            "allocate"
        }
    }
}

/// Compares a range, buffered or direct.
fn look(rng: &mut Rng, f: &File2, what: &str) {
    let (at, len) = range(rng, f);
    let expected = f.content.get(at as usize..).unwrap_or_default();
    let mut memory = Vec::new();
    let (file, at) = if rng.one_in(4) { (&f.direct, at / 4096 * 4096) } else { (&f.file, at) };
    let expected = if at as usize <= f.content.len() { &f.content[at as usize..] } else { expected };
    let into = aligned(&mut memory, len.next_multiple_of(4096) as usize);
    let n = file.read_at(into, at).unwrap();
    assert_eq!(n, into.len().min(expected.len()), "count {what}");
    assert_same(&into[..n], &expected[..n], what);
}

fn mix(mount: &Mount, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut files = ["one", "two"].map(|name| File2::create(mount.path().join(name)));
    for op in 0..OPS {
        let [one, two] = &mut files;
        let (f, other) = if rng.one_in(2) { (one, two) } else { (two, one) };
        let what = format!("after {} ({op}) of seed {seed}", change(&mut rng, f, other));
        look(&mut rng, f, &what);
        if rng.one_in(20) {
            f.assert_equal(&what);
        }
        if rng.one_in(40) {
            *f = File2::open(f.path.clone(), std::mem::take(&mut f.content));
        }
    }
    files.iter().for_each(|f| f.assert_equal(&format!("at the end of seed {seed}")));
    let contents = files.map(|f| (f.path, f.content));
    for (path, content) in contents {
        // Closed, so the volume has everything.
        let ino = crate::attr::ino_of(fs::metadata(&path).unwrap().ino());
        let mut found = vec![0; content.len() + 1];
        let n = mount.server.volume.read(ino, 0, &mut found).unwrap();
        assert_eq!(n, content.len(), "size on the volume, seed {seed}");
        assert_same(&found[..n], &content, &format!("on the volume, seed {seed}"));
    }
}

#[test]
fn random_changes_read_back_with_the_writeback_cache() {
    for (seed, choice) in (SEED..).zip(TRANSPORTS) {
        let Some(mount) = super::cached(crate::tests::volume(), choice, &[]) else { continue };
        mix(&mount, seed);
    }
}

#[test]
fn random_changes_read_back_write_through() {
    for (seed, choice) in (SEED..).zip(TRANSPORTS) {
        let Some(mount) = Mount::new(choice, &[]) else { continue };
        mix(&mount, seed);
    }
}
