//! Scripted workloads for situations beyond single operations: cleaning, a full volume, orphans, unmounting.
use super::attr::{attribute_scenes, late_attribute_scenes};
use super::clusters::{cluster_scenes, dissolved_cluster};
use super::rare::{late_scenes, rare_scenes};
use super::workload::{A, B, C, D, E, Start, Workload, create, few, write};
use crate::fs::{Fs, Res, errno};
use crate::mounted::Mounted;
use crate::op::{Name, Op, Path, pattern};
use crate::setup;
use segno_engine::{FallocMode, Owner, RenameMode, SetAttr, XattrMode};

const BLOCK: u64 = 4096;
/// Bytes of the files that fill a volume.
const LARGE: u64 = 1 << 20;
/// Free blocks that filling leaves.
const LEFT: u64 = 300;

/// Number of scenes, each on each of the common setups.
#[must_use]
pub fn scenes() -> u64 {
    scenes_each() * setup::common()
}

/// Number of scenes on one setup.
#[must_use]
pub fn scenes_each() -> u64 {
    quiet_scenes().len() as u64
}

/// Numbers of the scenes of attributes, on the setup that a case names.
#[must_use]
pub fn scenes_of_attributes() -> Vec<u64> {
    let of_attributes = [attribute_scenes(), late_attribute_scenes()].concat();
    (0..).zip(quiet_scenes()).filter(|(_, scene)| of_attributes.contains(scene)).map(|(n, _)| n).collect()
}

/// One of the scenes.
pub fn scene(number: u64, on: Option<&str>) -> Result<Workload, String> {
    let (ops, setup) = pick(quiet_scenes(), number)?;
    Ok(few(setup::chosen(on, setup)?, ops))
}

/// Number of scenes on a full volume.
#[must_use]
pub fn fulls() -> u64 {
    full_scenes().len() as u64 * setup::tiny()
}

/// One of the scenes on a full volume.
pub fn full(number: u64) -> Result<Workload, String> {
    let (ops, setup) = pick(full_scenes(), number)?;
    Ok(Workload { setup: setup::tiny_setup(setup)?, start: Start::Full, ops, race: None })
}

/// Scenes that show mistakes which hardly any other case shows: the first ones, and that of a file of two blocks which
/// replaces another, on some setup each.
pub fn telling_scenes() -> Result<Vec<u64>, String> {
    let count = quiet_scenes().len() as u64;
    let at = |(scene, name)| Ok(setup::named(name)? * count + scene);
    let scenes = [
        (0, "posix"),
        (1, "default"),
        (2, "default"),
        (3, "default"),
        (8, "default"),
        (22, "journal"),
        (4, "journal"),
        (5, "journal"),
        (6, "posix"),
        (7, "default"),
    ];
    scenes.into_iter().map(at).collect()
}

/// An fsync of several nodes. Unless there is a flush between them, the last may arrive without the earlier
/// ones. Blocks that are written into that gap after the recovery must not lead to it.
fn hole() -> Vec<Op> {
    let b = Path::of(&[B]);
    let far = |tag| write(&b, 5_000_000, 9000, tag);
    vec![far(17), Op::Sync, far(18), Op::Append { of: b.clone(), len: 9000, tag: 19 }, fsync(&b)]
}

/// Whole segments become free, but are not to be used before the next checkpoint.
fn reuse() -> [Vec<Op>; 2] {
    let (b, e) = (Path::of(&[B]), Path::of(&[E]));
    let huge = |of: &Path, tag| write(of, 0, 5_000_000, tag);
    let empty = Op::Truncate { of: b.clone(), size: 0 };
    [
        vec![create(e.clone()), huge(&e, 13), Op::Sync, Op::Unlink { at: e }, huge(&b, 14), fsync(&b)],
        vec![huge(&b, 15), Op::Sync, empty, huge(&b, 16), Op::Sync],
    ]
}

/// Splits a number into scene and setup.
fn pick(mut scenes: Vec<Vec<Op>>, number: u64) -> Result<(Vec<Op>, u64), String> {
    let count = scenes.len() as u64;
    let setup = number.checked_div(count).ok_or("there are no scenes")?;
    Ok((scenes.swap_remove((number % count) as usize), setup))
}

fn fsync(of: &Path) -> Op {
    Op::Fsync { of: of.clone(), datasync: false }
}

fn replace(from: &Path, to: &Path) -> Op {
    Op::Rename { from: from.clone(), to: to.clone(), mode: RenameMode::Replace }
}

/// A directory that moves, an attribute that gets another value of the same length, a file in place of a directory, a file
/// below a directory that was renamed.
fn names_and_attributes() -> [Vec<Op>; 4] {
    let (root, a, c) = (Path::root(), Path::of(&[A]), Path::of(&[C]));
    let (cc, ece) = (c.join(Name(C)), Path::of(&[E, C, E]));
    let unlink = Op::Unlink { at: cc.join(Name(A)) };
    let other = Op::SetXattr { of: a.clone(), name: 0, len: 8, tag: 60, mode: XattrMode::Replace };
    [
        vec![replace(&cc, &Path::of(&[D, E])), fsync(&root)],
        vec![other, fsync(&a)],
        vec![unlink, Op::Rmdir { at: cc.clone() }, create(cc.clone()), fsync(&cc)],
        vec![replace(&c, &Path::of(&[E])), create(ece.clone()), fsync(&ece)],
    ]
}

/// With the few files that all workloads start from.
fn quiet_scenes() -> Vec<Vec<Op>> {
    let (root, handle) = (Path::root(), Path::handle(0));
    let (a, b, c, d, e) = (Path::of(&[A]), Path::of(&[B]), Path::of(&[C]), Path::of(&[D]), Path::of(&[E]));
    let (ca, de) = (c.join(Name(A)), d.join(Name(E)));
    let open = |of: &Path| Op::Open { of: of.clone(), slot: 0 };
    let unlink = |at: &Path| Op::Unlink { at: at.clone() };
    // One operation each: many in one could be half done.
    let names = |dir: &Path, count| (0..count).map(|n| dir.join(Name(Name::MANY + n))).collect::<Vec<_>>();
    let fill = |dir: &Path, count| names(dir, count).into_iter().map(create).collect::<Vec<_>>();
    let drain =
        |dir: &Path, count| names(dir, count).into_iter().map(|at| Op::Unlink { at }).collect::<Vec<_>>();
    let mut all = vec![hole()];
    all.extend(reuse());
    // Names are committed while a file has grown without a sync.
    all.push(vec![Op::Append { of: b.clone(), len: 9000, tag: 20 }, create(e.clone()), fsync(&root)]);
    all.extend(names_and_attributes());
    // Orphans that are changed and synced after the unlink.
    for end in [Op::Sync, fsync(&root), fsync(&handle), Op::Clean] {
        all.push(vec![
            open(&b),
            unlink(&b),
            end.clone(),
            write(&handle, 5000, 9000, 1),
            Op::Sync,
            end.clone(),
        ]);
        all.push(vec![
            Op::Tmpfile { dir: root.clone(), slot: 0 },
            write(&handle, 0, 9000, 2),
            end.clone(),
            Op::Link { of: handle.clone(), at: e.clone() },
            fsync(&handle),
            unlink(&e),
            end.clone(),
        ]);
        all.push(vec![open(&b), replace(&a, &b), end.clone(), Op::Release { slot: 0 }, end]);
    }
    // A file is replaced by a new one without a sync.
    for end in [Op::Sync, fsync(&root), fsync(&ca), Op::Clean, Op::Remount] {
        for len in [100, 9000, 300_000] {
            let new = [create(e.clone()), write(&e, 0, len, 3)];
            all.push([new.to_vec(), vec![replace(&e, &a), end.clone()]].concat());
            let grown = [write(&b, 20_000, len, 4), Op::Append { of: b.clone(), len, tag: 5 }];
            all.push([grown.to_vec(), vec![replace(&b, &ca), end.clone()]].concat());
        }
        let elsewhere = [create(de.clone()), write(&de, 0, 5000, 6)];
        all.push([elsewhere.to_vec(), vec![replace(&de, &b), write(&b, 100, 50, 7), end]].concat());
    }
    // More changes than the summary journals hold.
    all.push([fill(&c, 60), vec![Op::Sync], drain(&c, 50), vec![fsync(&ca), Op::Sync]].concat());
    all.push([fill(&root, 120), vec![fsync(&a), Op::Sync], drain(&root, 120), vec![Op::Sync]].concat());
    // Unmounting with dirty state of every kind.
    let mixed = vec![write(&a, 0, 9000, 8), open(&b), unlink(&b)];
    all.push([mixed, fill(&d, 20), vec![Op::Remount, fsync(&a)]].concat());
    all.push(vec![write(&b, 0, 300_000, 9), fsync(&b), write(&b, 0, 300_000, 10), Op::Remount]);
    // Cleaning between changes of the blocks that it moves.
    all.push(vec![
        write(&b, 0, 20_000, 11),
        Op::Clean,
        write(&b, 0, 9000, 12),
        fsync(&b),
        Op::Clean,
        Op::Sync,
    ]);
    all.extend(rare_scenes());
    all.extend(cluster_scenes());
    all.extend(attribute_scenes());
    all.push(dissolved_cluster());
    all.extend(late_scenes());
    all.extend(late_attribute_scenes());
    all
}

/// On a volume with hardly any space left: allocation has to fill holes, and cleaning to make room.
fn full_scenes() -> Vec<Vec<Op>> {
    let (b, ca, e) = (Path::of(&[B]), Path::of(&[C, A]), Path::of(&[E]));
    let large = |n: u16| Path::root().join(Name(Name::MANY + n));
    let over = |of: &Path, tag: u32| {
        let place = |i: u32| u64::from(i * 7 % 5) * BLOCK;
        (0..4).flat_map(move |i| [write(of, place(i), 8192, tag + i), fsync(of)]).collect::<Vec<_>>()
    };
    let grow = |of: &Path| Op::Append { of: of.clone(), len: 900_000, tag: 50 };
    let unlink = |n: u16| Op::Unlink { at: large(n) };
    vec![
        over(&b, 20),
        [over(&large(1), 30), vec![Op::Sync], over(&large(1), 40)].concat(),
        vec![grow(&b), fsync(&b), grow(&ca), Op::Sync, Op::Truncate { of: b.clone(), size: 0 }, Op::Sync],
        vec![Op::Clean, Op::Sync, write(&b, 0, 9000, 51), fsync(&b), Op::Clean, Op::Sync],
        vec![unlink(1), write(&b, 0, 300_000, 52), fsync(&b), unlink(2), Op::Sync, grow(&b), fsync(&b)],
        vec![create(e.clone()), write(&e, 0, 400_000, 53), replace(&e, &large(1)), fsync(&ca), Op::Sync],
        vec![write(&large(2), 0, 600_000, 54), write(&large(3), 0, 600_000, 55), Op::Sync, fsync(&b)],
        vec![Op::Clean, fsync(&b), Op::Clean, Op::Clean, Op::Remount],
        // Whole segments become free, but not before the next checkpoint.
        vec![unlink(1), unlink(2), grow(&b), fsync(&b), grow(&b), fsync(&b), grow(&ca), fsync(&ca)],
        vec![
            Op::Truncate { of: large(4), size: 0 },
            write(&large(5), 0, 1_000_000, 56),
            fsync(&large(5)),
            write(&large(5), 0, 1_000_000, 57),
            fsync(&large(5)),
            fsync(&b),
        ],
        held_holes(),
    ]
}

/// Blocks become free, after the log's position, in the segments whose holes the log fills. They are not to
/// be used before the next checkpoint; an fsync of an old file takes none.
fn held_holes() -> Vec<Op> {
    let b = Path::of(&[B]);
    let with_holes = (0..30).step_by(3).map(|n| Path::root().join(Name(Name::MANY + n)));
    let half = |of| Op::Fallocate { of, mode: FallocMode::PunchHole, offset: LARGE / 2, len: LARGE / 2 };
    with_holes.map(half).chain([write(&b, 0, 300_000, 58), fsync(&b), fsync(&b)]).collect()
}

/// Fills a volume with large files; every second block of some is a hole, so that no segment is wholly used.
pub(super) fn fill(engine: &mut Mounted) -> Res<()> {
    let root = engine.root();
    let data = pattern(77, 0, LARGE as usize);
    let mut files = Vec::new();
    while engine.statfs().bavail > LEFT + LARGE / BLOCK {
        let name = Name(Name::MANY + files.len() as u16).bytes();
        let node = engine.mknod(root, &name, 0o100_644, (0, 0), Owner::default())?;
        files.push(node);
        match engine.write(node, 0, &data) {
            Ok(_) => {}
            Err(errno::ENOSPC) => break,
            Err(e) => return Err(e),
        }
    }
    engine.sync()?;
    for (number, &node) in (0u64..).zip(&files).filter(|(n, _)| n % 3 == 0) {
        for hole in (number % 2..LARGE / BLOCK).step_by(2) {
            engine.fallocate(node, FallocMode::PunchHole, hole * BLOCK, BLOCK)?;
        }
    }
    engine.sync()?;
    // The space of the holes again, in one file.
    let node = engine.mknod(root, b"rest", 0o100_644, (0, 0), Owner::default())?;
    let mut at = 0;
    while engine.statfs().bavail > LEFT {
        at += engine.write(node, at, &pattern(78, at, 16 * BLOCK as usize))? as u64;
    }
    engine.setattr(node, &SetAttr { size: Some(at), ..SetAttr::default() })?;
    engine.sync()
}
