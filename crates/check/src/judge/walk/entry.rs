//! Entries of one dentry block or inline directory.
use super::Walk;
use super::dir::{Child, Dir, Place};
use crate::report::{Kind, Rules};
use segno_codec::{CasefoldError, casefold, casefolded_name_hash};
use segno_format::dentry::{DentryShape, Entry, FileType, bucket_blocks, buckets, slots_for};
use segno_format::{Corrupt, Nid, Structure, Unit, name_hash};
use std::hash::{DefaultHasher, Hash, Hasher};

impl Walk<'_, '_> {
    /// Judges all entries of a block; returns those to follow.
    pub(super) fn judge_entries(
        &mut self,
        dir: &mut Dir,
        shape: &DentryShape,
        area: &[u8],
        place: Place,
    ) -> Vec<Child> {
        let mut children = Vec::new();
        let (mut pos, mut covered) = (0, 0);
        loop {
            let entry = match shape.next(area, pos, place.addr.0.into()) {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(e) => {
                    self.report(dir.ino, Kind::Dentry, e);
                    return children;
                }
            };
            pos = entry.next();
            covered += slots_for(entry.name.len());
            if (entry.slot..pos).any(|i| !shape.in_use(area, i)) {
                self.entry_problem(dir, place, Kind::Dentry, "slot of a name is marked free", 0, 1);
            }
            if entry.name == b"." || entry.name == b".." {
                self.judge_dots(dir, place, &entry);
            } else if let Some(child) = self.judge_entry(dir, place, &entry) {
                children.push(child);
            }
        }
        let used = (0..shape.slots).filter(|&i| shape.in_use(area, i)).count() as u64;
        if used > covered.into() {
            let why = "slots in use that belong to no entry";
            let at = place.addr.0.into();
            let e = Corrupt::block(Structure::DentryBlock, at, why, used, covered.into());
            self.report(dir.ino, Kind::Dentry, e);
        }
        children
    }

    fn entry_problem(
        &mut self,
        dir: &Dir,
        place: Place,
        kind: Kind,
        why: &'static str,
        found: u64,
        expected: u64,
    ) {
        let e = Corrupt::block(Structure::DentryBlock, place.addr.0.into(), why, found, expected);
        self.report(dir.ino, kind, e);
    }

    fn judge_dots(&mut self, dir: &mut Dir, place: Place, entry: &Entry<'_>) {
        let which = entry.name.len() - 1;
        if let Some(seen) = dir.dots.get_mut(which) {
            if *seen {
                self.entry_problem(dir, place, Kind::DentryDuplicate, "second . or ..", 2, 1);
                return;
            }
            *seen = true;
        }
        let mut rules = Rules::new(Kind::DentryDots, Structure::DentryBlock, Unit::Block, place.addr.0);
        rules.equal("block of . or ..", place.b, 0u64);
        rules.equal("slot of . or ..", entry.slot, which as u64);
        rules.equal("hash of . or ..", entry.hash, 0u64);
        rules.equal("type of . or ..", entry.file_type, FileType::Directory as u8);
        let expected = if which == 0 { dir.ino } else { dir.parent };
        // mkfs.f2fs versions differ in what `..` of lost+found says, and nobody reads it.
        let loose = which == 1 && dir.is_lost_found && dir.parent == Nid::ROOT.0 && entry.ino.0 == dir.ino;
        rules.require(entry.ino.0 == expected || loose, "inode of . or ..", entry.ino.0, expected);
        self.report_broken(dir.ino, rules);
    }

    fn judge_entry(&mut self, dir: &mut Dir, place: Place, entry: &Entry<'_>) -> Option<Child> {
        if !dir.encrypted && entry.name.iter().any(|&b| b == 0 || b == b'/') {
            let len = entry.name.len() as u64;
            self.entry_problem(dir, place, Kind::DentryName, "NUL or slash in a name", len, 0);
        }
        self.judge_hash(dir, place, entry);
        if !dir.inline {
            self.judge_bucket(dir, place, entry);
        }
        if !dir.names.insert(identity(dir, entry.name)) {
            let len = entry.name.len() as u64;
            self.entry_problem(dir, place, Kind::DentryDuplicate, "name appears twice, of length", len, 0);
        }
        let known = FileType::from_disk(entry.file_type).is_some_and(|t| t != FileType::Unknown);
        if !known {
            let found = entry.file_type.into();
            self.entry_problem(dir, place, Kind::DentryType, "file type of an entry", found, 1);
        }
        let name = if self.names.is_some() { entry.name.into() } else { Box::default() };
        Some(Child { ino: entry.ino, file_type: entry.file_type, name })
    }

    fn judge_hash(&mut self, dir: &Dir, place: Place, entry: &Entry<'_>) {
        let hash = match (dir.casefold, dir.encrypted) {
            (false, _) => name_hash(entry.name),
            (true, false) => casefolded_name_hash(entry.name),
            // That hash needs the key.
            (true, true) => return,
        };
        let debatable = dir.casefold && is_debatable(entry.name);
        let kind = if debatable { Kind::FoldedHash } else { Kind::DentryHash };
        if hash != entry.hash {
            self.entry_problem(dir, place, kind, "hash of a name", entry.hash.into(), hash.into());
        }
    }

    /// Lookup only reads the buckets of the hash at the levels in use.
    fn judge_bucket(&mut self, dir: &Dir, place: Place, entry: &Entry<'_>) {
        let (mut level, mut first) = (0, 0);
        loop {
            let len = buckets(level, dir.dir_level) * bucket_blocks(level);
            if place.b < first + len {
                break;
            }
            first += len;
            level += 1;
        }
        if level >= dir.depth {
            let why = "level of an entry against i_current_depth";
            self.entry_problem(dir, place, Kind::DentryPlace, why, level.into(), dir.depth.into());
        }
        let found = (place.b - first) / bucket_blocks(level);
        let expected = u64::from(entry.hash) % buckets(level, dir.dir_level);
        if found != expected {
            self.entry_problem(dir, place, Kind::DentryPlace, "bucket of an entry", found, expected);
        }
    }
}

/// Whether kernels disagree about the folded form of a name: it has characters that some of them ignore. They search the whole
/// directory as a last resort.
#[must_use]
pub fn is_debatable(name: &[u8]) -> bool {
    let mut folded = Vec::new();
    let mut is_ignored = |c: char| {
        !c.is_ascii()
            && casefold(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut folded) == Err(CasefoldError::Empty)
    };
    name.utf8_chunks().any(|chunk| chunk.valid().chars().any(&mut is_ignored))
}

/// What makes a name different from others: its bytes, or their folded form.
fn identity(dir: &Dir, name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut folded = Vec::new();
    if dir.casefold && !dir.encrypted && casefold(name, &mut folded).is_ok() {
        folded.hash(&mut hasher);
    } else {
        name.hash(&mut hasher);
    }
    hasher.finish()
}
