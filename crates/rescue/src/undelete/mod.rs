//! Deleted files. A deletion writes no node, so the last version from before is still there until its block
//! is used again. A block is shown only if nothing may have been written to it since.
mod deleted_inode;
mod proof;

pub use deleted_inode::{DeletedInode, deleted};
pub use proof::Proof;

use crate::RescueError;
use crate::file::Slot;
use crate::judge::Class;
use crate::output::{Item, Sink, Source};
use crate::tree::Tree;
use crate::volume::Volume;
use segno_format::dentry::FileType;
use segno_format::text;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

const NONE_PROVEN: &str = "no block of it is proven; --unproven copies what may be its own";
const ALL_ZERO: &str = "all its blocks read as zeros: they were discarded, or zeros are all it had";

/// How much of a deleted file is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Blocks proven to be its own still.
    pub proven: u64,
    /// Free blocks that the summary does not prove, or that writes after the last checkpoint may have
    /// overwritten without a trace.
    pub unproven: u64,
    /// Blocks that are in use or were used again, or cannot be read.
    pub gone: u64,
    /// Blocks that would be proven, but read as zeros: they were discarded, or zeros are what the file had.
    pub zero: u64,
    /// Nodes of its index that are gone.
    pub nodes: u64,
}

impl Share {
    /// Blocks that are not sure to be what the file had.
    #[must_use]
    pub fn doubtful(&self) -> u64 {
        self.unproven + self.gone + self.zero + self.nodes
    }

    /// Proven blocks in per cent; 100 only if nothing is doubtful.
    #[must_use]
    pub fn percent(&self) -> u64 {
        match self.doubtful() {
            0 => 100,
            doubtful => self.proven * 100 / (self.proven + doubtful),
        }
    }
}

/// A deleted file of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Lost {
    /// Path, class and reasons.
    #[serde(flatten)]
    pub item: Item,
    /// Seconds since 1970 of its last change.
    pub changed: u64,
    /// Seconds since 1970 by which the file was gone, if its directory shows it.
    pub deleted_by: Option<u64>,
    /// The remaining blocks.
    pub blocks: Share,
}

/// Checks that a volume still has the tables that proofs need.
pub fn require(volume: &Volume<'_>) -> Result<(), RescueError> {
    let missing =
        [("checkpoint", volume.pack.is_none()), ("NAT", volume.nat.is_none()), ("SIT", volume.sit.is_none())];
    match missing.into_iter().find(|(_, is)| *is) {
        Some((what, _)) => Err(RescueError::NoTable(what)),
        None => Ok(()),
    }
}

/// The report on a deleted file.
#[must_use]
pub fn describe(volume: &Volume<'_>, tree: &Tree, dead: &DeletedInode, proof: &Proof) -> Lost {
    let raw = dead.file.raw();
    let blocks = proof.share(volume, dead);
    let mut reasons = Vec::new();
    for (n, what) in [
        (blocks.unproven, "blocks are not proven to be its own"),
        (blocks.gone, "blocks were used again"),
        (blocks.nodes, "nodes of its index are gone"),
        (blocks.zero, "blocks read as zeros, perhaps discarded"),
    ] {
        if n > 0 {
            reasons.push(format!("{n} {what}"));
        }
    }
    let class = if reasons.is_empty() { Class::A } else { Class::C };
    let kind = FileType::of_mode(raw.i_mode.get()).name();
    let path = dead.path.join(&b'/');
    Lost {
        item: Item::new(&path, dead.file.node.ino, kind, raw.i_size.get(), class, reasons),
        changed: raw.i_ctime.get(),
        deleted_by: dead.parent_changed(volume, tree),
        blocks,
    }
}

/// Where deleted files are copied to, and how.
pub struct Output<'a> {
    /// The directory.
    pub target: &'a mut dyn Sink,
    /// Paths in use.
    pub taken: HashSet<Vec<Vec<u8>>>,
    /// Whether blocks are copied that are not proven to be a file's own.
    pub unproven: bool,
    /// Set to give up.
    pub stop: &'a AtomicBool,
}

/// Copies a deleted file. The name of an incomplete copy gets a suffix.
pub fn copy(
    volume: &Volume<'_>,
    dead: &DeletedInode,
    proof: &Proof,
    output: &mut Output<'_>,
    lost: &mut Lost,
) -> Result<(), RescueError> {
    let Output { target, taken, unproven, stop } = output;
    let unproven = *unproven;
    let b = lost.blocks;
    let shown = b.proven + if unproven { b.unproven + b.zero } else { 0 };
    if shown == 0 && b.doubtful() > 0 {
        lost.item.failed = Some(if b.zero == b.doubtful() { ALL_ZERO } else { NONE_PROVEN }.into());
        return Ok(());
    }
    let mut path = dead.path.clone();
    if let Some(name) = path.last_mut() {
        let mark: &[u8] = match (b.doubtful() == 0, unproven && b.unproven > 0) {
            (true, _) => b"",
            (false, true) => b".unproven",
            (false, false) => b".partial",
        };
        name.truncate(segno_format::NAME_MAX.saturating_sub(mark.len() + 24));
        name.extend_from_slice(mark);
    }
    let mut n = 1;
    let plain = path.clone();
    while !taken.insert(path.clone()) {
        n += 1;
        path.clone_from(&plain);
        if let Some(name) = path.last_mut() {
            name.extend_from_slice(format!(".{n}").as_bytes());
        }
    }
    for depth in 1..path.len() {
        let dir = path.get(..depth).unwrap_or_default().to_vec();
        if taken.insert(dir.clone()) {
            target.make_dir(&dir)?;
        }
    }
    let allowed = |s: &Slot| proof.allows(volume, dead, s, unproven);
    let source = Source { volume, file: &dead.file, allowed: &allowed, stop };
    (lost.item.path, lost.item.path_bytes) = text::field(&path.join(&b'/'));
    lost.item.add(&target.copy(&path, &source)?);
    Ok(())
}
