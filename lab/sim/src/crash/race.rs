//! Power cuts while two threads work: the second one starts inside a device call of the first, at each call in turn.
//!
//! Interleavings at device calls are thus enumerated instead of left to a scheduler. The first thread waits for the second
//! inside its call, with a timeout: the second may need a lock that the first one holds.
use super::history::{BEGIN, END, Recorded, Recorder, record_steps, since};
use super::workload::{A, B, C, D, E, Workload, create, few, write};
use crate::mounted::Mounted;
use crate::op::{Handles, Name, Op, Outcome, Path, apply};
use crate::setup;
use segno_device::{BlockDevice, MemDevice, Snapshot};
use segno_engine::{Observer, RenameMode};
use segno_testkit::rng::mix;
use segno_testkit::{CrashLog, FlushRegion, PauseDevice, RecordDevice};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The first thread waits for the second until that has ended, or has slept for so long: it waits for the first.
const ASLEEP: Duration = Duration::from_millis(3);
/// A thread that takes longer hangs.
const FOREVER: Duration = Duration::from_secs(30);
/// Device calls of the first operation at which the second thread starts.
const CALLS: u64 = 8;

/// Operations of the second thread during the last operation of the first.
#[derive(Clone, Debug)]
pub struct Race {
    /// Device call of the first thread in which it starts, counted from 0.
    pub call: u64,
    pub ops: Vec<Op>,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ops: Vec<String> = self.ops.iter().map(ToString::to_string).collect();
        write!(f, "in device call {} of the last: {}", self.call, ops.join(", "))
    }
}

/// Number of races.
#[must_use]
pub fn races() -> u64 {
    on_others() + on_one_file().len() as u64 * CALLS
}

/// Those whose threads use one file.
pub fn races_on_one_file() -> Range<u64> {
    on_others()..races()
}

/// Number of those whose threads use other inodes.
fn on_others() -> u64 {
    first().len() as u64 * second().len() as u64 * CALLS
}

/// Races that show mistakes which hardly anything else shows: a checkpoint in the first device call of an fsync of many
/// blocks; and in each call of a checkpoint that does not keep operations out, a new file or directory that is synced, or a
/// new one and a change of a file that the checkpoint is about to write.
pub fn telling_races() -> Result<Vec<u64>, String> {
    // Places among the first and the second sequences.
    let (large, sync, commit, changed, file, dir, made_and_changed) = (1, 4, 5, 10, 2, 7, 8);
    let of = |first_at: u64, second_at: u64, call: u64| {
        first_at + first().len() as u64 * (second_at + second().len() as u64 * call)
    };
    let mut all = vec![on("default", of(large, commit, 0))?];
    for call in 0..CALLS {
        for (first, second) in [(changed, made_and_changed), (sync, file), (sync, dir)] {
            all.push(on("concurrent", of(first, second, call))?);
        }
    }
    Ok(all)
}

/// The number under which a race is on some setup.
fn on(name: &str, number: u64) -> Result<u64, String> {
    let setup = setup::named(name)?;
    let mut numbers = (0..1000).map(|n| number + n * races());
    numbers.find(|&n| mix(n) % setup::common() == setup).ok_or_else(|| format!("no race on {name}"))
}

/// One of the races.
pub fn race(number: u64, on: Option<&str>) -> Result<Workload, String> {
    let (first, second) = (first(), second());
    let (n, m) = (first.len() as u64, second.len() as u64);
    let pick = |all: &[Vec<Op>], n: u64| all.get(n as usize).cloned().ok_or("no such race");
    let place = number % races();
    let (ops, race) = match place.checked_sub(on_others()) {
        None => (pick(&first, place % n)?, Race { call: place / n / m, ops: pick(&second, place / n % m)? }),
        Some(at) => {
            let (ops, others) = on_one_file().into_iter().nth((at / CALLS) as usize).ok_or("no such race")?;
            (ops, Race { call: at % CALLS, ops: others })
        }
    };
    Ok(Workload { race: Some(race), ..few(setup::chosen(on, mix(number))?, ops) })
}

fn fsync(of: &Path) -> Op {
    Op::Fsync { of: of.clone(), datasync: false }
}

/// Sequences whose last operation is interrupted: one that changes nothing, but makes changes durable or
/// moves blocks.
fn first() -> Vec<Vec<Op>> {
    let (a, de) = (Path::of(&[A]), Path::of(&[D]).join(Name(E)));
    let small = write(&a, 0, 9000, 60);
    let large = write(&a, 4096, 300_000, 61);
    let new = [create(de.clone()), write(&de, 0, 9000, 62)];
    vec![
        vec![small.clone(), fsync(&a)],
        vec![large.clone(), fsync(&a)],
        [new.to_vec(), vec![fsync(&de)]].concat(),
        [new.to_vec(), vec![fsync(&Path::of(&[D]))]].concat(),
        [new.to_vec(), vec![small.clone(), Op::Sync]].concat(),
        vec![large.clone(), fsync(&Path::root())],
        vec![large, fsync(&a), Op::Truncate { of: a.clone(), size: 5000 }, fsync(&a)],
        vec![small.clone(), Op::Link { of: a.clone(), at: de }, fsync(&a)],
        vec![small.clone(), Op::Clean],
        // In separate direct nodes.
        vec![write(&a, 5_000_000, 9000, 63), fsync(&a)],
        // A file that the interrupting thread changes, too; directories are written before files.
        vec![create(Path::of(&[D]).join(Name(E))), write(&Path::of(&[B]), 0, 9000, 64), Op::Sync],
        // Cleaning finds closed segments, and no page that it moves is dirty.
        vec![write(&a, 0, 5_000_000, 65), Op::Sync, small, Op::Sync, Op::Clean],
    ]
}

/// Sequences, each with the operations of the second thread during the last one: a change of the file that is written back,
/// then an fsync. That operation promises only the state in which it began.
fn on_one_file() -> Vec<(Vec<Op>, Vec<Op>)> {
    let a = Path::of(&[A]);
    let first = [vec![write(&a, 4096, 300_000, 61), fsync(&a)], vec![write(&a, 0, 40_000, 60), Op::Sync]];
    let changes = [write(&a, 4096, 5000, 74), write(&a, 20_480, 4096, 75), write(&a, 300_000, 20_000, 76)];
    let with = |ops: &Vec<Op>| changes.clone().map(|change| (ops.clone(), vec![change, fsync(&a)]));
    first.iter().flat_map(with).collect()
}

/// Operations of the second thread, on inodes that the last operation of the first thread does not touch.
fn second() -> Vec<Vec<Op>> {
    let (a, b, c, e) = (Path::of(&[A]), Path::of(&[B]), Path::of(&[C]), Path::of(&[E]));
    let ca = c.join(Name(A));
    let over = Op::Rename { from: b.clone(), to: ca.clone(), mode: RenameMode::Replace };
    vec![
        vec![Op::Sync],
        vec![write(&b, 100, 9000, 70), fsync(&b)],
        vec![create(e.clone()), write(&e, 0, 9000, 71), fsync(&e)],
        vec![Op::Unlink { at: ca.clone() }, Op::Sync],
        vec![Op::Clean, Op::Sync],
        vec![write(&b, 0, 9000, 72), over, fsync(&Path::root())],
        vec![fsync(&a)],
        vec![
            Op::Mkdir { at: e.clone(), mode: 0o755, who: 0 },
            fsync(&ca),
            write(&ca, 0, 5000, 73),
            fsync(&ca),
        ],
        vec![create(e), Op::Chmod { of: b, mode: 0o600 }],
    ]
}

/// A completed operation.
struct Done {
    op: Op,
    got: Outcome,
    /// Its place in the order in which they ended, from 1, and how many had when it began.
    step: usize,
    before: usize,
    label: String,
}

type Paused = PauseDevice<Arc<dyn BlockDevice>>;
type Device = RecordDevice<Paused>;

/// The order in which operations end. It is the history, as the two threads do not touch the same inodes.
struct Order {
    device: Arc<Device>,
    ended: Mutex<usize>,
}

impl Order {
    /// Does one operation.
    fn run(&self, engine: &mut Mounted, handles: &mut Handles, label: String, op: &Op) -> Done {
        let before = self.mark(format!("{BEGIN}{label}"), 0);
        let got = apply(engine, handles, op);
        let step = self.mark(format!("{END}{label}"), 1);
        Done { op: op.clone(), got, step, before, label }
    }

    fn mark(&self, text: String, ended: usize) -> usize {
        let mut count = locked(&self.ended);
        *count += ended;
        self.device.mark(text);
        *count
    }
}

impl Race {
    /// Mounts the device and carries the operations of both threads out.
    pub(super) fn record(&self, base: &Snapshot, workload: &Workload) -> Result<Recorded, String> {
        let setup = &workload.setup;
        let memory = Arc::new(MemDevice::from_snapshot(base));
        let device: Arc<Device> = Arc::new(RecordDevice::new(PauseDevice::new(memory.clone())));
        let whole: Arc<dyn FlushRegion> = device.clone();
        let mut opened = setup.devices.open(&whole).map_err(|e| format!("open: {e}"))?;
        // In a call below the zones their write pointer is locked.
        let above = setup.devices.are_zoned().then(|| Arc::new(Paused::new(opened.volume.clone())));
        if let Some(above) = &above {
            opened.volume = above.clone();
        }
        let engine =
            setup.mount_opened(opened, 1000, Observer::default()).map_err(|e| format!("mount: {e}"))?;
        let main_start = engine.main_start();
        let mut recorder = Recorder::start(engine, setup.model.limits())?;
        let (base, mounted_at) = (memory.snapshot(), device.log().len());
        let (last, before) = workload.ops.split_last().ok_or("nothing to break into")?;
        record_steps(&mut recorder, before, &[], |text| device.mark(text))?;
        let paused = above.as_deref().unwrap_or(device.inner());
        let done = self.both(&mut recorder, &device, paused, last)?;
        let mut steps = BTreeMap::new();
        for one in done {
            recorder.note(&one.op, one.got, &[]).map_err(|what| format!("{}: {what}", one.label))?;
            recorder.history.about(one.before);
            steps.insert(one.label, one.step);
        }
        let log = CrashLog::new(base, since(device.log(), mounted_at)).map_err(|e| format!("log: {e}"))?;
        Ok(Recorded { history: recorder.history, log, main_start, steps })
    }

    /// Both threads' operations, in the order in which they ended.
    fn both(
        &self,
        recorder: &mut Recorder,
        device: &Arc<Device>,
        paused: &Paused,
        last: &Op,
    ) -> Result<Vec<Done>, String> {
        let ended = Mutex::new(recorder.history.promises.len());
        let order = Arc::new(Order { device: device.clone(), ended });
        let second = Arc::new(Second::new(recorder.engine.share(), order.clone(), self.ops.clone()));
        let breaks_in = second.clone();
        paused.set_hook(self.call, move || breaks_in.start_and_wait(ASLEEP));
        let first = recorder.with_handles(|engine, handles| order.run(engine, handles, "first".into(), last));
        // The operation may have made fewer calls. The second thread's calls must not be interrupted.
        paused.clear_hook();
        second.start_and_wait(FOREVER);
        let mut all = second.result()?;
        all.push(first);
        all.sort_by_key(|d| d.step);
        Ok(all)
    }
}

type Job = Box<dyn FnOnce() -> Vec<Done> + Send>;

/// The second thread.
struct Second {
    job: Mutex<Option<Job>>,
    running: Mutex<Option<JoinHandle<Vec<Done>>>>,
    /// The thread's status file.
    status: Arc<OnceLock<PathBuf>>,
}

impl Second {
    fn new(mut engine: Mounted, order: Arc<Order>, ops: Vec<Op>) -> Self {
        let status = Arc::new(OnceLock::new());
        let own = status.clone();
        let job = move || {
            if let Ok(task) = fs::read_link("/proc/thread-self") {
                own.get_or_init(|| PathBuf::from("/proc").join(task).join("stat"));
            }
            let mut handles = Handles::default();
            let run = |(n, op): (usize, &Op)| order.run(&mut engine, &mut handles, format!("second {n}"), op);
            ops.iter().enumerate().map(run).collect()
        };
        Self { job: Mutex::new(Some(Box::new(job))), running: Mutex::new(None), status }
    }

    /// Starts it, unless it was started, and waits until it has ended or has been asleep for some time. Time during which
    /// it could run does not count, however busy the machine is.
    fn start_and_wait(&self, asleep: Duration) {
        let mut running = locked(&self.running);
        if let Some(job) = locked(&self.job).take() {
            *running = Some(thread::spawn(job));
        }
        let begun = Instant::now();
        let mut awake = begun;
        while running.as_ref().is_some_and(|t| !t.is_finished()) && begun.elapsed() < FOREVER {
            if !self.is_asleep() {
                awake = Instant::now();
            } else if awake.elapsed() > asleep {
                return;
            }
            thread::sleep(Duration::from_micros(20));
        }
    }

    /// Whether the thread waits, from the state that follows the name in parentheses in its status.
    fn is_asleep(&self) -> bool {
        let status = self.status.get().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        status.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('R'))
    }

    fn result(&self) -> Result<Vec<Done>, String> {
        let thread = locked(&self.running).take().filter(JoinHandle::is_finished);
        let thread = thread.ok_or("the second thread does not come to an end")?;
        thread.join().map_err(|_| "the second thread panicked".into())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
