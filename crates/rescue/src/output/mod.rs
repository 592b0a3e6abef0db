//! Copies files to a directory or a new volume. Names are from the damaged volume: each is made a single
//! component of a path, and `segno-host` changes nothing outside of the target.
mod node;
mod place;
mod sink;

pub use place::{OutputOptions, Target};
pub use sink::{Copied, Sink, Source};

use crate::attrs;
use crate::file::{Opened, Slot};
use crate::judge::{Class, Verdicts};
use crate::tree::Tree;
use crate::volume::Volume;
use crate::{RescueError, judge};
use segno_format::dentry::FileType;
use segno_format::text;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// A file of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// Path below the root; bytes that are not UTF-8 are escaped.
    pub path: String,
    /// All bytes of the path in hexadecimal, if they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// Inode number; 0 for a directory made to hold inodes without a place.
    pub ino: u32,
    /// File type.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Bytes.
    pub size: u64,
    /// How sure it is.
    pub class: Class,
    /// Why.
    pub reasons: Vec<String>,
    /// Why it was not copied, if it was not.
    pub failed: Option<String>,
}

/// The files of a tree, judged.
pub struct Plan<'v, 'a> {
    /// The volume, as found by the scan.
    pub volume: &'v Volume<'a>,
    /// Its names.
    pub tree: &'v Tree,
    /// How sure their content is.
    pub verdicts: &'v Verdicts,
    /// Which paths count.
    pub only: Option<glob::Pattern>,
}

impl Plan<'_, '_> {
    /// Entries that match the pattern, in the order of the tree and without the root.
    pub fn entries(&self) -> impl Iterator<Item = u32> + '_ {
        (1..self.tree.entries.len() as u32).filter(|&e| self.matches(e))
    }

    /// Paths that match, and of which only the name was found.
    pub fn lost(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let path = |(dir, name): &(u32, Box<[u8]>)| {
            let mut names = self.tree.components(*dir);
            names.push(name);
            names.join(&b'/')
        };
        self.tree.dangling.iter().map(path).filter(|path| self.is_meant(|| path.clone()))
    }

    fn matches(&self, entry: u32) -> bool {
        self.is_meant(|| self.tree.path(entry))
    }

    /// Patterns are text, and so match paths as reports have them.
    fn is_meant(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        self.only.as_ref().is_none_or(|p| p.matches(&text::field(&path()).0))
    }

    /// The report on an entry.
    #[must_use]
    pub fn item(&self, entry: u32) -> Item {
        let record = self.tree.entries.get(entry as usize).and_then(|e| e.record);
        let record = record.and_then(|r| self.tree.record(r));
        let (class, reasons) = self.verdicts.class(self.tree, entry);
        let kind = record.map_or("directory", |r| r.kind.name());
        let reasons = reasons.into_iter().map(str::to_owned).collect();
        let (ino, size) = record.map_or((0, 0), |r| (r.node.nid, r.size));
        Item::new(&self.tree.path(entry), ino, kind, size, class, reasons)
    }

    /// Copies all entries that match. `each` is called for every one, after it was tried.
    pub fn copy(
        &self,
        target: &mut dyn Sink,
        stop: &AtomicBool,
        mut each: impl FnMut(Item),
    ) -> Result<(), RescueError> {
        let mut dirs = Vec::new();
        let mut made: HashSet<u32> = HashSet::from([0]);
        let mut linked: HashMap<u32, u32> = HashMap::new();
        for entry in self.entries() {
            if stop.load(Ordering::Relaxed) {
                return Err(RescueError::Interrupted);
            }
            let mut item = self.item(entry);
            match self.copy_one(target, entry, stop, &mut made, &mut linked, &mut dirs) {
                Ok(copied) => item.add(&copied),
                Err(e @ (RescueError::NoSpace { .. } | RescueError::Interrupted)) => return Err(e),
                Err(e) => item.failed = Some(e.to_string()),
            }
            each(item);
        }
        // Making something in a directory changes its times, and it may not be writable to its owner.
        for entry in dirs.into_iter().rev() {
            if let Some(file) = self.open(entry) {
                let source = Source { volume: self.volume, file: &file, allowed: &|_| true, stop };
                target.finish_dir(&self.components(entry), &source)?;
            }
        }
        Ok(())
    }

    fn open(&self, entry: u32) -> Option<Opened> {
        judge::open(self.volume, self.tree, self.tree.entries.get(entry as usize)?.record?)
    }

    /// Names on the target. An invalid name is replaced by the inode number.
    fn components(&self, entry: u32) -> Vec<Vec<u8>> {
        self.tree.components(entry).into_iter().map(|name| place::safe(name, entry)).collect()
    }

    fn copy_one(
        &self,
        target: &mut dyn Sink,
        entry: u32,
        stop: &AtomicBool,
        made: &mut HashSet<u32>,
        linked: &mut HashMap<u32, u32>,
        dirs: &mut Vec<u32>,
    ) -> Result<Copied, RescueError> {
        // Directories on the way are made even if they do not match.
        let mut above = Vec::new();
        let mut at = entry;
        while let Some(e) = self.tree.entries.get(at as usize).filter(|e| !made.contains(&e.parent)) {
            above.push(e.parent);
            at = e.parent;
        }
        for dir in above.into_iter().rev() {
            target.make_dir(&self.components(dir))?;
            made.insert(dir);
            dirs.push(dir);
        }
        let path = self.components(entry);
        let record = self.tree.entries.get(entry as usize).and_then(|e| e.record);
        let Some(record) = record.and_then(|r| self.tree.record(r)) else {
            made.insert(entry);
            return target.make_dir(&path).map(|()| Copied::default());
        };
        if record.kind == FileType::Directory {
            if made.insert(entry) {
                target.make_dir(&path)?;
                dirs.push(entry);
            }
            return Ok(Copied::default());
        }
        if let Some(first) = linked.get(&record.node.nid) {
            return target.link(&self.components(*first), &path).map(|()| Copied::default());
        }
        let Some(file) = self.open(entry) else {
            return Ok(Copied { failed: Some("the inode cannot be read"), ..Copied::default() });
        };
        let allowed = |s: &Slot| !self.verdicts.is_foreign(s);
        let source = Source { volume: self.volume, file: &file, allowed: &allowed, stop };
        let copied = target.copy(&path, &source)?;
        if record.links > 1 && copied.failed.is_none() && !copied.left_out {
            linked.insert(file.node.nid, entry);
        }
        Ok(copied)
    }
}

impl Item {
    pub(crate) fn new(
        path: &[u8],
        ino: u32,
        kind: &'static str,
        size: u64,
        class: Class,
        reasons: Vec<String>,
    ) -> Self {
        let (path, path_bytes) = text::field(path);
        Self { path, path_bytes, ino, kind, size, class, reasons, failed: None }
    }

    /// The path for people, on one line.
    #[must_use]
    pub fn shown(&self) -> String {
        text::of_field(&self.path, self.path_bytes.is_some())
    }

    /// Adds what was noticed while copying.
    pub fn add(&mut self, copied: &Copied) {
        self.failed = copied.failed.map(str::to_owned);
        let holes = copied.holes;
        let faults = [
            (holes.unreadable, "blocks that cannot be read are holes"),
            (holes.withheld, "blocks that may be another file's are holes"),
            (holes.clusters, "clusters that cannot be decompressed are holes"),
            (u64::from(copied.xattrs_lost), "extended attributes are lost"),
        ];
        for (n, why) in faults.into_iter().filter(|(n, _)| *n > 0) {
            self.class = Class::C;
            self.reasons.push(format!("{n} {why}"));
        }
        let notes = [
            (copied.encrypted, "encrypted: content and names are as stored"),
            (copied.refused_xattrs > 0, "the target refused extended attributes"),
            (copied.kept, "was there already"),
            (copied.left_out, "left out, as the target gets no device nodes"),
        ];
        self.reasons.extend(notes.into_iter().filter(|(is, _)| *is).map(|(_, why)| why.to_owned()));
    }
}

/// A name as one path component. An invalid one is replaced by a name made from the number.
pub(crate) fn safe_name(name: &[u8], number: u32) -> Vec<u8> {
    place::safe(name, number)
}

/// Whether an attribute holds an encryption context.
fn is_context(a: &attrs::Attribute) -> bool {
    a.index == segno_format::xattr::index::ENCRYPTION
}
