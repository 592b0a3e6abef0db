//! Generates random sequences of operations. Few names and sizes, as collisions find bugs.
use super::{DRAWN_FLAGS, Handles, Name, Op, Path, apply};
use crate::fs::{Fs, Node, Seek};
use crate::model::Model;
use segno_engine::{FallocMode, RenameMode, XattrMode};
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;
use segno_testkit::Rng;

const BLOCK: u64 = 4096;
const HANDLES: u64 = 4;
/// Names in a path.
const DEPTH: usize = 4;
/// Letters that name nodes; most of the time the first few.
const NAMES: u64 = 17;

/// Profile of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Longest sequence.
    pub ops: u64,
    /// Largest file, roughly: files stay in the inode and a few blocks, or reach the index nodes.
    pub far: bool,
    /// Directories of hundreds of names.
    pub many: bool,
    /// Every third operation makes something durable.
    pub durable: bool,
}

/// Generates one sequence. The model tracks what exists, so that most operations have a target.
#[must_use]
pub fn generate(rng: &mut Rng, profile: Profile, model: Model) -> Vec<Op> {
    let count = 1 + rng.below(profile.ops);
    let mut g = Generator { rng, profile, model, handles: [None; 4], paths: Vec::new() };
    (0..count)
        .map(|_| {
            g.paths = g.existing();
            let op = g.op();
            apply(&mut g.model, &mut g.handles, &op);
            op
        })
        .collect()
}

struct Generator<'a> {
    rng: &'a mut Rng,
    profile: Profile,
    model: Model,
    handles: Handles,
    /// Existing paths and their types.
    paths: Vec<(Path, FileType)>,
}

impl Generator<'_> {
    /// Paths of all inodes with a name that can be drawn, and all handles.
    fn existing(&mut self) -> Vec<(Path, FileType)> {
        let mut found = Vec::new();
        let mut todo = vec![(Path::root(), self.model.root())];
        let handles = self.handles;
        for (slot, node) in (0..).zip(handles) {
            todo.extend(node.map(|n| (Path::handle(slot), n)));
        }
        while let Some((path, node)) = todo.pop() {
            let Some(kind) = self.kind_of(node) else { continue };
            if kind == FileType::Directory && path.names.len() < DEPTH {
                let names = (0..NAMES as u16).chain([Name::MANY]).map(Name);
                let children: Vec<_> = names
                    .filter_map(|n| Some((path.join(n), self.model.lookup(node, &n.bytes()).ok()?)))
                    .collect();
                todo.extend(children);
            }
            found.push((path, kind));
        }
        found
    }

    fn kind_of(&self, node: Node) -> Option<FileType> {
        self.model.inodes().get(&node).map(|i| i.kind)
    }

    /// Something that exists, of a kind if there is any.
    fn find(&mut self, kind: Option<FileType>) -> Option<Path> {
        if self.rng.one_in(8) {
            return None;
        }
        let fits: Vec<&Path> =
            self.paths.iter().filter(|(_, k)| kind.is_none_or(|kind| *k == kind)).map(|(p, _)| p).collect();
        let i = self.rng.below(fits.len() as u64) as usize;
        fits.get(i).map(|&p| p.clone())
    }

    /// A regular file, more often than not.
    fn file(&mut self) -> Path {
        self.find(Some(FileType::Regular)).unwrap_or_else(|| self.any())
    }

    /// Any inode that exists, more often than not.
    fn node(&mut self) -> Path {
        self.find(None).unwrap_or_else(|| self.any())
    }

    /// A name that exists, more often than not.
    fn name_of(&mut self, kind: Option<FileType>) -> Path {
        self.find(kind).filter(|p| !p.names.is_empty()).unwrap_or_else(|| self.place())
    }

    fn op(&mut self) -> Op {
        if self.profile.durable && self.rng.one_in(3) {
            return match self.rng.below(8) {
                0 => Op::Sync,
                1 => Op::Fsync { of: self.dir(), datasync: false },
                n => Op::Fsync { of: self.file(), datasync: n == 2 },
            };
        }
        match self.rng.below(100) {
            0..=27 => self.names_op(),
            28..=57 => self.data_op(),
            58..=75 => self.inode_op(),
            76..=83 => self.handle_op(),
            84..=91 => self.question(),
            92..=96 => Op::Fsync { of: self.node(), datasync: self.rng.one_in(3) },
            97 => Op::Sync,
            98 => Op::Remount,
            _ => Op::Clean,
        }
    }

    fn names_op(&mut self) -> Op {
        let who = self.rng.below(4) as u8;
        match self.rng.below(20) {
            0..=5 => Op::Mknod { at: self.place(), kind: self.kind(), mode: self.mode(), who },
            6..=8 => Op::Mkdir { at: self.place(), mode: self.mode(), who },
            9 => {
                let lens = [0, 1, 100, 3451, 3452, 3487, 3488, 3489, 3688, 3689, 4095, 4096];
                Op::Symlink { at: self.place(), len: self.rng.pick(&lens) }
            }
            10 | 11 => Op::Link { of: self.file(), at: self.place() },
            12 | 13 => Op::Unlink { at: self.name_of(None) },
            14 => Op::Rmdir { at: self.name_of(Some(FileType::Directory)) },
            15 if self.profile.many => {
                let (first, count) = self.run();
                Op::Fill { dir: self.dir(), first, count }
            }
            16 if self.profile.many => {
                let (first, count) = self.run();
                Op::Drain { dir: self.dir(), first, count }
            }
            _ => {
                let to = if self.rng.one_in(2) { self.place() } else { self.name_of(None) };
                Op::Rename { from: self.name_of(None), to, mode: self.rename_mode() }
            }
        }
    }

    fn run(&mut self) -> (u16, u16) {
        let first = Name::MANY + self.rng.pick(&[0, 0, 50, 170, 250, 400]);
        (first, self.rng.pick(&[10, 90, 179, 182, 214, 300, 500]))
    }

    fn rename_mode(&mut self) -> RenameMode {
        let modes = [RenameMode::NoReplace, RenameMode::Exchange, RenameMode::Whiteout, RenameMode::Replace];
        if self.rng.one_in(2) { RenameMode::Replace } else { self.rng.pick(&modes) }
    }

    fn data_op(&mut self) -> Op {
        let of = self.file();
        let tag = self.rng.draw() as u32;
        match self.rng.below(20) {
            0..=7 => Op::Write { of, offset: self.offset(), len: self.len(), tag },
            8 | 9 => Op::Append { of, len: self.len(), tag },
            10..=12 => Op::Truncate { of, size: self.offset() },
            13..=17 => self.fallocate(of),
            18 => {
                let (from, offset, at) = (self.file(), self.offset(), self.offset());
                Op::Copy { from, offset, to: of, at, len: self.len().into() }
            }
            _ => {
                let what = if self.rng.one_in(2) { Seek::Data } else { Seek::Hole };
                Op::Seek { of, what, offset: self.offset() }
            }
        }
    }

    fn fallocate(&mut self, of: Path) -> Op {
        let modes = [
            FallocMode::Allocate,
            FallocMode::AllocateKeepSize,
            FallocMode::PunchHole,
            FallocMode::PunchHole,
            FallocMode::ZeroRange,
            FallocMode::ZeroRangeKeepSize,
            FallocMode::CollapseRange,
            FallocMode::InsertRange,
        ];
        let mode = modes.get(self.rng.below(8) as usize).copied().unwrap_or(FallocMode::Allocate);
        let (mut offset, mut len) = (self.offset(), u64::from(self.len()));
        let shifts = matches!(mode, FallocMode::CollapseRange | FallocMode::InsertRange);
        if shifts && !self.rng.one_in(8) {
            (offset, len) = (offset / BLOCK * BLOCK, (len / BLOCK).max(1) * BLOCK);
        }
        Op::Fallocate { of, mode, offset, len }
    }

    fn inode_op(&mut self) -> Op {
        let of = self.node();
        let tag = self.rng.draw() as u32;
        match self.rng.below(15) {
            12 | 13 => {
                let [one, other, ..] = DRAWN_FLAGS.map(|flag| flag.bits());
                let bits = self.rng.pick(&[0, one, other, one | other]);
                Op::Chattr { of, flags: InodeFlags::from_bits_retain(bits) }
            }
            14 => Op::Project { of, project: self.rng.below(3) as u32 },
            0 | 1 => Op::Chmod { of, mode: self.mode() },
            2 => Op::Chown { of, uid: self.rng.below(3) as u32, gid: self.rng.below(3) as u32 },
            3 => {
                let secs = self.rng.pick(&[-1, 0, 1, 0x7FFF_FFFF, 0x8000_0000, 1 << 33]);
                Op::Utimens { of, secs, nsec: self.rng.pick(&[0, 1, 999_999_999]) }
            }
            4..=8 => {
                let lens =
                    [0, 1, 8, 100, 160, 164, 168, 172, 176, 180, 2000, 4000, 4044, 4046, 4242, 4244, 4245];
                let modes = [XattrMode::Set, XattrMode::Set, XattrMode::Create, XattrMode::Replace];
                let name = self.xattr();
                Op::SetXattr { of, name, len: self.rng.pick(&lens), tag, mode: self.rng.pick(&modes) }
            }
            9 | 10 => Op::RemoveXattr { of, name: self.xattr() },
            _ => Op::ListXattr { of },
        }
    }

    fn xattr(&mut self) -> u8 {
        if self.rng.one_in(16) { self.rng.below(7) as u8 } else { self.rng.below(4) as u8 }
    }

    fn handle_op(&mut self) -> Op {
        let slot = self.rng.below(HANDLES) as u8;
        match self.rng.below(8) {
            0..=3 => Op::Open { of: self.node(), slot },
            4 | 5 => Op::Release { slot },
            _ => Op::Tmpfile { dir: self.dir(), slot },
        }
    }

    fn question(&mut self) -> Op {
        match self.rng.below(6) {
            0 | 1 => Op::Read { of: self.file(), offset: self.offset(), len: self.len() },
            2 => Op::Stat { of: self.node() },
            3 => Op::Readlink { of: self.name_of(Some(FileType::Symlink)) },
            _ => Op::Readdir { of: self.dir(), chunk: self.rng.pick(&[1, 2, 7, 1000]) },
        }
    }

    fn kind(&mut self) -> FileType {
        let kinds = [FileType::Fifo, FileType::Socket, FileType::CharDevice, FileType::BlockDevice];
        let kind = kinds.get(self.rng.below(32) as usize).copied();
        kind.unwrap_or(FileType::Regular)
    }

    fn mode(&mut self) -> u16 {
        self.rng.pick(&[0o644, 0o600, 0o777, 0, 0o6755, 0o2755, 0o2770, 0o1777, 0o4711])
    }

    fn name(&mut self) -> Name {
        let bound = if self.rng.one_in(8) { NAMES } else { 4 };
        Name(self.rng.below(bound) as u16)
    }

    /// A directory, more often than not.
    fn dir(&mut self) -> Path {
        self.find(Some(FileType::Directory)).unwrap_or_else(|| self.any_dir())
    }

    fn any_dir(&mut self) -> Path {
        if self.rng.one_in(4) {
            return Path::handle(self.rng.below(HANDLES) as u8);
        }
        let depth = self.rng.pick(&[0, 0, 0, 1, 1, 2]);
        (0..depth).fold(Path::root(), |path, _| path.join(self.name()))
    }

    /// A name in a directory.
    fn place(&mut self) -> Path {
        let name = self.name();
        self.dir().join(name)
    }

    /// Whatever it leads to.
    fn any(&mut self) -> Path {
        match self.rng.below(16) {
            0 => Path::root(),
            1..=3 => Path::handle(self.rng.below(HANDLES) as u8),
            _ => self.place(),
        }
    }

    /// A size or offset near the boundaries of the format's layouts.
    fn offset(&mut self) -> u64 {
        let near =
            [0, 0, 0, 1, 100, 3451, 3452, 3488, 3688, 4095, 4096, 4097, 8192, 9000, 12_288, 20_480, 65_536];
        let turns = [864, 873, 923, 923 + 1018, 923 + 2 * 1018, 923 + 3 * 1018];
        match self.rng.below(if self.profile.far { 24 } else { 16 }) {
            0..=11 => self.rng.pick(&near),
            12..=15 => self.rng.below(40_000),
            16..=22 => {
                let block = self.rng.pick(&turns) + self.rng.below(3) - 1;
                block * BLOCK + self.rng.pick(&[0, 0, 1, 4095])
            }
            _ => {
                let double = 923 + 2 * 1018 + 2 * 1018 * 1018;
                let block = self.rng.pick(&[double - 1, double, double + 1018, 1_057_053_439 - 924, 1 << 30]);
                block * BLOCK + self.rng.pick(&[0, 17])
            }
        }
    }

    fn len(&mut self) -> u32 {
        let lens = [1, 1, 100, 3400, 3488, 4096, 4096, 4097, 8192, 12_000, 16_384, 0];
        if self.profile.far && self.rng.one_in(24) { 300_000 } else { self.rng.pick(&lens) }
    }
}
