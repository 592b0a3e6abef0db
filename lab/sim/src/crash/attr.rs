//! Scenes of attributes that are made durable and change again: flags, projects, ACLs, attributes of each name space, parameters of
//! compression, times of directories, advice, and released blocks.
use super::workload::{A, B, C, D, E, create, write};
use crate::op::{Name, Op, Path};
use segno_codec::Algorithm;
use segno_engine::{RenameMode, XattrMode};
use segno_format::inode::{Advise, InodeFlags};

/// A name by which a file is cold.
const MOVIE: u16 = 15;

pub(super) fn attribute_scenes() -> Vec<Vec<Op>> {
    let (a, b, c, d, e) = (Path::of(&[A]), Path::of(&[B]), Path::of(&[C]), Path::of(&[D]), Path::of(&[E]));
    let (ca, de) = (c.join(Name(A)), d.join(Name(E)));
    let fsync = |of: &Path| Op::Fsync { of: of.clone(), datasync: false };
    let chattr = |of: &Path, flags| Op::Chattr { of: of.clone(), flags };
    let project = |of: &Path, project| Op::Project { of: of.clone(), project };
    let acl = |of: &Path, mode| Op::SetAcl { of: of.clone(), mode, default: false };
    let set =
        |of: &Path, name, len, tag| Op::SetXattr { of: of.clone(), name, len, tag, mode: XattrMode::Set };
    let remove = |of: &Path, name| Op::RemoveXattr { of: of.clone(), name };
    let touch = |of: &Path, secs| Op::Utimens { of: of.clone(), secs, nsec: 5 };
    let parameters = |how: Algorithm, log_cluster| Op::Compression {
        of: e.clone(),
        algorithm: how.to_disk(),
        log_cluster,
    };
    vec![
        vec![chattr(&a, InodeFlags::NODUMP), fsync(&a), chattr(&a, InodeFlags::IMMUTABLE), fsync(&a)],
        vec![
            chattr(&b, InodeFlags::APPEND | InodeFlags::NOATIME),
            fsync(&b),
            chattr(&b, InodeFlags::empty()),
            Op::Sync,
        ],
        vec![chattr(&c, InodeFlags::NODUMP), fsync(&c), create(c.join(Name(E))), fsync(&c.join(Name(E)))],
        vec![project(&b, 7), fsync(&b), project(&b, 8), write(&b, 0, 9000, 90), fsync(&b)],
        vec![
            project(&d, 5),
            chattr(&d, InodeFlags::PROJINHERIT),
            fsync(&d),
            create(de.clone()),
            write(&de, 0, 9000, 91),
            fsync(&de),
        ],
        vec![acl(&a, 0o640), fsync(&a), Op::Chmod { of: a.clone(), mode: 0o604 }, fsync(&a)],
        vec![acl(&ca, 0o670), Op::Sync, acl(&ca, 0o607), fsync(&ca), write(&ca, 0, 100, 92), fsync(&ca)],
        vec![
            set(&a, 2, 30, 93),
            set(&c, 3, 30, 94),
            fsync(&a),
            fsync(&c),
            remove(&a, 2),
            set(&c, 3, 30, 95),
            fsync(&c),
        ],
        vec![set(&b, 3, 900, 96), fsync(&b), set(&b, 2, 3000, 97), fsync(&b), remove(&b, 3), fsync(&b)],
        vec![
            touch(&c, 70),
            fsync(&c),
            touch(&d, 71),
            create(de.clone()),
            fsync(&de),
            touch(&d, 72),
            fsync(&d),
        ],
        vec![
            create(e.clone()),
            parameters(Algorithm::Zstd, 4),
            fsync(&e),
            write(&e, 0, 100_000, 98),
            fsync(&e),
            write(&e, 70_000, 50, 99),
            fsync(&e),
        ],
    ]
}

/// Default ACLs and inodes that inherit them, advice that is set or follows from a name, and compressed files
/// that release blocks.
pub(super) fn late_attribute_scenes() -> Vec<Vec<Op>> {
    let (b, c, d, e) = (Path::of(&[B]), Path::of(&[C]), Path::of(&[D]), Path::of(&[E]));
    let (de, dc, movie) = (d.join(Name(E)), d.join(Name(C)), Path::of(&[MOVIE]));
    let (dca, handle) = (dc.join(Name(A)), Path::handle(0));
    let fsync = |of: &Path| Op::Fsync { of: of.clone(), datasync: false };
    let default_acl = |of: &Path, mode| Op::SetAcl { of: of.clone(), mode, default: true };
    let advise = |of: &Path, advise| Op::Advise { of: of.clone(), advise };
    let released = |released| Op::SavedBlocks { of: e.clone(), released };
    let packed = || vec![create(e.clone()), write(&e, 0, 70_000, 81), fsync(&e)];
    let level = |how: Algorithm| Op::Compression { of: e.clone(), algorithm: how.to_disk(), log_cluster: 3 };
    let rename = Op::Rename { from: movie.clone(), to: e.clone(), mode: RenameMode::Replace };
    vec![
        vec![
            default_acl(&d, 0o750),
            fsync(&d),
            create(de.clone()),
            write(&de, 0, 9000, 101),
            fsync(&de),
            Op::Mkdir { at: dc, mode: 0o775, who: 1 },
            create(dca.clone()),
            fsync(&dca),
            default_acl(&d, 0o704),
            Op::Sync,
        ],
        vec![
            default_acl(&d, 0o660),
            Op::Tmpfile { dir: d, slot: 0 },
            write(&handle, 0, 100, 102),
            Op::Link { of: handle.clone(), at: de },
            fsync(&handle),
        ],
        vec![
            advise(&b, Advise::HOT),
            fsync(&b),
            advise(&b, Advise::COLD),
            write(&b, 0, 9000, 103),
            fsync(&b),
            advise(&c, Advise::COLD),
            fsync(&c),
            advise(&b, Advise::empty()),
            Op::Sync,
        ],
        vec![create(movie.clone()), write(&movie, 0, 9000, 104), fsync(&movie), rename, fsync(&e)],
        [packed(), vec![released(true), fsync(&e), released(false), write(&e, 0, 5000, 105), fsync(&e)]]
            .concat(),
        [packed(), vec![released(true), Op::Sync, Op::Truncate { of: e.clone(), size: 0 }, fsync(&e)]]
            .concat(),
        vec![create(e.clone()), level(Algorithm::Lz4), fsync(&e), level(Algorithm::Zstd), fsync(&e)],
    ]
}
