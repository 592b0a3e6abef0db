//! Compares the engine with the model: equal operations must have equal results.
use crate::capture::Tree;
use crate::fs::{Fs, Node, Res, Seek, errno};
use crate::model::{BLOCK, Model};
use crate::mounted::Mounted;
use crate::op::{Handles, Op, Outcome, Profile, apply, generate, resolve};
use crate::setup::{self, Setup};
use segno_device::MemDevice;
use segno_engine::Time;
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;
use segno_testkit::Rng;
use segno_testkit::caught;
use std::sync::Arc;

/// A difference between engine and model.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Number of the operation, from 0; `None` if the sequence had ended.
    pub step: Option<usize>,
    pub what: String,
}

/// A random sequence and its setup.
pub struct Case {
    pub setup: Setup,
    pub ops: Vec<Op>,
}

impl Case {
    /// On the setup of this name, if there is one.
    pub fn draw(seed: u64, on: Option<&str>) -> Result<Self, String> {
        let mut rng = Rng::new(seed);
        let setup = setup::chosen(on, rng.draw())?;
        let lengths = [10, 40, 100, 200];
        let profile =
            Profile { ops: rng.pick(&lengths), far: rng.one_in(2), many: rng.one_in(4), durable: false };
        let ops = generate(&mut rng, profile, setup.model.clone());
        Ok(Self { setup, ops })
    }
}

/// Runs a sequence. Panics count as failures.
pub fn run(setup: &Setup, ops: &[Op]) -> Result<(), Failure> {
    let mut step = None;
    caught(|| {
        let mut pair = Pair::new(setup)?;
        for (index, op) in ops.iter().enumerate() {
            step = Some(index);
            pair.step(index, op)?;
        }
        step = None;
        pair.finish(setup)
    })
    .map_err(|what| Failure { step, what })
}

/// Both file systems.
struct Pair {
    device: Arc<MemDevice>,
    engine: Mounted,
    model: Model,
    engine_handles: Handles,
    model_handles: Handles,
}

/// The time of a step; the base was made before.
#[must_use]
pub fn time_of(step: usize) -> Time {
    Time { secs: 1000 + step as i64, nsec: 0 }
}

impl Pair {
    fn new(setup: &Setup) -> Result<Self, String> {
        let device = Arc::new(MemDevice::from_snapshot(&setup.base));
        let engine = setup.mount(device.clone(), 1000).map_err(|e| format!("mount: {e}"))?;
        Ok(Self {
            device,
            engine,
            model: setup.model.clone(),
            engine_handles: [None; 4],
            model_handles: [None; 4],
        })
    }

    fn step(&mut self, index: usize, op: &Op) -> Result<(), String> {
        self.engine.set_time(time_of(index));
        self.model.set_time(time_of(index));
        let got = apply(&mut self.engine, &mut self.engine_handles, op);
        if let (Outcome::Place(got), Op::Seek { of, what, offset }) = (&got, op) {
            return self.judge_place(of, *what, *offset, *got);
        }
        let expected = apply(&mut self.model, &mut self.model_handles, op);
        if got != expected {
            return Err(format!("{op}: got {got:?}, expected {expected:?}"));
        }
        Ok(())
    }

    /// A result is correct if it skips no data and reports no data as a hole.
    fn judge_place(
        &mut self,
        of: &crate::op::Path,
        what: Seek,
        offset: u64,
        got: Res<u64>,
    ) -> Result<(), String> {
        let node = resolve(&mut self.model, &self.model_handles, of).map_err(|e| format!("errno {e}"))?;
        let tight = self.model.seek(node, what, offset);
        let size = self.model.getattr(node).map_or(0, |a| a.size);
        let zeros = |at: u64| self.is_hole(node, at);
        let right = match (what, got, tight) {
            (_, Err(e), Err(t)) => e == t,
            (Seek::Data, Ok(at), Ok(first)) => at >= offset && at <= first,
            (Seek::Data, Ok(at), Err(errno::ENXIO)) => at >= offset && at < size,
            (Seek::Hole, Ok(at), Ok(first)) => at >= first && (at == size || zeros(at)),
            _ => false,
        };
        if right {
            Ok(())
        } else {
            Err(format!("seek {of} {what:?} from {offset}: got {got:?}, at best {tight:?}"))
        }
    }

    fn is_hole(&self, node: Node, at: u64) -> bool {
        let bytes = self.model.inodes().get(&node).and_then(|i| i.bytes().ok());
        bytes.is_some_and(|b| b.block(at / BLOCK).iter().all(|&b| b == 0))
    }

    /// Compares the tree now and after a remount, and the free space after deleting everything.
    fn finish(mut self, setup: &Setup) -> Result<(), String> {
        self.same_trees("in memory")?;
        let remount = apply(&mut self.engine, &mut self.engine_handles, &Op::Remount);
        apply(&mut self.model, &mut self.model_handles, &Op::Remount);
        if remount != Outcome::Done {
            return Err(format!("remount: {remount:?}"));
        }
        self.same_trees("after a remount")?;
        self.engine.unmount().map_err(|e| format!("unmount: {e}"))?;
        setup.check(self.device.clone())?;
        delete_everything(setup, &self.device)
    }

    fn same_trees(&mut self, when: &str) -> Result<(), String> {
        let engine = Tree::capture(&mut self.engine).map_err(|e| format!("{when}: {e}"))?;
        let difference = engine.difference(&Tree::of_model(&self.model));
        difference.map_or(Ok(()), |d| Err(format!("{when} the engine's differs from the model's: {d}")))
    }
}

/// Mounts, deletes everything, and finds all space free and the volume clean.
pub fn delete_everything(setup: &Setup, device: &Arc<MemDevice>) -> Result<(), String> {
    let mut engine = setup.mount(device.clone(), 5000).map_err(|e| format!("mount: {e}"))?;
    let root = engine.root();
    empty(&mut engine, root).map_err(|e| format!("deleting everything: errno {e}"))?;
    let names = engine.listxattr(root).map_err(|e| format!("listxattr: errno {e}"))?;
    names
        .iter()
        .try_for_each(|n| engine.removexattr(root, n))
        .map_err(|e| format!("removexattr: errno {e}"))?;
    engine.unmount().map_err(|e| format!("unmount: {e}"))?;
    setup.check(device.clone()).map_err(|e| format!("after deleting everything: {e}"))?;
    let engine = setup.mount(device.clone(), 5000).map_err(|e| format!("mount: {e}"))?;
    let (free, expected) = (engine.statfs(), setup.empty);
    if (free.bfree, free.ffree) != (expected.bfree, expected.ffree) {
        return Err(format!("space is lost: {free:?}, expected {expected:?}"));
    }
    Ok(())
}

fn empty(fs: &mut Mounted, dir: Node) -> Res<()> {
    for entry in fs.readdir(dir, 1000)? {
        let attr = fs.getattr(entry.node)?;
        if attr.flags.intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND) {
            fs.set_flags(entry.node, attr.flags - InodeFlags::IMMUTABLE - InodeFlags::APPEND)?;
        }
        if attr.kind == FileType::Directory {
            empty(fs, entry.node)?;
            fs.rmdir(dir, &entry.name)?;
        } else {
            fs.unlink(dir, &entry.name)?;
        }
    }
    Ok(())
}
