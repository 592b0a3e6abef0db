//! Groups of concurrent operations. Each is one call of the engine; files and directories are named by handles or from the root.
use super::history::VolumeWithModel;
use crate::fs::Fs;
use crate::mounted::Mounted;
use crate::op::{Name, Op, Path};
use crate::setup;
use segno_engine::{FallocMode, RenameMode, XattrMode};
use segno_format::dentry::FileType;
use segno_testkit::Rng;
use std::collections::BTreeSet;

/// A group of concurrent operations.
pub struct Shape {
    pub name: &'static str,
    /// Draws the operations, runs them and checks the history; returns their number.
    pub run: fn(&mut Rng) -> Result<u64, String>,
}

const SHAPES: [Shape; 9] = [
    Shape { name: "write, truncate, checkpoint", run: write_truncate },
    Shape { name: "renames crosswise, rmdir", run: renames },
    Shape { name: "unlink of an open file, cleaning", run: unlink_clean },
    Shape { name: "fsync, fsync", run: fsyncs },
    Shape { name: "readdir, create", run: readdir_create },
    Shape { name: "unmount, everything", run: unmount },
    Shape { name: "drawn history", run: drawn },
    Shape { name: "contexts come and go", run: contexts },
    Shape { name: "journal, checkpoint", run: journal },
];

pub fn of(number: u64) -> &'static Shape {
    let [first, ..] = &SHAPES;
    SHAPES.get((number % SHAPES.len() as u64) as usize).unwrap_or(first)
}

/// Handles 0 and 1: two files; 2 and 3: two directories, with a file in the first.
fn before() -> Vec<Op> {
    let file = |at| Op::Mknod { at, kind: FileType::Regular, mode: 0o644, who: 0 };
    let open = |n, slot| Op::Open { of: Path::of(&[n]), slot };
    vec![
        file(Path::of(&[0])),
        file(Path::of(&[1])),
        Op::Mkdir { at: Path::of(&[2]), mode: 0o755, who: 0 },
        Op::Mkdir { at: Path::of(&[3]), mode: 0o755, who: 0 },
        open(0, 0),
        open(1, 1),
        open(2, 2),
        open(3, 3),
        Op::Write { of: Path::handle(0), offset: 0, len: 9000, tag: 1 },
        file(Path::handle(2).join(Name(4))),
        Op::Sync,
    ]
}

fn write(rng: &mut Rng) -> Op {
    let offset = rng.pick(&[0, 100, 4096, 8000, 950 * 4096]);
    Op::Write { of: Path::handle(0), offset, len: rng.pick(&[50, 4096, 9000]), tag: rng.below(100) as u32 }
}

fn truncate(rng: &mut Rng) -> Op {
    Op::Truncate { of: Path::handle(0), size: rng.pick(&[0, 100, 4096, 5000, 20_000]) }
}

fn read(rng: &mut Rng) -> Op {
    Op::Read { of: Path::handle(0), offset: rng.pick(&[0, 4000]), len: 9000 }
}

fn fsync(slot: u8) -> Op {
    Op::Fsync { of: Path::handle(slot), datasync: false }
}

fn write_truncate(rng: &mut Rng) -> Result<u64, String> {
    let threads = vec![
        vec![write(rng), write(rng), read(rng)],
        vec![truncate(rng), read(rng), truncate(rng)],
        vec![Op::Sync, fsync(0), Op::Sync],
    ];
    VolumeWithModel::new(rng.draw(), &before())?.run(threads)
}

fn rename(from: Path, to: Path, mode: RenameMode) -> Op {
    Op::Rename { from, to, mode }
}

fn renames(rng: &mut Rng) -> Result<u64, String> {
    let (d, e) = (Path::handle(2), Path::handle(3));
    let mode = rng.pick(&[RenameMode::Replace, RenameMode::Replace, RenameMode::Exchange]);
    let threads = vec![
        vec![
            rename(Path::of(&[2]), e.join(Name(5)), RenameMode::Replace),
            rename(e.join(Name(5)), Path::of(&[2]), mode),
        ],
        vec![
            rename(Path::of(&[3]), d.join(Name(5)), RenameMode::Replace),
            rename(d.join(Name(4)), e.join(Name(4)), mode),
        ],
        vec![Op::Rmdir { at: Path::of(&[3]) }, Op::Rmdir { at: Path::of(&[2]) }, Op::Sync],
    ];
    VolumeWithModel::new(rng.draw(), &before())?.run(threads)
}

fn unlink_clean(rng: &mut Rng) -> Result<u64, String> {
    let threads = vec![
        vec![Op::Unlink { at: Path::of(&[0]) }, read(rng), write(rng)],
        vec![Op::Clean, Op::Clean],
        vec![fsync(0), read(rng), Op::Sync],
    ];
    VolumeWithModel::new(rng.draw(), &before())?.run(threads)
}

fn fsyncs(rng: &mut Rng) -> Result<u64, String> {
    let at = |slot| Op::Write { of: Path::handle(slot), offset: 0, len: 5000, tag: 7 };
    let threads = vec![
        vec![write(rng), fsync(0), at(1)],
        vec![at(1), fsync(1), fsync(0)],
        vec![fsync(0), fsync(1), read(rng)],
    ];
    VolumeWithModel::new(rng.draw(), &before())?.run(threads)
}

/// One of the operations that a history may have.
fn any(rng: &mut Rng) -> Op {
    let file = Path::handle(rng.below(2) as u8);
    let place = |rng: &mut Rng| {
        let name = Name(rng.pick(&[0, 4, 5]));
        match rng.below(3) {
            0 => Path::root().join(name),
            1 => Path::handle(2).join(name),
            _ => Path::handle(3).join(name),
        }
    };
    let at = place(rng);
    match rng.below(16) {
        0 | 1 => Op::Mknod { at, kind: FileType::Regular, mode: 0o600, who: 0 },
        2 => Op::Unlink { at },
        3 => Op::Mkdir { at, mode: 0o700, who: 0 },
        4 => Op::Rmdir { at },
        5 | 6 => rename(
            at,
            place(rng),
            rng.pick(&[RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]),
        ),
        7 => Op::Link { of: file, at },
        8 => write(rng),
        9 => truncate(rng),
        10 => read(rng),
        11 => Op::Stat { of: file },
        12 => Op::SetXattr { of: file, name: 0, len: rng.pick(&[3, 300]), tag: 1, mode: XattrMode::Set },
        13 => Op::Fallocate { of: file, mode: FallocMode::PunchHole, offset: 0, len: 4096 },
        14 => fsync(rng.below(2) as u8),
        _ => rng.choose(&[Op::Sync, Op::Clean]).cloned().unwrap_or(Op::Sync),
    }
}

/// Two to four threads with up to twelve operations.
fn drawn(rng: &mut Rng) -> Result<u64, String> {
    let threads = 2 + rng.below(3);
    let threads = (0..threads).map(|_| (0..12 / threads).map(|_| any(rng)).collect()).collect();
    VolumeWithModel::new(rng.draw(), &before())?.run(threads)
}

/// Files are written and synced while the number of writeback contexts changes.
fn contexts(rng: &mut Rng) -> Result<u64, String> {
    let at = |slot, tag| Op::Write { of: Path::handle(slot), offset: 0, len: 9000, tag };
    let threads = vec![vec![write(rng), fsync(0), write(rng)], vec![at(1, 8), fsync(1), Op::Sync, at(1, 9)]];
    let moments: Vec<i64> = (0..4).map(|_| 1 + rng.below(1000) as i64).collect();
    VolumeWithModel::new(setup::named("contexts")?, &before())?.run_beside(threads, move |engine| {
        moments.into_iter().for_each(|secs| engine.draw_contexts(secs));
    })
}

/// Commits of the journal, checkpoints, and operations that are in an epoch of each.
fn journal(rng: &mut Rng) -> Result<u64, String> {
    let threads = vec![
        vec![any(rng), fsync(0), any(rng)],
        vec![any(rng), fsync(1), any(rng)],
        vec![fsync(2), Op::Sync, fsync(3)],
    ];
    VolumeWithModel::new(setup::named("journal")?, &before())?.run(threads)
}

type CheckResult = Result<(), String>;

fn joined(running: Vec<shuttle::thread::JoinHandle<CheckResult>>) -> CheckResult {
    running.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err("a thread panicked".into())))
}

/// Names that exist throughout are listed once; others once or not at all.
fn readdir_create(rng: &mut Rng) -> Result<u64, String> {
    let pair = VolumeWithModel::new(rng.draw(), &before())?;
    let mut engine = pair.engine().share();
    let dir = pair.handles()[2].ok_or("no directory")?;
    let name = |i: u64| format!("{i:03}-{}", "n".repeat(90)).into_bytes();
    let text = |e: i32| format!("errno {e}");
    let file = |engine: &mut Mounted, i| {
        engine.mknod(dir, &name(i), 0o100_600, (0, 0), Default::default()).map_err(text)
    };
    for i in 0..20 {
        file(&mut engine, i)?;
    }
    let (mut maker, mut lister, mut saver) = (engine.share(), engine.share(), engine.share());
    let running = vec![
        shuttle::thread::spawn(move || {
            for i in 20..28 {
                maker.mknod(dir, &name(i), 0o100_600, (0, 0), Default::default()).map_err(text)?;
                maker.unlink(dir, &name(i - 10)).map_err(text)?;
            }
            Ok(())
        }),
        shuttle::thread::spawn(move || {
            let listed = lister.readdir(dir, 3).map_err(text)?;
            let names: BTreeSet<Vec<u8>> = listed.into_iter().map(|e| e.name).collect();
            let missing = (0..10).chain(18..20).find(|&i| !names.contains(&name(i)));
            missing.map_or(Ok(()), |i| Err(format!("name {i} was there all the time and is not listed")))
        }),
        shuttle::thread::spawn(move || saver.sync().map_err(text)),
    ];
    joined(running)?;
    pair.finish()?;
    Ok(18)
}

/// Late operations get an error, and the volume is consistent.
fn unmount(rng: &mut Rng) -> Result<u64, String> {
    let pair = VolumeWithModel::new(rng.draw(), &before())?;
    let handles = pair.handles();
    let mut count = 1;
    let mut running = Vec::new();
    for _ in 0..2 {
        let ops: Vec<Op> = (0..4).map(|_| any(rng)).collect();
        count += ops.len() as u64;
        let (mut engine, mut handles) = (pair.engine().share(), handles);
        running.push(shuttle::thread::spawn(move || {
            for op in &ops {
                crate::op::apply(&mut engine, &mut handles, op);
            }
            Ok(())
        }));
    }
    let engine = pair.engine().share();
    running.push(shuttle::thread::spawn(move || engine.unmount().map_err(|e| format!("unmount: {e}"))));
    joined(running)?;
    // Open handles keep inodes without a name, which the next mount frees.
    let again = pair.setup().mount(pair.device().clone(), 2000).map_err(|e| format!("mount again: {e}"))?;
    again.unmount().map_err(|e| format!("unmount again: {e}"))?;
    pair.setup().check(pair.device().clone())?;
    Ok(count)
}
