//! The names in all directories, as far as they can be read.
use crate::error::Result;
use crate::state::State;
use segno_check::is_debatable_name;
use segno_codec::{casefold, casefolded_name_hash};
use segno_format::dentry::{
    DentryShape, MAX_DEPTH, RawDentry, bucket_blocks, bucket_start, buckets, slots_for,
};
use segno_format::inode::{Advise, Inline, InodeFlags, RawInode};
use segno_format::{Block, NAME_MAX, name_hash};
use std::collections::{BTreeMap, HashSet};
use zerocopy::FromBytes;

/// Largest first hash table, as a power of two, that is taken for one.
const MOST_LEVEL: u8 = 16;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub name: Vec<u8>,
    pub hash: u32,
    pub ino: u32,
    pub file_type: u8,
    /// Type of the file as the directory has it.
    pub stored_type: u8,
    /// Block of the directory and slot; `None` for a name that the repair adds.
    pub place: Option<(u64, u32)>,
}

/// A directory.
#[derive(Debug, Default)]
pub(crate) struct Dir {
    pub names: Vec<Name>,
    /// Inodes that `.` and `..` lead to, where they are as they should be.
    pub dots: [Option<u32>; 2],
    /// Its blocks have to be written.
    pub dirty: bool,
    pub casefold: bool,
    pub encrypted: bool,
    pub inline: bool,
    pub level: u8,
}

pub(crate) type Dirs = BTreeMap<u32, Dir>;

impl Dir {
    /// A directory without names.
    pub(crate) fn of(raw: &RawInode) -> Self {
        Self {
            casefold: raw.flags().contains(InodeFlags::CASEFOLD),
            encrypted: raw.advise().contains(Advise::ENCRYPT),
            inline: raw.inline().contains(Inline::DENTRY),
            level: raw.i_dir_level,
            ..Self::default()
        }
    }

    /// Hash of a name; `None` where it needs a key.
    pub(crate) fn hash(&self, name: &[u8]) -> Option<u32> {
        match (self.casefold, self.encrypted) {
            (false, _) => Some(name_hash(name)),
            (true, false) => Some(casefolded_name_hash(name)),
            (true, true) => None,
        }
    }

    /// The identity of a name in this directory: its bytes, or their folded form.
    pub(crate) fn identity(&self, name: &[u8]) -> Vec<u8> {
        let mut folded = Vec::new();
        let folds = self.casefold && !self.encrypted && casefold(name, &mut folded).is_ok();
        if folds { folded } else { name.to_vec() }
    }

    /// Whether names as these are allowed here.
    pub(crate) fn allows(&self, name: &[u8]) -> bool {
        let dots = name == b"." || name == b"..";
        let plain = self.encrypted || !name.iter().any(|&b| b == 0 || b == b'/');
        !name.is_empty() && name.len() <= NAME_MAX && !dots && plain
    }
}

/// Reads all directories.
pub(crate) fn read(state: &mut State<'_>) -> Result<Dirs> {
    let mut dirs = Dirs::new();
    for ino in state.inos() {
        let block = state.block(ino)?;
        if block.view::<RawInode>().is_dir() {
            let dir = read_one(state, ino, &block)?;
            dirs.insert(ino, dir);
        }
    }
    Ok(dirs)
}

/// Reads one directory.
pub(crate) fn read_one(state: &mut State<'_>, ino: u32, block: &Block) -> Result<Dir> {
    let raw: &RawInode = block.view();
    let mut reading = Reading { dir: Dir::of(raw), seen: HashSet::new(), lost: 0 };
    if reading.dir.inline {
        let layout = state.layout(raw);
        let area = block.0.get(layout.inline_range()).unwrap_or_default();
        reading.area(&DentryShape::inline(&layout), area, 0);
    } else if raw.has_index() {
        for slot in state.slots(ino)? {
            let block = state.data_block(ino, slot.b, slot.addr)?;
            reading.area(&DentryShape::BLOCK, &block.0, slot.b);
        }
    }
    if reading.lost > 0 {
        state.lose(ino, format!("{} entries of the directory cannot be read", reading.lost));
    }
    let level = usual_level(&reading.dir);
    if !reading.dir.inline && level != reading.dir.level {
        reading.dir.level = level;
        state.inode(ino, |raw| raw.i_dir_level = level)?;
        state.note(ino, "the size of the directory's first hash table was wrong");
    }
    Ok(reading.dir)
}

struct Reading {
    dir: Dir,
    seen: HashSet<Vec<u8>>,
    lost: u32,
}

impl Reading {
    fn area(&mut self, shape: &DentryShape, area: &[u8], b: u64) {
        let mut slot = 0;
        while slot < shape.slots {
            let Some(raw) = raw(shape, area, slot) else { return };
            let len = usize::from(raw.name_len.get());
            let n = slots_for(len);
            if !shape.in_use(area, slot) {
                // A name of several slots whose first one is marked free.
                let rest = len > 8
                    && n <= 32
                    && (slot + 1..slot + n).all(|i| shape.in_use(area, i) && tail(shape, area, i));
                match self
                    .name(shape, area, slot, &raw)
                    .filter(|name| rest && self.dir.hash(&name.name) == Some(name.hash))
                {
                    Some(name) => {
                        self.dir.dirty = true;
                        self.add(name, b, slot);
                        slot += n;
                    }
                    None => slot += 1,
                }
                continue;
            }
            if len == 0 {
                self.dir.dirty = true;
                slot += 1;
                continue;
            }
            let Some(name) = self.name(shape, area, slot, &raw) else {
                self.dir.dirty = true;
                self.lost += 1;
                slot += 1;
                continue;
            };
            self.dir.dirty |= (slot..slot + n).any(|i| !shape.in_use(area, i));
            self.add(name, b, slot);
            slot += n;
        }
    }

    fn name(&self, shape: &DentryShape, area: &[u8], slot: u32, raw: &RawDentry) -> Option<Name> {
        let len = usize::from(raw.name_len.get());
        if len == 0 || len > NAME_MAX || slot + slots_for(len) > shape.slots {
            return None;
        }
        let start = shape.name_offset(slot);
        Some(Name {
            name: area.get(start..start + len)?.to_vec(),
            hash: raw.hash.get(),
            ino: raw.ino.get(),
            file_type: raw.file_type,
            stored_type: raw.file_type,
            place: None,
        })
    }

    fn add(&mut self, mut name: Name, b: u64, slot: u32) {
        if name.name == b"." || name.name == b".." {
            let which = name.name.len() - 1;
            let right = b == 0 && slot as usize == which && name.hash == 0 && name.file_type == 2;
            match self.dir.dots.get_mut(which) {
                Some(dot @ None) if right => *dot = Some(name.ino),
                _ => self.dir.dirty = true,
            }
            return;
        }
        name.place = Some((b, slot));
        let identity = self.dir.identity(&name.name);
        if !self.dir.allows(&name.name) || !self.seen.insert(identity) {
            self.dir.dirty = true;
            self.lost += 1;
            return;
        }
        if let Some(hash) = self.dir.hash(&name.name)
            && hash != name.hash
            && (!self.dir.casefold || !is_debatable_name(&name.name))
        {
            self.dir.dirty = true;
            name.hash = hash;
        }
        self.dir.names.push(name);
    }
}

/// How large the first hash table of a directory is: as stored, unless another size explains the places of
/// more names.
pub(crate) fn usual_level(dir: &Dir) -> u8 {
    let in_place = |level: u8| {
        let right = |n: &&Name| n.place.is_some_and(|(b, _)| level_of(b, level, n.hash).is_some());
        dir.names.iter().filter(right).count()
    };
    if in_place(dir.level) == dir.names.len() && !dir.names.is_empty() {
        return dir.level;
    }
    let stored = if dir.level <= MOST_LEVEL { dir.level } else { 0 };
    (0..=MOST_LEVEL).max_by_key(|level| (in_place(*level), *level == stored)).unwrap_or_default()
}

/// Level at which a name with this hash may be in a block.
pub(crate) fn level_of(b: u64, dir_level: u8, hash: u32) -> Option<u32> {
    let (mut level, mut first) = (0, 0);
    while level < MAX_DEPTH {
        let len = buckets(level, dir_level) * bucket_blocks(level);
        if b < first + len {
            let start = bucket_start(level, dir_level, hash);
            return (start..start + bucket_blocks(level)).contains(&b).then_some(level);
        }
        first += len;
        level += 1;
    }
    None
}

/// Whether a name is where lookups do not find it.
pub(crate) fn is_misplaced(dir: &Dir, name: &Name, depth: u32) -> bool {
    name.place.is_some_and(|(b, _)| {
        !dir.inline && level_of(b, dir.level, name.hash).is_none_or(|level| level >= depth)
    })
}

/// Whether a slot continues the name of an earlier slot.
fn tail(shape: &DentryShape, area: &[u8], slot: u32) -> bool {
    raw(shape, area, slot).is_some_and(|d| d.name_len.get() == 0)
}

fn raw(shape: &DentryShape, area: &[u8], slot: u32) -> Option<RawDentry> {
    let at = shape.dentry_offset(slot);
    area.get(at..).and_then(|s| RawDentry::read_from_prefix(s).ok()).map(|(d, _)| d)
}
