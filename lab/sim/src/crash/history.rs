//! The operations of a run, the guarantees they gave, and the log of the device.
use super::workload::Workload;
use crate::capture::{Tree, read_file};
use crate::compare::time_of;
use crate::fs::{Fs, Node, errno};
use crate::model::{Content, Inode, Limits, Model, ROOT};
use crate::mounted::{Identity, Mounted};
use crate::op::{Handles, Op, Outcome, apply, resolve};
use segno_device::{MemDevice, Snapshot};
use segno_engine::{RenameMode, Time};
use segno_format::dentry::FileType;
use segno_testkit::{CrashLog, Event, RecordDevice};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Marks around an operation, followed by its step or label.
pub(super) const BEGIN: &str = "begin ";
pub(super) const END: &str = "end ";

/// The guarantee of an operation that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    Nothing,
    /// Everything done so far is durable.
    All,
    /// This inode is durable, and the name it has.
    Node(Node),
    /// The call for this inode failed: the inode may be durable or not.
    Attempt(Node),
}

/// The guarantee of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promised {
    pub step: usize,
    /// The newest state covered by the guarantee: the step's own, unless another thread continued meanwhile.
    pub state: usize,
    pub promise: Promise,
}

/// A sequence of operations. Step `k` leads from state `k - 1` to state `k`; the first step is 1.
#[derive(Clone, Debug)]
pub struct History {
    pub states: Vec<Model>,
    pub promises: Vec<Promised>,
    pub identities: BTreeMap<Identity, Node>,
    /// Steps in which an inode replaced another file under its name: under the new name it must hold at least what it held when it
    /// got that name.
    pub replaced: Vec<(usize, Node)>,
    /// Files that a failed operation changed in part, and whose state could not be read because the device
    /// failed.
    pub doubtful: BTreeSet<Node>,
    /// Written data and times of regular files reach the volume later, as with the kernel's writeback cache.
    pub cached: bool,
}

/// The time of a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// Steps that had returned, and that had begun.
    pub returned: usize,
    pub begun: usize,
}

impl History {
    /// Promises of the steps `1..=last`.
    pub fn promises_to(&self, last: usize) -> impl Iterator<Item = Promised> {
        self.promises.iter().copied().take(last)
    }

    /// Adds a promise about the newest state, in a separate step.
    pub fn promise(&mut self, promise: Promise) {
        let step = self.promises.len() + 1;
        self.promises.push(Promised { step, state: step, promise });
    }

    /// The last promise is about an older state.
    pub fn about(&mut self, state: usize) {
        if let Some(last) = self.promises.last_mut() {
            last.state = state;
        }
    }
}

/// A history and the log of the device under it.
pub struct Recorded {
    pub history: History,
    pub log: CrashLog,
    /// First block of the main area.
    pub main_start: u64,
    /// Steps of operations that have a label.
    pub steps: BTreeMap<String, usize>,
}

impl Recorded {
    /// The steps that had started and returned at a length of the log.
    #[must_use]
    pub fn moment(&self, cut: usize) -> Moment {
        let mut moment = Moment { returned: 0, begun: 0 };
        for mark in self.log.marks(cut) {
            if let Some(label) = mark.strip_prefix(BEGIN) {
                let step = self.steps.get(label).copied().or_else(|| label.parse().ok()).unwrap_or(0);
                moment.begun = moment.begun.max(step);
            } else {
                moment.returned += 1;
            }
        }
        moment.begun = moment.begun.max(moment.returned);
        moment
    }
}

/// Mounts the device and carries the operations out; each must give the result the model gives.
pub fn record(base: &Snapshot, workload: &Workload) -> Result<Recorded, String> {
    let setup = &workload.setup;
    let device = Arc::new(RecordDevice::new(MemDevice::from_snapshot(base)));
    let engine = setup.mount(device.clone(), 1000).map_err(|e| format!("mount: {e}"))?;
    let main_start = engine.main_start();
    let mut recorder = Recorder::start(engine, setup.model.limits())?;
    // A mount returns when what it did is durable.
    let (base, mounted_at) = (device.inner().snapshot(), device.log().len());
    record_steps(&mut recorder, &workload.ops, workload.start.refusals(), |text| device.mark(text))?;
    let events = since(device.log(), mounted_at);
    let log = CrashLog::new(base, events).map_err(|e| format!("log: {e}"))?;
    Ok(Recorded { history: recorder.history, log, main_start, steps: BTreeMap::new() })
}

/// Carries operations out one after the other, with marks around each.
pub(super) fn record_steps(
    recorder: &mut Recorder,
    ops: &[Op],
    may_refuse: &[i32],
    mark: impl Fn(String),
) -> Result<(), String> {
    for (step, op) in (1..).zip(ops) {
        mark(format!("{BEGIN}{step}"));
        let got = recorder.apply(op);
        mark(format!("{END}{step}"));
        recorder.note(op, got, may_refuse).map_err(|what| format!("step {step}: {what}"))?;
    }
    Ok(())
}

/// The end of a log as a separate log.
pub fn since(mut log: Vec<Event>, start: usize) -> Vec<Event> {
    let mut events = log.split_off(start.min(log.len()));
    for event in &mut events {
        if let Event::Flush { covers, .. } = event {
            *covers = covers.saturating_sub(start);
        }
    }
    events
}

/// Identities of all inodes of a tree.
pub fn identify(engine: &Mounted, tree: &Tree) -> Result<BTreeMap<Node, Identity>, String> {
    let one = |&n: &Node| engine.identity(n).map(|id| (n, id)).map_err(|e| format!("stat: errno {e}"));
    tree.inodes.keys().map(one).collect()
}

/// The inodes of a tree under other numbers.
pub fn renumbered(tree: &Tree, number: impl Fn(Node) -> Node) -> BTreeMap<Node, Inode> {
    let mut inodes = BTreeMap::new();
    for (&node, inode) in &tree.inodes {
        let mut inode = inode.clone();
        if let Content::Dir { names, parent } = &mut inode.content {
            names.values_mut().for_each(|n| *n = number(*n));
            *parent = number(*parent);
        }
        inodes.insert(number(node), inode);
    }
    inodes
}

/// Carries operations out on the engine and keeps the history.
pub struct Recorder {
    pub engine: Mounted,
    pub history: History,
    handles: Handles,
    model_handles: Handles,
    now: Time,
}

impl Recorder {
    /// Starts with the contents of the volume.
    pub fn start(mut engine: Mounted, limits: Limits) -> Result<Self, String> {
        let tree = Tree::capture(&mut engine)?;
        let number = |n: Node| if n == tree.root { ROOT } else { n };
        let identities = identify(&engine, &tree)?.into_iter().map(|(n, id)| (id, number(n))).collect();
        let mut inodes = renumbered(&tree, number);
        for inode in inodes.values_mut().filter(|inode| is_regular(inode)) {
            inode.stored = Some(limits.stored_of_new(inode.compression.is_some()));
        }
        let model = Model::from_inodes(limits, inodes);
        let history = History {
            states: vec![model],
            promises: Vec::new(),
            identities,
            replaced: Vec::new(),
            doubtful: BTreeSet::new(),
            cached: engine.is_cached(),
        };
        let now = time_of(0);
        engine.set_time(now);
        Ok(Self { engine, history, handles: [None; 4], model_handles: [None; 4], now })
    }

    /// Carries the next step out on the engine.
    pub fn apply(&mut self, op: &Op) -> Outcome {
        self.now = time_of(self.history.promises.len());
        self.engine.set_time(self.now);
        apply(&mut self.engine, &mut self.handles, op)
    }

    /// The caller carries out the next steps; the clock does not advance for them.
    pub fn with_handles<T>(&mut self, f: impl FnOnce(&mut Mounted, &mut Handles) -> T) -> T {
        f(&mut self.engine, &mut self.handles)
    }

    /// Does the same to the model and compares. The engine may have refused with one of some errors; the step then
    /// changes nothing. Returns whether it did.
    pub fn note(&mut self, op: &Op, got: Outcome, may_refuse: &[i32]) -> Result<bool, String> {
        let before = self.history.states.last().cloned().ok_or("no state")?;
        let handles = self.model_handles;
        let mut model = before.clone();
        model.set_time(self.now);
        let synced = match op {
            Op::Fsync { of, .. } => resolve(&mut model, &self.model_handles, of).ok(),
            _ => None,
        };
        let op = &cut_short(op, &got, may_refuse);
        let expected = apply(&mut model, &mut self.model_handles, op);
        let equal = got == expected || matches!(got, Outcome::Place(_));
        let refused = !equal && matches!(got, Outcome::Failed(e) if may_refuse.contains(&e));
        if refused {
            let after = std::mem::replace(&mut model, before.clone());
            self.adopt_half_done(op, &mut model, &after)?;
            self.adopt_times(&mut model, &before);
            self.model_handles = handles;
            // A handle is released even if that reports an error.
            for (ours, theirs) in self.model_handles.iter_mut().zip(&self.handles) {
                *ours = ours.filter(|_| theirs.is_some());
            }
        } else if !equal {
            return Err(format!("{op}: got {got:?}, expected {expected:?}"));
        }
        let failed = matches!(got, Outcome::Failed(_));
        self.history.promise(match (op, synced) {
            (Op::Sync | Op::Remount, _) if !failed => Promise::All,
            (Op::Fsync { .. }, Some(node)) if failed => Promise::Attempt(node),
            (Op::Fsync { .. }, Some(node)) => Promise::Node(node),
            _ => Promise::Nothing,
        });
        if !refused {
            self.identify_new(&model)?;
            self.note_replaced(op, &before, failed);
        }
        self.history.states.push(model);
        Ok(refused)
    }

    fn note_replaced(&mut self, op: &Op, before: &Model, failed: bool) {
        let Op::Rename { from, to, mode: RenameMode::Replace | RenameMode::Whiteout } = op else { return };
        let mut before = before.clone();
        let mut find = |path| resolve(&mut before, &self.model_handles, path).ok();
        if let (Some(node), Some(target), false) = (find(from), find(to), failed)
            && node != target
        {
            self.history.replaced.push((self.history.promises.len(), node));
        }
    }

    /// A change of data that failed may have been made in part: the model takes over what each block became.
    fn adopt_half_done(&mut self, op: &Op, model: &mut Model, after: &Model) -> Result<(), String> {
        let of = match op {
            Op::Write { of, .. }
            | Op::Append { of, .. }
            | Op::Truncate { of, .. }
            | Op::Fallocate { of, .. } => of,
            _ => return Ok(()),
        };
        let Ok(node) = resolve(model, &self.model_handles, of) else { return Ok(()) };
        let found = resolve(&mut self.engine, &self.handles, of).and_then(|n| read_file(&mut self.engine, n));
        let Ok(found) = found else {
            self.history.doubtful.insert(node);
            return Ok(());
        };
        model.adopt(node, after, found).map_err(|e| format!("{op} failed halfway: {e}"))
    }

    /// A failed operation may have changed times, or have changed an inode without updating its times.
    fn adopt_times(&mut self, model: &mut Model, before: &Model) {
        for (id, &node) in &self.history.identities {
            if let Ok(attr) = self.engine.getattr(id.ino) {
                model.adopt_times(node, before, &attr, self.now);
            }
        }
    }

    /// Records the inode numbers of the inodes created by the last step.
    fn identify_new(&mut self, model: &Model) -> Result<(), String> {
        let known: BTreeMap<Node, Node> =
            self.history.identities.iter().map(|(id, &node)| (node, id.ino)).collect();
        for &node in model.inodes().keys().filter(|n| !known.contains_key(n)) {
            let slot = self.model_handles.iter().position(|&h| h == Some(node));
            let ino = match (model.names_of(node).pop_first(), slot) {
                (Some((dir, name)), _) => {
                    let dir = known.get(&dir).copied().ok_or("a new inode in an unknown directory")?;
                    self.engine.lookup(dir, &name).map_err(|e| format!("lookup: errno {e}"))?
                }
                (None, Some(slot)) => self.handles.get(slot).copied().flatten().ok_or("no handle")?,
                (None, None) => continue,
            };
            let id = self.engine.identity(ino).map_err(|e| format!("stat: errno {e}"))?;
            self.history.identities.insert(id, node);
        }
        Ok(())
    }
}

/// Result of a write that ran out of space.
fn cut_short(op: &Op, got: &Outcome, may_refuse: &[i32]) -> Op {
    let mut op = op.clone();
    if let (Op::Write { len, .. } | Op::Append { len, .. }, Outcome::Count(n)) = (&mut op, got)
        && may_refuse.contains(&errno::ENOSPC)
    {
        *len = (*n).min(u64::from(*len)) as u32;
    }
    op
}

/// Whether an fsync of the inode may be logged instead of checkpointed.
#[must_use]
pub fn is_regular(inode: &Inode) -> bool {
    inode.kind == FileType::Regular
}
