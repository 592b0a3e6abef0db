//! Checkpoints that are written while operations go on: each describes its boundary, whatever happens meanwhile.
use crate::common::{assert_clean, fresh, quiet};
use segno_device::{BlockDevice, CrashLog, CrashPlan, CrashStates, MemDevice, RecordDevice};
use segno_engine::options::CheckpointMode;
use segno_engine::{FallocMode, MountOptions, Owner, RenameMode, SetAttr, Volume};
use segno_format::{Block, Ino};
use segno_mkfs::MkfsOptions;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

const FILE: u16 = 0o100_644;
const DIR: u16 = 0o755;
/// Names that no inline directory holds.
const MANY: usize = 300;

type Hook = Box<dyn FnOnce() + Send>;

/// Runs something in the middle: before the write that the counter comes to, counted from the first of nodes on. Until
/// then the boundary is not drawn.
struct Interrupted {
    inner: RecordDevice<MemDevice>,
    hook: Mutex<Armed>,
}

#[derive(Default)]
struct Armed {
    left: u64,
    counting: bool,
    run: Option<Hook>,
}

/// Whether the footer looks like one: small numbers.
fn is_node(block: &Block) -> bool {
    [4072, 4076].iter().all(|&at| (3..10_000).contains(&block.u32_at(at)))
}

impl Interrupted {
    fn before_write(&self, first: &Block) {
        let due = {
            let mut hook = self.hook.lock().unwrap();
            if !hook.counting && !is_node(first) {
                return;
            }
            hook.counting = true;
            hook.left = hook.left.wrapping_sub(1);
            if hook.left == 0 { hook.run.take() } else { None }
        };
        if let Some(f) = due {
            f();
        }
    }
    fn arm(&self, write: u64, hook: Hook) {
        *self.hook.lock().unwrap() = Armed { left: write, counting: false, run: Some(hook) };
    }
    /// Whether it has run.
    fn disarm(&self) -> bool {
        self.hook.lock().unwrap().run.take().is_none()
    }
}

impl BlockDevice for Interrupted {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.before_write(blocks[0]);
        self.inner.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.before_write(blocks[0]);
        self.inner.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.inner.discard(addr, count)
    }
    fn read_only(&self) -> bool {
        false
    }
}

fn options() -> MountOptions {
    MountOptions { checkpoint: CheckpointMode::Concurrent, ..quiet() }
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

/// Path, size and a sum of the content of everything.
fn tree(v: &Volume) -> BTreeMap<String, (u64, u64)> {
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

/// What the first checkpoint has.
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

/// What the interrupted checkpoint has besides.
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

/// What happens while it is written: every kind of change to what it is about to write.
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
    // Writes its data out on its way.
    v.fallocate(ino, FallocMode::CollapseRange, 4096, 4096).unwrap();
}

struct Scene {
    dev: Arc<Interrupted>,
    v: Arc<Volume>,
    base: segno_device::Snapshot,
}

fn scene() -> Scene {
    let image = fresh(96, &MkfsOptions::default());
    let v = Volume::mount(image.clone(), options()).unwrap();
    before(&v);
    v.unmount().unwrap();
    let base = image.snapshot();
    let inner = RecordDevice::new(MemDevice::from_snapshot(&base));
    let dev = Arc::new(Interrupted { inner, hook: Mutex::default() });
    let v = Volume::mount(dev.clone(), options()).unwrap();
    frozen(&v);
    Scene { dev, v, base }
}

impl Scene {
    /// Syncs, with the changes before the given write; false if there are fewer writes.
    fn sync_interrupted(&self, write: u64) -> bool {
        let v = self.v.clone();
        self.dev.arm(write, Box::new(move || meanwhile(&v)));
        self.v.sync().unwrap();
        self.dev.disarm()
    }
    fn image(&self) -> Arc<MemDevice> {
        Arc::new(MemDevice::from_snapshot(&self.dev.inner.inner().snapshot()))
    }
}

fn read(image: &Arc<MemDevice>) -> BTreeMap<String, (u64, u64)> {
    assert_clean(&**image);
    tree(&Volume::mount(image.clone(), options()).unwrap())
}

#[test]
fn whatever_happens_during_it_a_checkpoint_is_its_boundary() {
    let plain = scene();
    plain.v.sync().unwrap();
    let (at_boundary, start) = (tree(&plain.v), plain.v.clone());
    meanwhile(&start);
    let at_end = tree(&start);
    let mut writes = 0;
    loop {
        let scene = scene();
        if !scene.sync_interrupted(writes + 1) {
            break;
        }
        writes += 1;
        assert_eq!(tree(&scene.v), at_end, "write {writes}");
        assert_eq!(read(&scene.image()), at_boundary, "write {writes}");
        scene.v.sync().unwrap();
        assert_eq!(read(&scene.image()), at_end, "write {writes}");
        scene.v.unmount().unwrap();
        assert_clean(&*scene.image());
    }
    assert!(writes >= 5, "{writes} writes");
}

/// Power cuts through the interrupted checkpoint and the one after: always one of the states between which it was.
#[test]
fn every_cut_of_an_interrupted_checkpoint_is_one_of_its_ends() {
    let write = 2;
    let scene = scene();
    let start = read(&Arc::new(MemDevice::from_snapshot(&scene.base)));
    assert!(scene.sync_interrupted(write));
    let boundary = read(&scene.image());
    scene.v.sync().unwrap();
    let end = read(&scene.image());
    let log = CrashLog::new(scene.base.clone(), scene.dev.inner.log()).unwrap();
    let plan = CrashPlan { subsets: 8, torn_data: 2, ..CrashPlan::new(write) };
    let mut seen = [0; 3];
    for state in CrashStates::new(&log, plan, |_, _| false).step_by(12) {
        let (index, choice) = (state.index, state.choice);
        let found = read(&Arc::new(state.device));
        let which = [&start, &boundary, &end].iter().position(|t| **t == found);
        seen[which.unwrap_or_else(|| panic!("write {write} state {index} {choice:?}: {found:?}"))] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}
