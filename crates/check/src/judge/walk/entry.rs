//! Entries of one dentry block or inline directory.
use super::Walk;
use super::dir::{Child, Dir, Place};
use crate::report::{Kind, Rules};
use segno_codec::{CasefoldError, casefold, casefolded_name_hash};
use segno_format::dentry::{DentryShape, Entry, FileType, bucket_blocks, buckets, slots_for};
use segno_format::{Ino, Structure, Unit, name_hash};
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
        let keeps_names = self.names.is_some();
        let mut children = Vec::new();
        let mut rules = Rules::new(Kind::Dentry, Structure::DentryBlock, Unit::Block, place.addr.0);
        let (mut pos, mut covered) = (0, 0);
        let whole = loop {
            let entry = match shape.next(area, pos, place.addr.0.into()) {
                Ok(Some(entry)) => entry,
                Ok(None) => break true,
                Err(e) => {
                    rules.of(Kind::Dentry).add(e);
                    break false;
                }
            };
            pos = entry.next();
            covered += slots_for(entry.name.len());
            let used = (entry.slot..pos).all(|i| shape.in_use(area, i));
            rules.of(Kind::Dentry).require(used, "slot of a name is marked free", 0u64, 1u64);
            if entry.name == b"." || entry.name == b".." {
                judge_dots(&mut rules, dir, place, &entry);
            } else {
                judge_entry(&mut rules, dir, place, &entry);
                let name = if keeps_names { entry.name.into() } else { Box::default() };
                children.push(Child { ino: entry.ino, file_type: entry.file_type, name });
            }
        };
        let used = (0..shape.slots).filter(|&i| shape.in_use(area, i)).count() as u64;
        let fits = !whole || used <= covered.into();
        rules.of(Kind::Dentry).require(fits, "slots in use that belong to no entry", used, covered);
        self.report_broken(dir.ino, rules);
        children
    }
}

fn judge_dots(rules: &mut Rules, dir: &mut Dir, place: Place, entry: &Entry<'_>) {
    let which = entry.name.len() - 1;
    if let Some(seen) = dir.dots.get_mut(which) {
        let first = !std::mem::replace(seen, true);
        if !rules.of(Kind::DentryDuplicate).require(first, "second . or ..", 2u64, 1u64) {
            return;
        }
    }
    let rules = rules.of(Kind::DentryDots);
    rules.equal("block of . or ..", place.b, 0u64);
    rules.equal("slot of . or ..", entry.slot, which as u64);
    rules.equal("hash of . or ..", entry.hash, 0u64);
    rules.equal("type of . or ..", entry.file_type, FileType::Directory as u8);
    let expected = if which == 0 { dir.ino } else { dir.parent };
    // The `..` of lost+found differs between versions of mkfs.f2fs, and no implementation reads it.
    let loose = which == 1 && dir.is_lost_found && dir.parent == Ino::ROOT.0 && entry.ino.0 == dir.ino;
    rules.require(entry.ino.0 == expected || loose, "inode of . or ..", entry.ino.0, expected);
}

fn judge_entry(rules: &mut Rules, dir: &mut Dir, place: Place, entry: &Entry<'_>) {
    let len = entry.name.len() as u64;
    let plain = dir.encrypted || !entry.name.iter().any(|&b| b == 0 || b == b'/');
    rules.of(Kind::DentryName).require(plain, "NUL or slash in a name", len, 0u64);
    judge_hash(rules, dir, entry);
    if !dir.inline {
        judge_bucket(rules.of(Kind::DentryPlace), dir, place, entry);
    }
    let new = dir.names.insert(identity(dir, entry.name));
    rules.of(Kind::DentryDuplicate).require(new, "name appears twice, of length", len, 0u64);
    let known = FileType::from_disk(entry.file_type).is_some_and(|t| t != FileType::Unknown);
    rules.of(Kind::DentryType).require(known, "file type of an entry", entry.file_type, 1u64);
}

fn judge_hash(rules: &mut Rules, dir: &Dir, entry: &Entry<'_>) {
    let hash = match (dir.casefold, dir.encrypted) {
        (false, _) => name_hash(entry.name),
        (true, false) => casefolded_name_hash(entry.name),
        // That hash needs the key.
        (true, true) => return,
    };
    let debatable = dir.casefold && is_debatable(entry.name);
    let kind = if debatable { Kind::FoldedHash } else { Kind::DentryHash };
    rules.of(kind).equal("hash of a name", entry.hash, hash);
}

/// Lookup only reads the buckets of the hash at the levels in use.
fn judge_bucket(rules: &mut Rules, dir: &Dir, place: Place, entry: &Entry<'_>) {
    let (mut level, mut first) = (0, 0);
    loop {
        let len = buckets(level, dir.dir_level) * bucket_blocks(level);
        if place.b < first + len {
            break;
        }
        first += len;
        level += 1;
    }
    rules.require(level < dir.depth, "level of an entry against i_current_depth", level, dir.depth);
    let found = (place.b - first) / bucket_blocks(level);
    let expected = u64::from(entry.hash) % buckets(level, dir.dir_level);
    rules.equal("bucket of an entry", found, expected);
}

/// Whether kernels disagree about the folded form of a name: it has characters that some of them ignore. They
/// search the whole directory as a last resort.
#[must_use]
pub fn is_debatable(name: &[u8]) -> bool {
    let mut folded = Vec::new();
    let mut is_ignored = |c: char| {
        !c.is_ascii()
            && casefold(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut folded) == Err(CasefoldError::Empty)
    };
    name.utf8_chunks().any(|chunk| chunk.valid().chars().any(&mut is_ignored))
}

/// The identity of a name in its directory: its bytes, or their folded form.
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
