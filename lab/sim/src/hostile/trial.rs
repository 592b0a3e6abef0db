//! One damaged volume: check it, mount it, read everything, change something, unmount.
use super::base::Base;
use super::edit::{Image, Place};
use super::guard::Guard;
use crate::mounted::FixedClock;
use segno_device::{BlockDevice, MemDevice};
use segno_engine::lab::{self, Probe};
use segno_engine::{Clock, Error, FallocMode, MountOptions, Owner, RenameMode, SetAttr, Volume, XattrMode};
use segno_format::dentry::FileType;
use segno_format::{BLOCK_SIZE, Ino};
use segno_testkit::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Limits of blocks read and written by a check and by a session. Undamaged volumes need a tenth.
const CHECK_STEPS: u64 = 200_000;
const SESSION_STEPS: u64 = 400_000;
/// Names and inodes that a walk visits; the volumes have fewer.
const NAMES: usize = 2_000;
/// One of `READ_ONLY` sessions is on a read-only mount, of the checkpoint alone.
const READ_ONLY: u64 = 6;
/// Ranges of a file that are read.
const RANGES: usize = 40;

/// Stages that an image passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub checked: bool,
    /// The checker found nothing.
    pub clean: bool,
    pub mounted: bool,
    pub unmounted: bool,
}

/// Errors that report damage although the checker found none.
struct Session {
    volume: Arc<Volume>,
    damage: Option<String>,
}

/// Runs an image; an error is a violation.
pub fn run(base: &Base, image: &Image) -> Result<Outcome, String> {
    let device = MemDevice::from_snapshot(&base.image);
    base.layout.apply(&device, &image.edits, image.sealed)?;
    let guard = Arc::new(Guard::new(device, CHECK_STEPS));
    let mut outcome = Outcome::default();
    let problems = check(&guard).map_err(|e| format!("check: {e}"))?;
    outcome.checked = problems.is_some();
    // The checker does not judge the blocks that fsync wrote after the checkpoint. If the older pack is in
    // force, more blocks follow it.
    let unjudged = |p: Place| {
        matches!(p, Place::Chain(_) | Place::Journal(_) | Place::Checkpoint | Place::CheckpointEnd(_))
    };
    let judged = !image.edits.iter().any(|e| unjudged(e.place));
    outcome.clean = judged && problems.as_ref().is_some_and(Vec::is_empty);
    guard.allow(SESSION_STEPS);
    let (writes, read_only) = (guard.writes(), image.session.is_multiple_of(READ_ONLY));
    let ended = session(base, &guard, image.session, &mut outcome);
    guard.verdict()?;
    if read_only && guard.writes() != writes {
        return Err("a read-only mount wrote to the device".into());
    }
    if outcome.clean {
        ended.map_err(|e| format!("the checker found nothing, and yet: {e}"))?;
    }
    guard.allow(CHECK_STEPS);
    let after = check(&guard).map_err(|e| format!("check afterwards: {e}"))?;
    let after = after.and_then(|p| p.into_iter().next());
    match after {
        Some(problem) if outcome.clean => Err(format!("clean before, and after a session: {problem}")),
        _ => again(base, &guard, outcome),
    }
}

/// Mounts a damaged volume again after changes.
fn again(base: &Base, guard: &Arc<Guard>, outcome: Outcome) -> Result<Outcome, String> {
    if outcome.unmounted {
        guard.allow(SESSION_STEPS);
        if let Ok(volume) = mount(base, guard, false) {
            let _any = volume.unmount();
        }
        guard.verdict().map_err(|e| format!("mounted again: {e}"))?;
    }
    Ok(outcome)
}

/// The problems found; `None` where there is no volume.
fn check(guard: &Arc<Guard>) -> Result<Option<Vec<String>>, String> {
    let options = segno_check::CheckOptions { max_problems: 4, ..Default::default() };
    let report = segno_check::check(&**guard, &options, &mut |_| {});
    segno_testkit::decoders::compare(&**guard)?;
    guard.verdict()?;
    Ok(report.ok().map(|r| r.problems.iter().map(ToString::to_string).collect()))
}

fn mount(base: &Base, guard: &Arc<Guard>, read_only: bool) -> Result<Arc<Volume>, Error> {
    let device: Arc<dyn BlockDevice> = guard.clone();
    let clock: Arc<dyn Clock> = Arc::new(FixedClock::default());
    let options = MountOptions { read_only, ..base.mount_options() };
    lab::mount(device, options, clock)
}

/// Only errors that report damage are returned.
fn session(base: &Base, guard: &Arc<Guard>, seed: u64, outcome: &mut Outcome) -> Result<(), String> {
    let volume = mount(base, guard, seed.is_multiple_of(READ_ONLY)).map_err(|e| format!("mount: {e}"))?;
    outcome.mounted = true;
    let mut session = Session { volume, damage: None };
    let inodes = session.walk();
    session.change(&inodes, &mut Rng::new(seed));
    session.walk();
    let ended = session.volume.unmount();
    outcome.unmounted = ended.is_ok();
    session.note("unmount", ended);
    session.damage.map_or(Ok(()), Err)
}

impl Session {
    fn note<T>(&mut self, what: &str, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(v) => Some(v),
            Err(e) => {
                if matches!(e, Error::Corrupt(_) | Error::Stopped | Error::Io { .. }) {
                    self.damage.get_or_insert_with(|| format!("{what}: {e}"));
                }
                None
            }
        }
    }

    /// Reads all names, attributes and contents that can be reached.
    fn walk(&mut self) -> Vec<(Ino, FileType)> {
        let v = self.volume.clone();
        let mut seen = BTreeSet::from([v.root()]);
        let (mut todo, mut found) = (vec![v.root()], vec![(v.root(), FileType::Directory)]);
        while let Some(dir) = todo.pop() {
            let mut names: Vec<Vec<u8>> = Vec::new();
            let listed = v.readdir(dir, 0, &mut |e| {
                names.push(e.name.to_vec());
                names.len() < NAMES
            });
            self.note("readdir", listed);
            for name in names.iter().filter(|n| !matches!(&n[..], b"." | b"..")) {
                let Some(attr) = self.note("lookup", v.lookup(dir, name)) else { continue };
                if found.len() < NAMES && seen.insert(attr.ino) {
                    found.push((attr.ino, attr.kind));
                    if attr.kind == FileType::Directory {
                        todo.push(attr.ino);
                    }
                }
            }
        }
        for &(ino, kind) in &found {
            self.visit(ino, kind);
        }
        found
    }

    fn visit(&mut self, ino: Ino, kind: FileType) {
        let v = self.volume.clone();
        self.note("getattr", v.getattr(ino));
        let names = self.note("listxattr", v.listxattr(ino)).unwrap_or_default();
        for name in names.split(|&b| b == 0).filter(|n| !n.is_empty()).take(20) {
            self.note("getxattr", v.getxattr(ino, name));
        }
        match kind {
            FileType::Symlink => {
                self.note("readlink", v.readlink(ino));
            }
            FileType::Regular => self.read(ino),
            _ => {}
        }
    }

    fn read(&mut self, ino: Ino) {
        let v = self.volume.clone();
        let mut buf = vec![0; 8 * BLOCK_SIZE];
        self.note("extents", v.extents(ino));
        let mut at = 0;
        for _ in 0..RANGES {
            let Some(data) = self.note("seek_data", v.seek_data(ino, at)) else { break };
            let hole = self.note("seek_hole", v.seek_hole(ino, data)).unwrap_or(data);
            self.note("read", v.read(ino, data, &mut buf));
            self.note("read", v.read(ino, hole.saturating_sub(BLOCK_SIZE as u64), &mut buf));
            at = hole.max(data.saturating_add(1));
        }
    }

    /// Changes existing files and creates new ones.
    fn change(&mut self, inodes: &[(Ino, FileType)], rng: &mut Rng) {
        let v = self.volume.clone();
        let me = Owner::default();
        let dirs: Vec<Ino> = inodes.iter().filter(|i| i.1 == FileType::Directory).map(|i| i.0).collect();
        for step in 0..12u8 {
            let pick = |rng: &mut Rng, from: &[Ino]| from.get(rng.below(from.len() as u64) as usize).copied();
            let Some(dir) = pick(rng, &dirs) else { return };
            let Some(&(ino, _)) = inodes.get(rng.below(inodes.len() as u64) as usize) else { return };
            let name = [b'z', b'0' + step];
            let far = rng.pick(&[0, 3 * 4096, 950 * 4096, 3_000 * 4096, 1_040_000 * 4096, u64::MAX >> 1]);
            let data = vec![step; 3 * BLOCK_SIZE];
            match rng.below(14) {
                0 => {
                    self.note("mkdir", v.mkdir(dir, &name, 0o755, me));
                }
                1 => {
                    if let Some(new) = self.note("create", v.create(dir, &name, 0o644, me)) {
                        self.note("write", v.write(new.ino, far, &data));
                        self.note("fsync", v.fsync(new.ino));
                    }
                }
                2 => {
                    self.note("write", v.write(ino, far, &data));
                }
                3 => {
                    let size = Some(far);
                    self.note("truncate", v.setattr(ino, &SetAttr { size, ..SetAttr::default() }));
                }
                4 => {
                    let value = data.get(..100 * usize::from(step)).unwrap_or_default();
                    self.note("setxattr", v.setxattr(ino, b"user.z", value, XattrMode::Set));
                }
                5 => self.remove(dir, rng),
                6 => {
                    self.note("link", v.link(ino, dir, &name));
                }
                7 => {
                    if let (Some(old), Some(to)) = (self.some_name(dir, rng), pick(rng, &dirs)) {
                        let done = v.rename(dir, &old, to, &name, RenameMode::Replace, me);
                        self.note("rename", done);
                    }
                }
                8 => {
                    self.note("punch", v.fallocate(ino, FallocMode::PunchHole, far, 64 * 4096));
                }
                9 => {
                    self.note("allocate", v.fallocate(ino, FallocMode::Allocate, far, 9 * 4096));
                }
                10 => {
                    self.note("clean", Probe(&v).clean_once());
                }
                11 => {
                    self.note("sync", v.sync());
                }
                12 => {
                    self.note("collapse", v.fallocate(ino, FallocMode::CollapseRange, 0, 4096));
                }
                _ => {
                    self.note("fsync", v.fsync(ino));
                }
            }
        }
    }

    fn some_name(&mut self, dir: Ino, rng: &mut Rng) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        let listed = self.volume.clone().readdir(dir, 0, &mut |e| {
            names.push(e.name.to_vec());
            names.len() < NAMES
        });
        self.note("readdir", listed);
        names.retain(|n| n != b"." && n != b"..");
        names.get(rng.below(names.len() as u64) as usize).cloned()
    }

    fn remove(&mut self, dir: Ino, rng: &mut Rng) {
        if let Some(name) = self.some_name(dir, rng) {
            let v = self.volume.clone();
            let gone = v.unlink(dir, &name);
            if matches!(gone, Err(Error::IsDir)) {
                self.note("rmdir", v.rmdir(dir, &name));
            } else {
                self.note("unlink", gone);
            }
        }
    }
}
