//! Operations of a test: by path or handle, with few names and sizes.
mod apply;
mod generate;
mod shrink;

pub use apply::{Handles, Outcome, apply, resolve};
pub use generate::{Profile, generate};
pub use shrink::shrink;

use crate::fs::Seek;
use segno_engine::{FallocMode, RenameMode, XattrMode};
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, InodeFlags};
use segno_testkit::rng::mix;
use std::fmt;

/// A path: names below the root, or below the inode of a handle. Without names it is that inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub handle: Option<u8>,
    pub names: Vec<Name>,
}

/// A name of [`Name::bytes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub u16);

impl Name {
    /// From here on names are for filling directories.
    pub const MANY: u16 = 100;

    /// One letter; then names around whole slots; one as long as can be, one too long, two whose hashes are equal.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let long = |len: usize| [b"long".to_vec(), vec![b'x'; len - 4]].concat();
        match self.0 {
            n @ 0..=9 => vec![b'a' + n as u8],
            10 => b"seven77".to_vec(),
            11 => b"eight888".to_vec(),
            12 => b"nine99999".to_vec(),
            13 => long(255),
            14 => long(256),
            15 => b"movie.mp4".to_vec(),
            16 => b"hot.db".to_vec(),
            n => format!("many-{n:05}").into_bytes(),
        }
    }
}

impl Path {
    #[must_use]
    pub fn root() -> Self {
        Self { handle: None, names: Vec::new() }
    }
    #[must_use]
    pub fn of(names: &[u16]) -> Self {
        Self { handle: None, names: names.iter().map(|&n| Name(n)).collect() }
    }
    #[must_use]
    pub fn handle(slot: u8) -> Self {
        Self { handle: Some(slot), names: Vec::new() }
    }
    #[must_use]
    pub fn join(&self, name: Name) -> Self {
        let mut path = self.clone();
        path.names.push(name);
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.handle {
            Some(slot) => write!(f, "#{slot}")?,
            None if self.names.is_empty() => f.write_str("/")?,
            None => {}
        }
        for name in &self.names {
            match name.0 {
                13 => f.write_str("/<255 bytes>")?,
                14 => f.write_str("/<256 bytes>")?,
                _ => write!(f, "/{}", String::from_utf8_lossy(&name.bytes()))?,
            }
        }
        Ok(())
    }
}

/// Flags that [`Op::Chattr`] sets or clears. The first two change nothing else that is in the model.
pub const DRAWN_FLAGS: [InodeFlags; 5] = [
    InodeFlags::NODUMP,
    InodeFlags::NOATIME,
    InodeFlags::IMMUTABLE,
    InodeFlags::APPEND,
    InodeFlags::PROJINHERIT,
];

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Mknod {
        at: Path,
        kind: FileType,
        mode: u16,
        who: u8,
    },
    Mkdir {
        at: Path,
        mode: u16,
        who: u8,
    },
    Symlink {
        at: Path,
        len: u16,
    },
    Tmpfile {
        dir: Path,
        slot: u8,
    },
    Link {
        of: Path,
        at: Path,
    },
    Unlink {
        at: Path,
    },
    Rmdir {
        at: Path,
    },
    Rename {
        from: Path,
        to: Path,
        mode: RenameMode,
    },
    /// Makes, or removes, files with the names `first` and up.
    Fill {
        dir: Path,
        first: u16,
        count: u16,
    },
    Drain {
        dir: Path,
        first: u16,
        count: u16,
    },
    Open {
        of: Path,
        slot: u8,
    },
    Release {
        slot: u8,
    },
    Write {
        of: Path,
        offset: u64,
        len: u32,
        tag: u32,
    },
    Append {
        of: Path,
        len: u32,
        tag: u32,
    },
    Read {
        of: Path,
        offset: u64,
        len: u32,
    },
    Truncate {
        of: Path,
        size: u64,
    },
    Fallocate {
        of: Path,
        mode: FallocMode,
        offset: u64,
        len: u64,
    },
    Seek {
        of: Path,
        what: Seek,
        offset: u64,
    },
    Copy {
        from: Path,
        offset: u64,
        to: Path,
        at: u64,
        len: u64,
    },
    Chmod {
        of: Path,
        mode: u16,
    },
    Chown {
        of: Path,
        uid: u32,
        gid: u32,
    },
    Utimens {
        of: Path,
        secs: i64,
        nsec: u32,
    },
    /// Sets these flags, and clears others of [`DRAWN_FLAGS`].
    Chattr {
        of: Path,
        flags: InodeFlags,
    },
    Project {
        of: Path,
        project: u32,
    },
    /// Algorithm and logarithm of the cluster size.
    Compression {
        of: Path,
        algorithm: u8,
        log_cluster: u8,
    },
    /// Releases the blocks that compression saves, or reserves them again.
    SavedBlocks {
        of: Path,
        released: bool,
    },
    /// Sets the cold and hot bits of `i_advise`.
    Advise {
        of: Path,
        advise: Advise,
    },
    /// Gives it the access or default ACL that goes with a mode.
    SetAcl {
        of: Path,
        mode: u16,
        default: bool,
    },
    SetXattr {
        of: Path,
        name: u8,
        len: u16,
        tag: u32,
        mode: XattrMode,
    },
    RemoveXattr {
        of: Path,
        name: u8,
    },
    ListXattr {
        of: Path,
    },
    Stat {
        of: Path,
    },
    Readlink {
        of: Path,
    },
    Readdir {
        of: Path,
        chunk: u16,
    },
    Fsync {
        of: Path,
        datasync: bool,
    },
    Sync,
    Remount,
    Clean,
}

impl Op {
    /// Whether it promises that something is durable when it returns.
    #[must_use]
    pub fn is_persistence(&self) -> bool {
        matches!(self, Self::Fsync { .. } | Self::Sync | Self::Remount)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mknod { at, kind: FileType::Regular, mode, who } => {
                write!(f, "create {at} mode {mode:o} by {who}")
            }
            Self::Mknod { at, kind, mode, who } => write!(f, "mknod {at} {kind:?} mode {mode:o} by {who}"),
            Self::Mkdir { at, mode, who } => write!(f, "mkdir {at} mode {mode:o} by {who}"),
            Self::Symlink { at, len } => write!(f, "symlink {at} to {len} bytes"),
            Self::Tmpfile { dir, slot } => write!(f, "tmpfile in {dir} as #{slot}"),
            Self::Link { of, at } => write!(f, "link {of} {at}"),
            Self::Unlink { at } => write!(f, "unlink {at}"),
            Self::Rmdir { at } => write!(f, "rmdir {at}"),
            Self::Rename { from, to, mode } => write!(f, "rename {from} {to} {mode:?}"),
            Self::Fill { dir, first, count } => write!(f, "create {count} files from {first} in {dir}"),
            Self::Drain { dir, first, count } => write!(f, "unlink {count} files from {first} in {dir}"),
            Self::Open { of, slot } => write!(f, "open {of} as #{slot}"),
            Self::Release { slot } => write!(f, "close #{slot}"),
            Self::Write { of, offset, len, tag } => write!(f, "write {of} at {offset} {len} bytes of {tag}"),
            Self::Append { of, len, tag } => write!(f, "append {of} {len} bytes of {tag}"),
            Self::Read { of, offset, len } => write!(f, "read {of} at {offset} {len} bytes"),
            Self::Truncate { of, size } => write!(f, "truncate {of} to {size}"),
            Self::Fallocate { of, mode, offset, len } => {
                write!(f, "fallocate {of} {mode:?} at {offset} {len} bytes")
            }
            Self::Seek { of, what, offset } => write!(f, "seek {of} {what:?} from {offset}"),
            Self::Copy { from, offset, to, at, len } => {
                write!(f, "copy {from} at {offset} to {to} at {at} {len} bytes")
            }
            Self::Chmod { of, mode } => write!(f, "chmod {of} {mode:o}"),
            Self::Chown { of, uid, gid } => write!(f, "chown {of} {uid}:{gid}"),
            Self::Utimens { of, secs, nsec } => write!(f, "utimens {of} {secs}.{nsec:09}"),
            Self::Chattr { of, flags } => write!(f, "chattr {of} {:#x}", flags.bits()),
            Self::Project { of, project } => write!(f, "chproj {of} {project}"),
            Self::Compression { of, algorithm, log_cluster } => {
                write!(f, "compression of {of} by {algorithm} in clusters of 2^{log_cluster}")
            }
            Self::SavedBlocks { of, released: true } => write!(f, "release the saved blocks of {of}"),
            Self::SavedBlocks { of, released: false } => write!(f, "reserve the saved blocks of {of}"),
            Self::Advise { of, advise } => write!(f, "advise {of} {:#x}", advise.bits()),
            Self::SetAcl { of, mode, default: false } => write!(f, "setfacl {of} {mode:o}"),
            Self::SetAcl { of, mode, default: true } => write!(f, "setfacl -d {of} {mode:o}"),
            Self::SetXattr { of, name, len, tag, mode } => {
                write!(f, "setxattr {of} {} {len} bytes of {tag} {mode:?}", xattr_text(*name))
            }
            Self::RemoveXattr { of, name } => write!(f, "removexattr {of} {}", xattr_text(*name)),
            Self::ListXattr { of } => write!(f, "listxattr {of}"),
            Self::Stat { of } => write!(f, "stat {of}"),
            Self::Readlink { of } => write!(f, "readlink {of}"),
            Self::Readdir { of, chunk } => write!(f, "readdir {of} {chunk} at a time"),
            Self::Fsync { of, datasync: false } => write!(f, "fsync {of}"),
            Self::Fsync { of, datasync: true } => write!(f, "fdatasync {of}"),
            Self::Sync => f.write_str("sync"),
            Self::Remount => f.write_str("remount"),
            Self::Clean => f.write_str("clean"),
        }
    }
}

/// The name of an extended attribute.
#[must_use]
pub fn xattr_name(n: u8) -> Vec<u8> {
    match n {
        0 => b"user.a".to_vec(),
        1 => b"user.bb".to_vec(),
        2 => b"trusted.c".to_vec(),
        3 => b"security.d".to_vec(),
        4 => [b"user.".to_vec(), vec![b'n'; 250]].concat(),
        5 => b"other.e".to_vec(),
        _ => b"user.".to_vec(),
    }
}

fn xattr_text(n: u8) -> String {
    let name = xattr_name(n);
    if name.len() > 20 { format!("<{} bytes>", name.len()) } else { String::from_utf8_lossy(&name).into() }
}

/// Words of 8 bytes in a block, and after how many of them compressible data repeats.
const BLOCK_WORDS: u64 = 512;
const PERIOD: u64 = 32;

/// The bytes that an operation writes: non-zero, derived from position and tag. Of three tags in four they repeat within a block,
/// so that they can be compressed.
#[must_use]
pub fn pattern(tag: u32, offset: u64, len: usize) -> Vec<u8> {
    let word = |n: u64| mix(u64::from(tag) << 40 ^ n).to_le_bytes();
    let mut out = Vec::with_capacity(len + 8);
    for n in offset / 8..(offset + len as u64).div_ceil(8) {
        let repeated = n / BLOCK_WORDS * BLOCK_WORDS + n % PERIOD;
        out.extend(word(if tag.is_multiple_of(4) { n } else { repeated }).map(|b| b | 1));
    }
    out.drain(..(offset % 8) as usize);
    out.truncate(len);
    out
}
