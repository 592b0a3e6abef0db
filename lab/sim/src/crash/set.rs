//! All workloads of one operation, or of a few that only together show something, each with each call that makes things
//! durable.
use super::workload::{A, B, C, D, E, create, write};
use crate::op::{Name, Op, Path};
use segno_engine::{FallocMode, RenameMode, XattrMode};
use segno_format::dentry::FileType;

/// Number of such workloads.
#[must_use]
pub fn singles() -> u64 {
    groups().iter().map(|(sequences, calls)| (sequences.len() * calls.len()) as u64).sum()
}

/// The operations of one of them.
pub(super) fn exhaustive(mut number: u64) -> Vec<Op> {
    for (mut sequences, mut calls) in groups() {
        let (n, m) = (sequences.len() as u64, calls.len() as u64);
        if number < n * m {
            let mut ops = sequences.swap_remove((number % n) as usize);
            ops.extend(calls.swap_remove((number / n) as usize));
            return ops;
        }
        number -= n * m;
    }
    Vec::new()
}

/// Sequences, and the persistence calls that follow each of them.
type Group = (Vec<Vec<Op>>, Vec<Option<Op>>);

fn groups() -> [Group; 2] {
    [
        (small_set().into_iter().map(|op| vec![op]).collect(), persistence()),
        (combinations(), deep_persistence()),
    ]
}

/// One operation of each kind, at each relevant place.
fn small_set() -> Vec<Op> {
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
    for of in [&a, &c] {
        let other = 26;
        ops.push(Op::SetXattr { of: of.clone(), name: 0, len: 8, tag: other, mode: XattrMode::Replace });
        ops.push(Op::Utimens { of: of.clone(), secs: 77, nsec: 0 });
    }
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

/// Operations that only together show something: names below a directory that was renamed, names that were given up by
/// an inode that lives on, or by a directory.
fn combinations() -> Vec<Vec<Op>> {
    let (a, b, c, d, e) = (Path::of(&[A]), Path::of(&[B]), Path::of(&[C]), Path::of(&[D]), Path::of(&[E]));
    let (ca, cb, cc) = (c.join(Name(A)), c.join(Name(B)), c.join(Name(C)));
    let (cca, cce, de) = (cc.join(Name(A)), cc.join(Name(E)), d.join(Name(E)));
    let (ece, dce, dece) = (Path::of(&[E, C, E]), Path::of(&[D, C, E]), Path::of(&[D, E, C, E]));
    let rename = |from: &Path, to: &Path| rename(from, to, RenameMode::Replace);
    let link = |of: &Path, at: &Path| Op::Link { of: of.clone(), at: at.clone() };
    let unlink = |at: &Path| Op::Unlink { at: at.clone() };
    let append = |of: &Path| Op::Append { of: of.clone(), len: 300, tag: 27 };
    vec![
        vec![rename(&c, &e), create(ece)],
        vec![rename(&c, &e), create(e.join(Name(E)))],
        vec![rename(&c, &e), append(&Path::of(&[E, C, A]))],
        vec![self::rename(&c, &d, RenameMode::Exchange), create(dce)],
        vec![rename(&c, &de), create(dece)],
        vec![rename(&cc, &e), create(e.join(Name(E)))],
        vec![rename(&cc, &de)],
        vec![rename(&cca, &cce)],
        vec![rename(&cca, &e), create(cca.clone())],
        vec![rename(&a, &cce), create(a.clone())],
        vec![link(&a, &e), Op::Sync, unlink(&e)],
        vec![link(&a, &cce), Op::Sync, unlink(&a), create(a.clone())],
        vec![link(&b, &e), unlink(&b), create(b.clone())],
        vec![unlink(&cb), append(&ca)],
        vec![unlink(&cb), create(cb.clone())],
        vec![unlink(&cca), Op::Rmdir { at: cc.clone() }, create(cc.clone())],
        vec![Op::Utimens { of: cca.clone(), secs: 78, nsec: 0 }, append(&a)],
        vec![write(&a, 0, 100, 28), Op::Utimens { of: a.clone(), secs: 79, nsec: 0 }],
    ]
}

fn rename(from: &Path, to: &Path, mode: RenameMode) -> Op {
    Op::Rename { from: from.clone(), to: to.clone(), mode }
}

/// Persistence calls: of everything, of files, of directories.
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

/// Persistence calls on files and directories at greater depth.
fn deep_persistence() -> Vec<Option<Op>> {
    let paths: [&[u16]; 12] = [
        &[A],
        &[B],
        &[E],
        &[E, E],
        &[C, A],
        &[C, B],
        &[C, C],
        &[C, C, A],
        &[C, C, E],
        &[E, C, E],
        &[D, C, E],
        &[D, E, C, E],
    ];
    let fsync = |names: &&[u16]| Some(Op::Fsync { of: Path::of(names), datasync: false });
    let mut all = vec![None, Some(Op::Sync)];
    all.extend(paths.iter().map(fsync));
    all
}
