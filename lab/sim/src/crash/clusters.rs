//! Scenes of a file that spans several clusters: on the setups with compression these change their form.
use super::workload::{E, create, write};
use crate::op::{Op, Path};
use segno_engine::FallocMode;

/// Several clusters and a part of one.
const LEN: u32 = 70_000;
/// Tags of data that can be compressed, and of noise.
const EASY: [u32; 3] = [81, 82, 83];
const NOISE: u32 = 84;

/// A cluster that the checkpoint has packed, and the journal in blocks.
pub(super) fn dissolved_cluster() -> Vec<Op> {
    let e = Path::of(&[E]);
    let [first, ..] = EASY;
    let fsync = Op::Fsync { of: e.clone(), datasync: false };
    vec![create(e.clone()), write(&e, 0, LEN, first), Op::Sync, Op::Clean, write(&e, 0, 65_536, NOISE), fsync]
}

pub(super) fn cluster_scenes() -> Vec<Vec<Op>> {
    let e = Path::of(&[E]);
    let [first, second, third] = EASY;
    let fsync = || Op::Fsync { of: e.clone(), datasync: false };
    let at = |offset, len, tag| write(&e, offset, len, tag);
    let size = |size| Op::Truncate { of: e.clone(), size };
    let append = |len, tag| Op::Append { of: e.clone(), len, tag };
    let range = |mode, offset, len| Op::Fallocate { of: e.clone(), mode, offset, len };
    let begin = |end: Op| vec![create(e.clone()), at(0, LEN, first), end];
    let then = |end, more: Vec<Op>| [begin(end), more].concat();
    vec![
        then(fsync(), vec![at(5000, 100, second), fsync(), at(20_000, 30_000, NOISE), fsync()]),
        then(Op::Sync, vec![size(30_000), Op::Sync, size(50_000), fsync()]),
        then(fsync(), vec![size(30_000), at(40_000, 9000, second), Op::Sync, append(9000, third), fsync()]),
        then(
            Op::Sync,
            vec![range(FallocMode::PunchHole, 10_000, 30_000), fsync(), at(0, LEN, second), Op::Sync],
        ),
        then(
            Op::Sync,
            vec![range(FallocMode::ZeroRange, 20_000, 40_000), Op::Sync, at(30_000, 50, second), fsync()],
        ),
        then(Op::Sync, vec![at(0, 65_536, NOISE), fsync(), Op::Clean, at(0, 65_536, second), Op::Sync]),
        then(Op::Sync, vec![append(9000, second), fsync(), append(20_000, third), Op::Sync, Op::Remount]),
        then(fsync(), vec![at(0, LEN, second), Op::Clean, at(100, 100, third), Op::Clean, fsync()]),
        then(
            fsync(),
            vec![Op::Unlink { at: e.clone() }, Op::Sync, create(e.clone()), at(0, LEN, third), fsync()],
        ),
    ]
}
