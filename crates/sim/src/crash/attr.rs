//! Scenes of attributes that are made durable and change again: flags, projects, ACLs, attributes of each name space, parameters of
//! compression, and times of directories.
use super::workload::{A, B, C, D, E, create, write};
use crate::op::{Name, Op, Path};
use segno_codec::Algorithm;
use segno_engine::XattrMode;
use segno_format::inode::InodeFlags;

pub(super) fn attribute_scenes() -> Vec<Vec<Op>> {
    let (a, b, c, d, e) = (Path::of(&[A]), Path::of(&[B]), Path::of(&[C]), Path::of(&[D]), Path::of(&[E]));
    let (ca, de) = (c.join(Name(A)), d.join(Name(E)));
    let fsync = |of: &Path| Op::Fsync { of: of.clone(), datasync: false };
    let chattr = |of: &Path, flags| Op::Chattr { of: of.clone(), flags };
    let project = |of: &Path, project| Op::Project { of: of.clone(), project };
    let acl = |of: &Path, mode| Op::SetAcl { of: of.clone(), mode };
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
