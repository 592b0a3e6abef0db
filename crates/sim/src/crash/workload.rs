//! What is done before the power goes.
use super::race::Race;
use super::scene::fill;
use crate::fs::errno;
use crate::op::{Name, Op, Outcome, Path, Profile, apply, generate};
use crate::rng::Rng;
use crate::setup::{self, Setup};
use segno_device::{MemDevice, Snapshot};
use segno_engine::{FallocMode, RenameMode, XattrMode, planted};
use segno_format::dentry::FileType;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What is on the volume before the first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// What [`prologue`] makes.
    Few,
    /// The same, and large files with holes until hardly any space is left.
    Full,
}

impl Start {
    /// Errors that an operation may have there though the model knows no reason.
    pub(crate) fn refusals(self) -> &'static [i32] {
        match self {
            Self::Few => &[],
            Self::Full => &[errno::ENOSPC],
        }
    }
}

/// Operations on a volume that holds something already.
#[derive(Clone, Debug)]
pub struct Workload {
    pub setup: Setup,
    pub start: Start,
    pub ops: Vec<Op>,
    /// An operation on which another thread breaks in.
    pub race: Option<Race>,
}

impl Workload {
    /// The volume before the first operation, cleanly unmounted.
    pub fn base(&self) -> Result<Snapshot, String> {
        static MADE: Mutex<Option<HashMap<(&'static str, Start), Snapshot>>> = Mutex::new(None);
        let mut made = MADE.lock().map_err(|e| e.to_string())?;
        let made = made.get_or_insert_default();
        let key = (self.setup.name, self.start);
        if let Some(base) = made.get(&key) {
            return Ok(base.clone());
        }
        let base = planted::without(|| self.make_base())?;
        made.insert(key, base.clone());
        Ok(base)
    }

    fn make_base(&self) -> Result<Snapshot, String> {
        let device = Arc::new(MemDevice::from_snapshot(&self.setup.base));
        let mut engine = self.setup.mount(device.clone(), 500).map_err(|e| format!("mount: {e}"))?;
        for op in prologue() {
            if let Outcome::Failed(e) = apply(&mut engine, &mut [None; 4], &op) {
                return Err(format!("{op}: errno {e}"));
            }
        }
        if self.start == Start::Full {
            fill(&mut engine).map_err(|e| format!("filling: errno {e}"))?;
        }
        engine.unmount().map_err(|e| format!("unmount: {e}"))?;
        Ok(device.snapshot())
    }
}

/// The letters of paths.
pub(super) const A: u16 = 0;
pub(super) const B: u16 = 1;
pub(super) const C: u16 = 2;
pub(super) const D: u16 = 3;
/// Not there at first.
pub(super) const E: u16 = 4;

pub(super) fn create(at: Path) -> Op {
    Op::Mknod { at, kind: FileType::Regular, mode: 0o644, who: 0 }
}

pub(super) fn write(of: &Path, offset: u64, len: u32, tag: u32) -> Op {
    Op::Write { of: of.clone(), offset, len, tag }
}

/// Four files, one small, one of several blocks, one below a directory, one empty; two directories, one empty.
fn prologue() -> Vec<Op> {
    let (a, b, c, d) = (Path::of(&[A]), Path::of(&[B]), Path::of(&[C]), Path::of(&[D]));
    let ca = c.join(Name(A));
    vec![
        create(a.clone()),
        write(&a, 0, 100, 1),
        Op::SetXattr { of: a, name: 0, len: 8, tag: 2, mode: XattrMode::Set },
        create(b.clone()),
        write(&b, 0, 20_000, 3),
        Op::Mkdir { at: c.clone(), mode: 0o755, who: 0 },
        Op::Mkdir { at: d, mode: 0o755, who: 0 },
        create(ca.clone()),
        write(&ca, 0, 9000, 4),
        create(c.join(Name(B))),
    ]
}

/// One operation of each kind, in the places that matter.
#[must_use]
pub fn small_set() -> Vec<Op> {
    let (a, b, c, d, e) = (Path::of(&[A]), Path::of(&[B]), Path::of(&[C]), Path::of(&[D]), Path::of(&[E]));
    let (ca, ce, de) = (c.join(Name(A)), c.join(Name(E)), d.join(Name(E)));
    let mut ops =
        vec![create(e.clone()), create(ce.clone()), Op::Mkdir { at: e.clone(), mode: 0o755, who: 0 }];
    ops.push(Op::Mknod { at: e.clone(), kind: FileType::CharDevice, mode: 0o600, who: 1 });
    ops.extend([30, 3600].map(|len| Op::Symlink { at: e.clone(), len }));
    for of in [&a, &b, &ca] {
        ops.extend([
            write(of, 10, 50, 20),
            write(of, 4096, 4096, 21),
            write(of, 30_000, 5000, 22),
            Op::Append { of: of.clone(), len: 6000, tag: 23 },
        ]);
        ops.extend([0, 50, 4096, 70_000].map(|size| Op::Truncate { of: of.clone(), size }));
        ops.push(Op::Unlink { at: of.clone() });
        ops.extend([8, 2000].map(|len| Op::SetXattr {
            of: of.clone(),
            name: 1,
            len,
            tag: 24,
            mode: XattrMode::Set,
        }));
        ops.push(Op::Chmod { of: of.clone(), mode: 0o600 });
        ops.push(Op::Link { of: of.clone(), at: e.clone() });
        ops.push(Op::Link { of: of.clone(), at: ce.clone() });
        ops.push(Op::Rename { from: of.clone(), to: e.clone(), mode: RenameMode::Replace });
    }
    ops.push(Op::RemoveXattr { of: a.clone(), name: 0 });
    for mode in [
        FallocMode::Allocate,
        FallocMode::AllocateKeepSize,
        FallocMode::PunchHole,
        FallocMode::ZeroRange,
        FallocMode::ZeroRangeKeepSize,
        FallocMode::CollapseRange,
        FallocMode::InsertRange,
    ] {
        ops.extend([(0, 4096), (4096, 8192), (16_384, 8192)].map(|(offset, len)| Op::Fallocate {
            of: b.clone(),
            mode,
            offset,
            len,
        }));
    }
    let rename = |from: &Path, to: &Path, mode| Op::Rename { from: from.clone(), to: to.clone(), mode };
    for (from, to) in [(&a, &b), (&a, &de), (&a, &ca), (&ca, &a), (&c, &d), (&d, &e), (&c, &de), (&d, &ce)] {
        ops.push(rename(from, to, RenameMode::Replace));
    }
    ops.extend([rename(&a, &ca, RenameMode::Exchange), rename(&c, &b, RenameMode::Exchange)]);
    ops.extend([rename(&a, &e, RenameMode::Whiteout), rename(&a, &ca, RenameMode::Whiteout)]);
    ops.push(Op::Rmdir { at: d.clone() });
    ops.push(Op::Chmod { of: c.clone(), mode: 0o700 });
    ops.push(Op::SetXattr { of: c, name: 1, len: 100, tag: 25, mode: XattrMode::Set });
    ops.push(Op::Tmpfile { dir: d, slot: 1 });
    ops.push(Op::Open { of: a, slot: 0 });
    ops.push(Op::Clean);
    ops
}

/// What makes things durable: of everything, of files, of directories.
fn persistence() -> Vec<Option<Op>> {
    let paths: [&[u16]; 9] = [&[A], &[B], &[C, A], &[E], &[C, E], &[D, E], &[], &[C], &[D]];
    let files = paths.iter().take(4);
    let fsync = |names: &&[u16], datasync| Some(Op::Fsync { of: Path::of(names), datasync });
    let mut all = vec![None, Some(Op::Sync), Some(Op::Remount)];
    all.extend(paths.iter().map(|p| fsync(p, false)));
    all.extend(files.map(|p| fsync(p, true)));
    all.push(Some(Op::Fsync { of: Path::handle(0), datasync: false }));
    all
}

/// Number of workloads of one operation and one persistence point.
#[must_use]
pub fn singles() -> u64 {
    (small_set().len() * persistence().len()) as u64
}

/// One of the workloads of one operation.
pub fn single(number: u64, on: Option<&str>) -> Result<Workload, String> {
    Ok(few(setup::chosen(on, number / singles())?, with_persistence(number)))
}

/// A workload of two, each perhaps followed by a persistence point.
pub fn pair(seed: u64, on: Option<&str>) -> Result<Workload, String> {
    let mut rng = Rng::new(seed);
    let mut ops = with_persistence(rng.draw());
    ops.extend(with_persistence(rng.draw()));
    Ok(few(setup::chosen(on, rng.draw())?, ops))
}

/// A workload of many operations, drawn.
pub fn drawn(seed: u64, on: Option<&str>) -> Result<Workload, String> {
    let mut rng = Rng::new(seed);
    let setup = setup::chosen(on, rng.draw())?;
    let profile = Profile { ops: 20, far: rng.one_in(8), many: false, durable: true };
    let mut model = setup.model.clone();
    for op in prologue() {
        apply(&mut model, &mut [None; 4], &op);
    }
    let mut ops = generate(&mut rng, profile, model);
    // A copy is many writes, of which any number may have been done.
    ops.retain(|op| !matches!(op, Op::Copy { .. }));
    Ok(few(setup, ops))
}

/// A workload on a volume with [`prologue`]'s files.
pub(super) fn few(setup: Setup, mut ops: Vec<Op>) -> Workload {
    let committed = |n: u32| [Op::Chmod { of: Path::of(&[B]), mode: 0o600 + (n % 2) as u16 }, Op::Sync];
    ops.splice(0..0, (0..setup.commits_first).flat_map(committed));
    Workload { setup, start: Start::Few, ops, race: None }
}

fn with_persistence(number: u64) -> Vec<Op> {
    let (ops, points) = (small_set(), persistence());
    let op = ops.get((number % ops.len() as u64) as usize).cloned();
    let point = points.get((number / ops.len() as u64 % points.len() as u64) as usize).cloned().flatten();
    op.into_iter().chain(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::record;
    use segno_device::Event;

    /// First blocks of the writes to the journal behind a common volume, in order.
    fn journal_writes(workload: &Workload) -> Vec<u64> {
        let recorded = record(&workload.base().unwrap(), workload).unwrap();
        let to = |e: &Event| match e {
            Event::Write { addr, .. } => addr.checked_sub(setup::COMMON),
            _ => None,
        };
        recorded.log.events().iter().filter_map(to).collect()
    }

    #[test]
    fn the_small_ring_wraps_around() {
        const SUPERBLOCKS: u64 = 2;
        let wraps = |seed| {
            let ring: Vec<u64> = journal_writes(&pair(seed, Some("smallring")).unwrap());
            let groups = ring.iter().filter(|&&at| at >= SUPERBLOCKS);
            groups.clone().zip(groups.skip(1)).filter(|(a, b)| b < a).count()
        };
        let wrapped = (0..40).filter(|&seed| wraps(seed) > 0).count();
        assert!(wrapped > 20, "{wrapped} of 40 sequences");
    }
}
