//! Scenes for code that no other workload tested: a bug planted there stayed undetected.
use super::workload::{A, B, C, D, E, create, write};
use crate::op::{Name, Op, Path};
use segno_engine::{FallocMode, RenameMode, XattrMode};

pub(super) fn rare_scenes() -> Vec<Vec<Op>> {
    let (a, b, c, e) = (Path::of(&[A]), Path::of(&[B]), Path::of(&[C]), Path::of(&[E]));
    let (cc, de) = (Path::of(&[C, C]), Path::of(&[D, E]));
    let fsync = |of: &Path| Op::Fsync { of: of.clone(), datasync: false };
    let long = Op::SetXattr { of: a.clone(), name: 1, len: 2000, tag: 80, mode: XattrMode::Set };
    let truncate = |size| Op::Truncate { of: b.clone(), size };
    let many = (0..60).map(|n| create(c.join(Name(Name::MANY + n))));
    let exchange = Op::Rename { from: cc, to: de.clone(), mode: RenameMode::Exchange };
    vec![
        // An inode with a node of attributes is freed.
        vec![long, Op::Sync, Op::Unlink { at: a.clone() }, Op::Sync],
        // A file with data changes its owner.
        vec![Op::Chown { of: b.clone(), uid: 5, gid: 6 }, Op::Sync],
        // Two directories change places, and with them their parents.
        vec![Op::Mkdir { at: de, mode: 0o755, who: 0 }, exchange, Op::Sync],
        // A file is cut and grows again: it has a hole after its former end.
        vec![truncate(5000), truncate(20_000), fsync(&b)],
        // A commit of several blocks.
        many.chain([fsync(&c)]).collect(),
        // Data leaves the inode for a block.
        vec![create(e.clone()), write(&e, 0, 3000, 81), write(&e, 3000, 3000, 82), fsync(&e)],
        // A second name is made and removed, each in a separate commit.
        vec![Op::Link { of: a.clone(), at: e.clone() }, fsync(&a), Op::Unlink { at: e }, fsync(&a)],
    ]
}

/// After all other scenes, so that those keep their numbers.
pub(super) fn late_scenes() -> Vec<Vec<Op>> {
    let b = Path::of(&[B]);
    let fsync = |of: &Path| Op::Fsync { of: of.clone(), datasync: false };
    let reserve =
        Op::Fallocate { of: b.clone(), mode: FallocMode::AllocateKeepSize, offset: 16_384, len: 8192 };
    vec![
        // Space after the end of the file is reserved, and given back.
        vec![reserve, fsync(&b), Op::Truncate { of: b.clone(), size: 20_000 }, fsync(&b)],
        reopened_segment(),
    ]
}

/// A segment becomes free and is opened again while it waits for its discard, which another free segment then makes due.
fn reopened_segment() -> Vec<Op> {
    let (b, e) = (Path::of(&[B]), Path::of(&[E]));
    let fsync = Op::Fsync { of: b.clone(), datasync: false };
    let punch = Op::Fallocate { of: b.clone(), mode: FallocMode::PunchHole, offset: 0, len: 2_080_000 };
    let fill = [create(e.clone()), write(&e, 0, 4_200_000, 83), Op::Sync, Op::Unlink { at: e }, Op::Sync];
    let reuse = [write(&b, 0, 2_150_000, 85), Op::Sync, punch, Op::Sync];
    let append = |tag| Op::Append { of: b.clone(), len: 100, tag };
    [&fill[..], &reuse, &[append(86), fsync.clone(), append(87), fsync]].concat()
}
