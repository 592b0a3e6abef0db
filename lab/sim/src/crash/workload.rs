//! Operations before a power cut.
use super::race::Race;
use super::scene::fill;
use super::set::{exhaustive, singles};
use crate::fs::errno;
use crate::op::{Name, Op, Outcome, Path, Profile, apply, generate};
use crate::setup::{self, Setup};
use segno_device::{MemDevice, Snapshot};
use segno_engine::XattrMode;
use segno_format::dentry::FileType;
use segno_testkit::Rng;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Contents of the volume before the first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// What [`prologue`] makes.
    Few,
    /// What [`prologue`] makes, and large files with holes until the volume is nearly full.
    Full,
}

impl Start {
    /// Errors that an operation may have there although the model has no reason for them.
    pub(crate) fn refusals(self) -> &'static [i32] {
        match self {
            Self::Few => &[],
            Self::Full => &[errno::ENOSPC],
        }
    }
}

/// Operations on a prepared volume.
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
        let base = self.make_base()?;
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
/// Initially absent.
pub(super) const E: u16 = 4;

pub(super) fn create(at: Path) -> Op {
    Op::Mknod { at, kind: FileType::Regular, mode: 0o644, who: 0 }
}

pub(super) fn write(of: &Path, offset: u64, len: u32, tag: u32) -> Op {
    Op::Write { of: of.clone(), offset, len, tag }
}

/// Five files, one small, one of several blocks, two below directories, one empty; three directories, one below another, one
/// empty.
fn prologue() -> Vec<Op> {
    let (a, b, c, d) = (Path::of(&[A]), Path::of(&[B]), Path::of(&[C]), Path::of(&[D]));
    let (ca, cc) = (c.join(Name(A)), c.join(Name(C)));
    let cca = cc.join(Name(A));
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
        Op::SetXattr { of: c, name: 0, len: 8, tag: 5, mode: XattrMode::Set },
        Op::Mkdir { at: cc, mode: 0o755, who: 0 },
        create(cca.clone()),
        write(&cca, 0, 5000, 6),
    ]
}

/// One of the workloads of [`singles`].
pub fn single(number: u64, on: Option<&str>) -> Result<Workload, String> {
    Ok(few(setup::chosen(on, number / singles())?, exhaustive(number % singles())))
}

/// A workload of two, each perhaps followed by a persistence point.
pub fn pair(seed: u64, on: Option<&str>) -> Result<Workload, String> {
    let mut rng = Rng::new(seed);
    let mut ops = exhaustive(rng.draw() % singles());
    ops.extend(exhaustive(rng.draw() % singles()));
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
    // A copy consists of many writes, any number of which may have been performed.
    ops.retain(|op| !matches!(op, Op::Copy { .. }));
    Ok(few(setup, ops))
}

/// A workload on a volume with [`prologue`]'s files.
pub(super) fn few(setup: Setup, mut ops: Vec<Op>) -> Workload {
    let committed = |n: u32| [Op::Chmod { of: Path::of(&[B]), mode: 0o600 + (n % 2) as u16 }, Op::Sync];
    ops.splice(0..0, (0..setup.commits_first).flat_map(committed));
    Workload { setup, start: Start::Few, ops, race: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::record;
    use segno_testkit::Event;

    /// First blocks of the writes to the journal after the end of a common volume, in order.
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
