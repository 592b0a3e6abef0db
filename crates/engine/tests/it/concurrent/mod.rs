//! Concurrent checkpoints: each contains exactly the state at its boundary.
mod boundary;
mod failures;
mod fsyncs;
mod with_journal;

use crate::common::{assert_finds_only, quiet};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::lab::Probe;
use segno_engine::options::{CheckpointMode, JournalMode};
use segno_engine::{FallocMode, MountOptions, Owner, RenameMode, SetAttr, Volume};
use segno_format::node::{NodeKind, RawNode, kind_of_offset};
use segno_format::{Block, Ino};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::{RecordDevice, forward};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const FILE: u16 = 0o100_644;
const DIR: u16 = 0o755;
/// More names than an inline directory can hold.
const MANY: usize = 300;
/// Blocks of the volume, and of the gap after it.
const BLOCKS: u64 = 96 * 256;
const GAP: u64 = 8 * 256;

type Hook = Box<dyn FnOnce() + Send>;

/// Runs a hook before the given write to the volume, counted from the first write of a node on, which follows the
/// boundary, or from the first one ahead of it. The hook may fail writes.
struct Interrupted {
    inner: RecordDevice<MemDevice>,
    hook: Mutex<Armed>,
    broken: AtomicBool,
    journal_broken: AtomicBool,
}

#[derive(Default)]
struct Armed {
    /// Nodes of files are written ahead of the boundary.
    ahead: bool,
    left: u64,
    counting: bool,
    run: Option<Hook>,
}

/// Recognizes a node footer by its small numbers.
fn is_node(block: &Block) -> bool {
    [4072, 4076].iter().all(|&at| (3..10_000).contains(&block.u32_at(at)))
}

/// Whether a node is written ahead of a boundary: files' but for indirect ones.
fn is_written_ahead(block: &Block) -> bool {
    let footer = block.view::<RawNode>().footer;
    footer.is_cold() && kind_of_offset(footer.node_offset()) != Some(NodeKind::Indirect)
}

impl Interrupted {
    fn before_write(&self, addr: u64, first: &Block) -> io::Result<()> {
        let refuse = |broken: &AtomicBool| {
            if broken.load(Ordering::Relaxed) { Err(io::Error::other("broken")) } else { Ok(()) }
        };
        if addr >= BLOCKS {
            return refuse(&self.journal_broken);
        }
        let due = {
            let mut hook = self.hook.lock().unwrap();
            let is_first = is_node(first) && is_written_ahead(first) == hook.ahead;
            if !(hook.counting || is_first) {
                return Ok(());
            }
            hook.counting = true;
            hook.left = hook.left.wrapping_sub(1);
            if hook.left == 0 { hook.run.take() } else { None }
        };
        if let Some(f) = due {
            f();
        }
        refuse(&self.broken)
    }
    fn arm(&self, write: u64, hook: Hook) {
        *self.hook.lock().unwrap() = Armed { ahead: false, left: write, counting: false, run: Some(hook) };
    }
    fn arm_ahead(&self, write: u64, hook: Hook) {
        *self.hook.lock().unwrap() = Armed { ahead: true, left: write, counting: false, run: Some(hook) };
    }
    /// Whether the hook has run.
    fn disarm(&self) -> bool {
        self.hook.lock().unwrap().run.take().is_none()
    }
}

impl BlockDevice for Interrupted {
    forward!(inner: block_count, read, flush, discard, read_only);

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.before_write(addr, blocks[0])?;
        self.inner.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.before_write(addr, blocks[0])?;
        self.inner.write_fua(addr, blocks)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Journal {
    Without,
    With,
}

impl Journal {
    fn options(self) -> MountOptions {
        let journal = if self == Self::With { JournalMode::On } else { JournalMode::Off };
        MountOptions { checkpoint: CheckpointMode::Concurrent, journal, ..quiet() }
    }
}

fn create(v: &Volume, dir: Ino, name: &str) -> Ino {
    v.mknod(dir, name.as_bytes(), FILE, (0, 0), Owner::default()).unwrap().ino
}

fn lookup(v: &Volume, dir: Ino, name: &str) -> Ino {
    v.lookup(dir, name.as_bytes()).unwrap().ino
}

fn resize(v: &Volume, ino: Ino, size: u64) {
    v.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
}

/// Path, size and content checksum of every file.
type Tree = BTreeMap<String, (u64, u64)>;

fn tree(v: &Volume) -> Tree {
    let mut out = BTreeMap::new();
    let mut todo = vec![(Ino::ROOT, String::new())];
    while let Some((dir, path)) = todo.pop() {
        let mut names = Vec::new();
        v.readdir(dir, 0, &mut |e| {
            names.push(e.name.to_vec());
            true
        })
        .unwrap();
        for name in names.iter().filter(|n| n.as_slice() != b"." && n.as_slice() != b"..") {
            let attr = v.lookup(dir, name).unwrap();
            let path = format!("{path}/{}", String::from_utf8_lossy(name));
            if attr.mode & 0o170_000 == 0o040_000 {
                todo.push((attr.ino, path.clone()));
                out.insert(path, (0, attr.nlink.into()));
            } else {
                let mut bytes = vec![0; attr.size as usize];
                assert_eq!(v.read(attr.ino, 0, &mut bytes).unwrap(), bytes.len());
                let sum = bytes.iter().fold(7u64, |s, &b| s.wrapping_mul(31).wrapping_add(b.into()));
                out.insert(path, (attr.size, sum));
            }
        }
    }
    out
}

/// Changes in the first checkpoint.
fn before(v: &Volume) {
    let old = v.mkdir(Ino::ROOT, b"old", DIR, Owner::default()).unwrap().ino;
    for i in 0..MANY {
        create(v, old, &format!("old {i:03}"));
    }
    for name in ["kept", "cut", "gone", "moved"] {
        let ino = create(v, Ino::ROOT, name);
        v.write(ino, 0, &vec![name.as_bytes()[0]; 30_000]).unwrap();
        v.write(ino, 4096 * 1500, &[1; 5000]).unwrap();
    }
    v.sync().unwrap();
}

/// Additional changes in the interrupted checkpoint.
fn frozen(v: &Volume) {
    let new = v.mkdir(Ino::ROOT, b"new", DIR, Owner::default()).unwrap().ino;
    for i in 0..MANY {
        create(v, new, &format!("new {i:03}"));
    }
    let old = lookup(v, Ino::ROOT, "old");
    for i in 0..20 {
        v.unlink(old, format!("old {i:03}").as_bytes()).unwrap();
    }
    let kept = lookup(v, Ino::ROOT, "kept");
    v.write(kept, 0, &[9; 10_000]).unwrap();
    let long = create(v, Ino::ROOT, "long");
    v.write(long, 4096 * 3000, &[3; 4096]).unwrap();
    v.mkdir(Ino::ROOT, b"empty", DIR, Owner::default()).unwrap();
}

/// Changes during its write: every kind of change to the state being written.
fn meanwhile(v: &Volume) {
    let (old, new) = (lookup(v, Ino::ROOT, "old"), lookup(v, Ino::ROOT, "new"));
    for i in 0..40 {
        v.unlink(new, format!("new {i:03}").as_bytes()).unwrap();
        create(v, old, &format!("later {i:03}"));
    }
    v.unlink(Ino::ROOT, b"gone").unwrap();
    v.unlink(Ino::ROOT, b"long").unwrap();
    v.rmdir(Ino::ROOT, b"empty").unwrap();
    resize(v, lookup(v, Ino::ROOT, "cut"), 100);
    resize(v, lookup(v, Ino::ROOT, "kept"), 4096 * 2000);
    v.rename(Ino::ROOT, b"moved", new, b"moved", RenameMode::Replace, Owner::default()).unwrap();
    let ino = create(v, new, "fresh");
    v.write(ino, 0, &[5; 20_000]).unwrap();
    v.write(lookup(v, Ino::ROOT, "kept"), 4096 * 1500, &[6; 4096]).unwrap();
    // Flushes its data as part of the operation.
    v.fallocate(ino, FallocMode::CollapseRange, 4096, 4096).unwrap();
}

/// Changes in no committed epoch, but in the interrupted checkpoint.
fn at_the_last_moment(v: &Volume) {
    v.mkdir(Ino::ROOT, b"late", DIR, Owner::default()).unwrap();
    v.unlink(lookup(v, Ino::ROOT, "old"), b"old 299").unwrap();
    resize(v, lookup(v, Ino::ROOT, "cut"), 20_000);
}

struct Scene {
    dev: Arc<Interrupted>,
    v: Arc<Volume>,
    base: segno_device::Snapshot,
    journal: Journal,
}

fn scene(journal: Journal) -> Scene {
    let image = Arc::new(MemDevice::new(BLOCKS + GAP));
    let member = Member { device: image.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &MkfsOptions { blocks: Some(BLOCKS), ..MkfsOptions::default() }).unwrap();
    let v = Volume::mount(image.clone(), journal.options()).unwrap();
    before(&v);
    v.unmount().unwrap();
    let base = image.snapshot();
    let inner = RecordDevice::new(MemDevice::from_snapshot(&base));
    let dev = Arc::new(Interrupted {
        inner,
        hook: Mutex::default(),
        broken: AtomicBool::new(false),
        journal_broken: AtomicBool::new(false),
    });
    let v = Volume::mount(dev.clone(), journal.options()).unwrap();
    frozen(&v);
    if journal == Journal::With {
        v.sync().unwrap();
        at_the_last_moment(&v);
    }
    Scene { dev, v, base, journal }
}

impl Scene {
    /// Writes data, then a checkpoint with `hook` run before the given write. Returns false if there are fewer
    /// writes.
    fn checkpoint_interrupted(&self, write: u64, hook: Hook) -> bool {
        self.dev.arm(write, hook);
        match self.journal {
            Journal::Without => self.v.sync().unwrap(),
            Journal::With => Probe(&self.v).checkpoint().unwrap(),
        }
        self.dev.disarm()
    }
    /// Interrupts the checkpoint with many changes.
    fn changed_meanwhile(&self, write: u64) -> bool {
        let v = self.v.clone();
        self.checkpoint_interrupted(write, Box::new(move || meanwhile(&v)))
    }
    fn image(&self) -> Arc<MemDevice> {
        Arc::new(MemDevice::from_snapshot(&self.dev.inner.inner().snapshot()))
    }
    /// The tree found by mounting the image.
    fn read(&self, image: &Arc<MemDevice>) -> Tree {
        // A cut between the writes of the two superblock copies, when the mark of a journal in use is set,
        // leaves one of them stale.
        assert_finds_only(&**image, &[segno_check::Kind::SuperblockStale]);
        tree(&Volume::mount(image.clone(), self.journal.options()).unwrap())
    }
    fn stat(&self, name: &str) -> u64 {
        self.v.report().into_iter().find(|(n, _)| *n == name).unwrap().1
    }
}
