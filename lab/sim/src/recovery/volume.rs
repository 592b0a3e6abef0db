//! Crashed volumes whose recovery has thousands of inodes to make.
use crate::capture::Tree;
use crate::compare::time_of;
use crate::crash::Contract;
use crate::fs::Fs;
use crate::model::Times;
use crate::mounted::Mounted;
use crate::op::{Name, Op, Path, apply};
use crate::setup::{self, Setup};
use segno_device::{BlockDevice, MemDevice, Snapshot};
use segno_engine::{Observer, RenameMode, XattrMode};
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;
use segno_testkit::Rng;
use std::sync::Arc;

/// Number of files by size: of segments that the logs open, 4 and 30.
const FILES: [u16; 2] = [2_000, 15_000];
const DIRS: u16 = 20;
/// Names of files begin here, names of directories at [`Name::MANY`].
const FIRST: u16 = 1_000;

/// A volume after a crash: everything in it is acknowledged, and in the journal or the chain only.
pub struct Crashed {
    pub setup: Setup,
    pub image: Snapshot,
    pub tree: Tree,
}

/// Number of volumes: each kind in each size.
#[must_use]
pub fn recoveries() -> u64 {
    setup::large() * FILES.len() as u64
}

/// Whether a volume is of the smaller size, and of a kind of which all pairs of cuts are tried.
pub(super) fn is_exhaustive(number: u64) -> bool {
    size(number) == 0 && number % setup::large() < 2
}

pub(super) fn size(number: u64) -> usize {
    (number / setup::large()) as usize % FILES.len()
}

impl Crashed {
    /// One of the volumes; higher numbers draw other contents.
    pub fn make(number: u64) -> Result<Self, String> {
        let setup = setup::large_setup(number)?;
        let device = Arc::new(MemDevice::from_snapshot(&setup.base));
        let engine = setup.mount(device.clone(), 1000).map_err(|e| format!("mount: {e}"))?;
        let tree = fill(engine, &setup, number)?;
        Ok(Self { image: device.snapshot(), setup, tree })
    }

    /// Makes the same on a device that holds the empty volume of the setup. `image` is that volume.
    pub fn on(device: Arc<dyn BlockDevice>, setup: Setup, number: u64) -> Result<Self, String> {
        let engine =
            setup.mount_volume(device, 1000, Observer::default()).map_err(|e| format!("mount: {e}"))?;
        let tree = fill(engine, &setup, number)?;
        Ok(Self { image: setup.base.clone(), setup, tree })
    }

    /// The first difference of a recovered volume from the one that is wanted.
    #[must_use]
    pub fn difference(&self, mut found: Tree, mut wanted: Tree) -> Option<String> {
        if self.setup.contract() != Contract::Journal {
            // The chain gives directories their new names at the time of recovery.
            [&mut found, &mut wanted].into_iter().for_each(forget_times);
        }
        found.difference(&wanted)
    }
}

/// Makes the contents of a volume, and leaves it mounted.
fn fill(mut engine: Mounted, setup: &Setup, number: u64) -> Result<Tree, String> {
    let files = FILES.get(size(number)).copied().unwrap_or_default();
    let ops = contents(&mut Rng::new(number), files, setup.contract() != Contract::Journal);
    let mut model = setup.model.clone();
    for (step, op) in ops.iter().enumerate() {
        engine.set_time(time_of(step));
        model.set_time(time_of(step));
        let got = apply(&mut engine, &mut [None; 4], op);
        let expected = apply(&mut model, &mut [None; 4], op);
        if got != expected {
            return Err(format!("{op}: got {got:?}, expected {expected:?}"));
        }
    }
    Ok(Tree::of_model(&model))
}

fn forget_times(tree: &mut Tree) {
    tree.inodes.values_mut().filter(|i| i.is_dir()).for_each(|dir| dir.times = Times::default());
}

/// Makes directories and files. With `each` every file is synced when it is complete, else everything at the end.
fn contents(rng: &mut Rng, files: u16, each: bool) -> Vec<Op> {
    let dirs: Vec<Path> = (0..DIRS).map(|n| Path::root().join(Name(Name::MANY + n))).collect();
    let mut ops: Vec<Op> = dirs.iter().map(|at| Op::Mkdir { at: at.clone(), mode: 0o755, who: 0 }).collect();
    ops.extend(each.then_some(Op::Sync));
    let dir = |n: u64| dirs.get(n as usize).cloned().unwrap_or_else(Path::root);
    for n in 0..files {
        let at = dir((n % DIRS).into()).join(Name(FIRST + n));
        file(rng, &mut ops, &at, n.into());
        if each {
            ops.push(Op::Fsync { of: at, datasync: false });
            continue;
        }
        let to = dir(rng.below(DIRS.into())).join(Name(FIRST + files + n));
        match rng.below(40) {
            0..=2 => ops.push(Op::Rename { from: at, to, mode: RenameMode::Replace }),
            3 | 4 => ops.push(Op::Link { of: at, at: to }),
            5 => ops.push(Op::Unlink { at }),
            _ => {}
        }
    }
    ops.extend((!each).then_some(Op::Sync));
    ops
}

fn file(rng: &mut Rng, ops: &mut Vec<Op>, at: &Path, tag: u32) {
    let of = || at.clone();
    ops.push(Op::Mknod { at: of(), kind: FileType::Regular, mode: 0o644, who: rng.below(3) as u8 });
    // Most fit into their inodes, some have blocks.
    let len = if rng.one_in(50) { 6_000 } else { 60 + rng.below(200) as u32 };
    ops.push(Op::Write { of: of(), offset: 0, len, tag });
    if rng.one_in(2) {
        let name = rng.pick(&[0, 2, 3]);
        ops.push(Op::SetXattr { of: of(), name, len: 8 + rng.below(30) as u16, tag, mode: XattrMode::Set });
    }
    match rng.below(8) {
        0 => ops.push(Op::Chattr { of: of(), flags: InodeFlags::NODUMP }),
        1 => ops.push(Op::Chmod { of: of(), mode: 0o600 }),
        2 => ops.push(Op::Utimens { of: of(), secs: 77, nsec: tag % 1000 }),
        3 => ops.push(Op::Chown { of: of(), uid: 5, gid: 6 }),
        _ => {}
    }
}
