//! Power cuts at every write of a random run, with reordered and torn writes, and again during recovery.
//!
//! A model keeps every state of each file. Marks in the device log show which states were acknowledged by fsync or
//! sync, and which had begun. After a cut each block of a file must be from a state no older than the acknowledged
//! one, and a file whose newest state is acknowledged must be complete.
use super::*;
use segno_engine::lab::Probe;
use segno_engine::options::CheckpointMode;
use segno_format::Block;
use segno_mkfs::Member;
use segno_testkit::{CrashLog, CrashPlan, CrashStates, Event, RecordDevice, Rng};
use std::collections::{BTreeMap, BTreeSet};

const FILES: usize = 5;
/// No background flushes.
const LARGE: usize = 64 << 20;
/// A cache of a few blocks.
const SMALL: usize = 10 * BLOCK;
/// Written blocks: in the inode, and in two direct nodes.
const PLACES: [u64; 8] = [0, 1, 2, 5, 1_000, 1_001, 2_500, 2_501];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    exists: bool,
    /// In blocks.
    size: u64,
    /// Version of each block that is not a hole.
    blocks: BTreeMap<u64, u8>,
}

type Log = RecordDevice<MemDevice>;

/// A run of operations and all states of the files.
struct Run {
    dev: Arc<Log>,
    v: Arc<Volume>,
    history: Vec<Vec<State>>,
    version: u8,
}

fn name(file: usize) -> String {
    format!("file {file}")
}

fn block(file: usize, at: u64, version: u8) -> Vec<u8> {
    let mut bytes = vec![version; BLOCK];
    bytes[..4].copy_from_slice(&[b'F', file as u8, at as u8, (at >> 8) as u8]);
    bytes
}

impl Run {
    fn now(&self, file: usize) -> State {
        self.history[file].last().unwrap().clone()
    }
    fn ino(&self, file: usize) -> Ino {
        self.v.lookup(Ino::ROOT, name(file).as_bytes()).unwrap().ino
    }
    fn begin(&mut self, file: usize, state: State) {
        self.history[file].push(state);
        self.dev.mark(format!("begin {file} {}", self.history[file].len() - 1));
    }
    fn promise(&self, file: usize) {
        self.dev.mark(format!("durable {file} {}", self.history[file].len() - 1));
    }

    fn step(&mut self, rng: &mut Rng) {
        let file = rng.below(FILES as u64) as usize;
        let mut state = self.now(file);
        if !state.exists {
            state = State { exists: true, ..State::default() };
            self.begin(file, state);
            create_in(&self.v, Ino::ROOT, &name(file));
            return;
        }
        match rng.below(20) {
            0 => {
                self.begin(file, State::default());
                self.v.unlink(Ino::ROOT, name(file).as_bytes()).unwrap();
            }
            1 => {
                state.size = PLACES[rng.below(8) as usize];
                state.blocks.retain(|&b, _| b < state.size);
                let size = state.size * BLOCK as u64;
                self.begin(file, state);
                self.v.setattr(self.ino(file), &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
            }
            2 => {
                self.v.sync().unwrap();
                (0..FILES).for_each(|f| self.promise(f));
            }
            3..=9 => {
                // Drawn still, so that a seed gives the same run.
                rng.below(2);
                self.v.fsync(self.ino(file)).unwrap();
                self.promise(file);
            }
            _ => {
                let at = PLACES[rng.below(8) as usize];
                self.version += 1;
                state.blocks.insert(at, self.version);
                state.size = state.size.max(at + 1);
                self.begin(file, state);
                let bytes = block(file, at, self.version);
                self.v.write(self.ino(file), at * BLOCK as u64, &bytes).unwrap();
            }
        }
    }
}

/// Checks a file after a cut; returns a violation of the acknowledged state.
fn judge_file(v: &Volume, file: usize, allowed: &[State]) -> Result<(), String> {
    let found = match v.lookup(Ino::ROOT, name(file).as_bytes()) {
        Ok(attr) => attr,
        Err(Error::NotFound) if allowed.iter().any(|s| !s.exists) => return Ok(()),
        Err(e) => return Err(format!("file {file}: {e}")),
    };
    if allowed.iter().all(|s| !s.exists) {
        return Err(format!("file {file} is there"));
    }
    if !allowed.iter().any(|s| s.exists && s.size * BLOCK as u64 == found.size) {
        return Err(format!("file {file} has {} bytes", found.size));
    }
    for at in PLACES.into_iter().filter(|&at| at * (BLOCK as u64) < found.size) {
        let mut bytes = vec![0; BLOCK];
        v.read(found.ino, at * BLOCK as u64, &mut bytes).map_err(|e| format!("file {file}: {e}"))?;
        let versions: BTreeSet<Option<u8>> =
            allowed.iter().filter(|s| s.exists).map(|s| s.blocks.get(&at).copied()).collect();
        let matches = |v: &Option<u8>| bytes == v.map_or(vec![0; BLOCK], |v| block(file, at, v));
        // A reserved block not yet written reads as zeros, unless acknowledged content was there.
        let reserved = !allowed[0].blocks.contains_key(&at) || allowed.iter().any(|s| !s.exists);
        let fine = versions.iter().any(matches) || (reserved && bytes.iter().all(|&b| b == 0));
        if !fine {
            return Err(format!("file {file} block {at} starts {:?}, allowed {versions:?}", &bytes[..6]));
        }
    }
    Ok(())
}

/// Allowed states of each file after a cut: from the acknowledged state to the last begun.
fn allowed<'a>(history: &[Vec<State>], marks: impl Iterator<Item = &'a str>) -> Vec<Vec<State>> {
    let mut range = [(0usize, 0usize); FILES];
    for mark in marks {
        let words: Vec<&str> = mark.split(' ').collect();
        let (file, state): (usize, usize) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        match words[0] {
            "begin" => range[file].1 = state,
            _ => range[file].0 = state,
        }
    }
    range.iter().zip(history).map(|(&(from, to), all)| all[from..=to].to_vec()).collect()
}

fn judge(device: MemDevice, opts: &MountOptions, allowed: &[Vec<State>]) -> Result<(), String> {
    let dev = Arc::new(device);
    let v = Volume::mount(dev.clone(), opts.clone()).map_err(|e| format!("mount: {e}"))?;
    for (file, states) in allowed.iter().enumerate() {
        judge_file(&v, file, states)?;
    }
    v.unmount().map_err(|e| format!("unmount: {e}"))?;
    assert_clean(&*dev);
    Ok(())
}

/// A fresh volume on a device of junk, so that an unwritten block does not read as zeros.
fn fresh_on_junk() -> MemDevice {
    let dev = Arc::new(MemDevice::new(96 * 256));
    let junk = Block([0xEE; BLOCK]);
    (0..dev.block_count()).for_each(|addr| dev.write(addr, &[&junk]).unwrap());
    let member = Member { device: dev.clone(), path: String::new(), zeroed: false };
    let format = MkfsOptions { discard: Some(false), force: true, ..MkfsOptions::default() };
    segno_mkfs::format(&[member], &format).unwrap();
    Arc::try_unwrap(dev).unwrap()
}

fn record(seed: u64, cache_bytes: usize, steps: usize) -> (Run, CrashLog, MountOptions) {
    let base = fresh_on_junk().snapshot();
    let dev = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
    let opts = MountOptions { cache_bytes, ..quiet() };
    let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
    let mut run = Run { dev, v, history: vec![vec![State::default()]; FILES], version: 0 };
    let mut rng = Rng::new(seed);
    (0..steps).for_each(|_| run.step(&mut rng));
    let log = CrashLog::new(base, run.dev.log()).unwrap();
    (run, log, opts)
}

/// Checks every `every`-th cut of the plan.
fn cut_everywhere(seed: u64, cache_bytes: usize, every: usize) {
    let (run, log, opts) = record(seed, cache_bytes, 60);
    let plan = CrashPlan { subsets: 12, torn_data: 40, ..CrashPlan::new(seed) };
    let main = run.v.superblock().geo.main_blkaddr.into();
    for state in CrashStates::new(&log, plan, |addr, _| addr < main).step_by(every) {
        let allowed = allowed(&run.history, log.marks(state.choice.cut));
        let (index, choice) = (state.index, state.choice);
        if let Err(e) = judge(state.device, &opts, &allowed) {
            panic!("seed {seed}, state {index} ({choice}): {e}");
        }
    }
}

#[test]
fn cuts_of_a_strict_run() {
    for seed in 0x5E60_0001..0x5E60_0004 {
        cut_everywhere(seed, LARGE, 7);
    }
}

#[test]
fn cuts_of_a_run_with_constant_writeback() {
    for seed in 0x5E60_0011..0x5E60_0014 {
        cut_everywhere(seed, SMALL, 7);
    }
}

#[test]
fn cuts_of_a_recovery() {
    let (run, log, opts) = record(0x5E60_0021, LARGE, 60);
    let plan = CrashPlan { subsets: 0, torn_data: 0, ..CrashPlan::new(1) };
    for first in CrashStates::new(&log, plan, |_, _| false).step_by(29) {
        let allowed = allowed(&run.history, log.marks(first.choice.cut));
        let base = first.device.snapshot();
        let dev = Arc::new(RecordDevice::new(first.device));
        Volume::mount(dev.clone(), opts.clone()).unwrap();
        let recovery = CrashLog::new(base, dev.log()).unwrap();
        let plan = CrashPlan { subsets: 3, torn_data: 3, ..CrashPlan::new(2) };
        for second in CrashStates::new(&recovery, plan, |_, _| false) {
            if let Err(e) = judge(second.device, &opts, &allowed) {
                panic!(
                    "first {} ({}), then {} ({}): {e}",
                    first.index, first.choice, second.index, second.choice
                );
            }
        }
    }
}

#[test]
fn blocks_after_a_gap_of_an_old_chain_are_not_replayed_as_new() {
    let mut rig = Rig::new(FsyncMode::Nobarrier);
    rig.file("a", b"synced");
    rig.v.sync().unwrap();
    let base = rig.dev.snapshot();
    let dev = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
    let v = Volume::mount(dev.clone(), rig.opts.clone()).unwrap();
    let from = dev.log().len();
    let a = v.lookup(Ino::ROOT, b"a").unwrap().ino;
    v.write(a, 0, b"lost").unwrap();
    v.fsync(a).unwrap();
    v.fsync(create_in(&v, Ino::ROOT, "behind the gap")).unwrap();
    // Of the two nodes, one write each, the first was lost.
    let log = dev.log();
    let [Event::Write { addr, .. }, Event::Write { .. }] = &log[from..] else {
        panic!("{} events", log.len() - from)
    };
    rig.dev = Arc::new(MemDevice::from_snapshot(&dev.inner().snapshot()));
    rig.dev.write(*addr, &[&Block::zeroed()]).unwrap();
    rig.v = Volume::mount(rig.dev.clone(), rig.opts.clone()).unwrap();
    rig.v.write(a, 0, b"filled").unwrap();
    rig.fsync(a);
    rig.crash();
    assert_eq!((rig.names(), rig.content("a")), (vec!["a".into()], b"filled".to_vec()));
    rig.judge();
}

#[test]
fn cuts_during_concurrent_fsyncs() {
    cuts_beside(&quiet(), 12, 1, |v| Probe(v).tick().unwrap());
}

/// Files are synced while checkpoints write nodes of thousands of others ahead of their boundaries.
#[test]
fn cuts_during_fsyncs_beside_nodes_written_ahead() {
    let options = MountOptions { checkpoint: CheckpointMode::Concurrent, ..quiet() };
    cuts_beside(&options, 60, 500, |v| {
        let ahead = || v.stats().nodes_ahead.load(Ordering::Relaxed);
        let before = ahead();
        Probe(v).checkpoint_metadata().unwrap();
        let ahead = ahead() - before;
        println!("{ahead} nodes written ahead of a boundary");
        assert!(ahead > 300, "{ahead} nodes");
    });
}

/// Some files are written and synced `rounds` times, and cuts are judged, while `others` other files are made
/// before each step.
fn cuts_beside(options: &MountOptions, rounds: u8, others: usize, step: fn(&Volume)) {
    let base = fresh_on_junk().snapshot();
    let dev = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
    let v = Volume::mount(dev.clone(), options.clone()).unwrap();
    let state =
        |version: u8| State { exists: true, size: 1_001, blocks: [(0, version), (1_000, version)].into() };
    // A checkpoint may be written between a file's creation and its writes.
    let made = State { exists: true, ..State::default() };
    let begun = State { exists: true, size: 1, blocks: [(0, 1)].into() };
    let mut history = vec![State::default(), made, begun];
    let first = history.len() - 1;
    history.extend((1..=rounds).map(state));
    let history = vec![history; FILES];
    std::thread::scope(|s| {
        for file in 0..FILES {
            let (dev, v) = (&dev, &v);
            s.spawn(move || {
                let mut ino = None;
                for version in 1..=rounds {
                    dev.mark(format!("begin {file} {}", first + usize::from(version)));
                    let ino = *ino.get_or_insert_with(|| create_in(v, Ino::ROOT, &name(file)));
                    for at in [0, 1_000] {
                        v.write(ino, at * BLOCK as u64, &block(file, at, version)).unwrap();
                    }
                    v.fsync(ino).unwrap();
                    dev.mark(format!("durable {file} {}", first + usize::from(version)));
                }
            });
        }
        s.spawn(|| {
            for i in 0..6 {
                (0..others).for_each(|n| _ = create_in(&v, Ino::ROOT, &format!("other {i} {n}")));
                step(&v);
            }
        });
    });
    let log = CrashLog::new(base, dev.log()).unwrap();
    let states =
        CrashStates::new(&log, CrashPlan { subsets: 4, torn_data: 20, ..CrashPlan::new(4) }, |_, _| false);
    let every = states.len() / 300 + 1;
    for state in states.step_by(every) {
        if let Err(e) = judge(state.device, options, &allowed(&history, log.marks(state.choice.cut))) {
            panic!("state {} ({}): {e}", state.index, state.choice);
        }
    }
}
