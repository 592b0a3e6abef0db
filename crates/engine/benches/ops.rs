//! Operations a second and allocations an operation, on one core and a volume in memory: `cargo bench -p segno-engine`.
#![allow(clippy::expect_used)]
use segno_device::MemDevice;
use segno_engine::{MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_mkfs::{Member, MkfsOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

struct Counting;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise about `at` and `layout`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FILES: u64 = 50_000;
const DIRS: u64 = 10;
const BLOCK: [u8; 4096] = [0x5a; 4096];

fn main() {
    let device = Arc::new(MemDevice::new(4 << 18));
    let member = Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &MkfsOptions::default()).expect("mkfs");
    let options = MountOptions { cache_bytes: 2 << 30, ..MountOptions::default() };
    let v = Volume::mount(device, options).expect("mount");
    let who = Owner::default();
    let dirs: Vec<Ino> = (0..DIRS)
        .map(|d| v.mkdir(v.root(), format!("d{d}").as_bytes(), 0o755, who).expect("mkdir").ino)
        .collect();
    let names: Vec<(Ino, String)> =
        (0..FILES).map(|i| (dirs[(i * DIRS / FILES) as usize], format!("file-{i:06}"))).collect();
    let each = |f: &mut dyn FnMut(Ino, &[u8])| names.iter().for_each(|(d, n)| f(*d, n.as_bytes()));
    let create = |d: Ino, n: &[u8]| v.mknod(d, n, 0o100_644, (0, 0), who).expect("create").ino;

    row("create empty", &mut || each(&mut |d, n| _ = black_box(create(d, n))));
    row("lookup", &mut || each(&mut |d, n| _ = black_box(v.lookup(d, n).expect("lookup"))));
    row("lookup of nothing", &mut || {
        each(&mut |d, n| assert!(v.lookup(d, [n, b"x"].concat().as_slice()).is_err()));
    });
    row("readdir", &mut || {
        let mut seen = 0;
        dirs.iter().for_each(|&d| {
            let mut count = |e: segno_engine::DirEntry<'_>| {
                black_box(e);
                seen += 1;
                true
            };
            v.readdir(d, 0, &mut count).expect("readdir");
        });
        assert!(seen >= FILES);
    });
    row("unlink empty", &mut || each(&mut |d, n| v.unlink(d, n).expect("unlink")));
    row("create empty, memory reused", &mut || each(&mut |d, n| _ = black_box(create(d, n))));
    each(&mut |d, n| v.unlink(d, n).expect("unlink"));
    row("create + write 4 KiB", &mut || {
        each(&mut |d, n| {
            let ino = create(d, n);
            v.write(ino, 0, &BLOCK).expect("write");
        });
    });
    row("unlink 4 KiB", &mut || each(&mut |d, n| v.unlink(d, n).expect("unlink")));
    row("create + write 4 KiB", &mut || {
        each(&mut |d, n| {
            let ino = create(d, n);
            v.write(ino, 0, &BLOCK).expect("write");
        });
    });
    v.sync().expect("sync");
    row("unlink 4 KiB, written", &mut || each(&mut |d, n| v.unlink(d, n).expect("unlink")));
    let file = create(v.root(), b"file");
    row("append 4 KiB", &mut || (0..FILES).for_each(|i| _ = v.write(file, i * 4096, &BLOCK).expect("write")));
    v.sync().expect("sync");
    let mut into = BLOCK;
    row("read 4 KiB", &mut || {
        (0..FILES).for_each(|i| _ = v.read(file, i * 7919 % FILES * 4096, &mut into).expect("read"));
    });
}

/// Runs the work and prints its figures; each does [`FILES`] operations.
fn row(name: &str, work: &mut dyn FnMut()) {
    let (allocations, begun) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
    work();
    let took = begun.elapsed().as_secs_f64();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
    let per_op = allocations as f64 / FILES as f64;
    println!("{name:28} {:>10.0} ops/s {per_op:>8.1} allocations", FILES as f64 / took);
}
