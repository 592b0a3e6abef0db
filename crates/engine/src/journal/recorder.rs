//! Where changes are noted: two epochs at most, each a table of inodes split so that threads seldom meet.
//!
//! An inode's log is in this table and not in the inode, so it outlives the cached inode, and the end of an epoch takes
//! whole tables. Whoever changes an inode holds its lock; the lock here is held for the time of a note.
use super::fields::{Fields, inode_new, pack_rdev};
use super::log::{InodeLog, Mapped, Target};
use crate::gate::Op;
use crate::lock::{Mutex, rank};
use crate::node::NodeFrame;
use crate::planted::{Bug, planted};
use crate::stat::Sampled;
use foldhash::HashMap;
use segno_format::inode::RawInode;
use segno_format::xattr;
use segno_format::{Block, Features, Ino, rdev};
use segno_journal::{Record, Section};
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 32;
/// Checksums of data in an epoch at most: recovery reads all those blocks.
const CHECKED: u64 = 4096;
type Shard = Mutex<HashMap<Ino, InodeLog>, { rank::LEAF }>;

/// See the module. Every note is a no-op outside an epoch.
#[derive(Debug, Default)]
pub struct Recorder {
    epochs: [Noted; 2],
    /// How long notes take.
    pub times: Sampled,
}

/// What was noted in an epoch and is not in the journal.
#[derive(Debug)]
pub struct Taken {
    epoch: u64,
    bytes: u64,
    checksums: u64,
    logs: Vec<HashMap<Ino, InodeLog>>,
}

impl Taken {
    /// About how many bytes it would take in the journal.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Whether replay can see by checksums, not too many, if the data that it maps arrived.
    pub fn is_checked(&self) -> bool {
        self.checksums <= CHECKED
    }
    /// By inode number; see [`InodeLog::into_records`].
    pub fn into_sections(self, checked: bool) -> Vec<Section> {
        sections(self.logs.into_iter().flatten(), self.epoch, checked)
    }
}

#[derive(Debug)]
struct Noted {
    shards: [Shard; SHARDS],
    /// About what the records will take in the journal.
    bytes: AtomicU64,
    /// Of pages that were mapped; more than [`CHECKED`] if one has none.
    checksums: AtomicU64,
}

impl Default for Noted {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            bytes: AtomicU64::new(0),
            checksums: AtomicU64::new(0),
        }
    }
}

impl Recorder {
    fn of(&self, epoch: u64) -> &Noted {
        let [even, odd] = &self.epochs;
        if epoch.is_multiple_of(2) { even } else { odd }
    }

    fn note(&self, op: &Op<'_>, ino: Ino, f: impl FnOnce(&mut InodeLog) -> usize) {
        if op.log_epoch() == 0 {
            return;
        }
        let noted = self.of(op.log_epoch());
        let shard = &noted.shards[ino.0 as usize & (SHARDS - 1)];
        let bytes = self.times.time(|| f(shard.lock().entry(ino).or_default()));
        noted.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// About how many bytes the epochs that are not written yet will take.
    pub fn pending(&self) -> u64 {
        self.epochs.iter().map(|e| e.bytes.load(Ordering::Relaxed)).sum()
    }

    /// Takes everything noted in an epoch, as a whole: that takes no longer for much than for little. All operations in it
    /// are over.
    pub fn take(&self, epoch: u64) -> Taken {
        let noted = self.of(epoch);
        let logs = noted.shards.iter().map(|shard| std::mem::take(&mut *shard.lock())).collect();
        let zero = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        Taken { epoch, bytes: zero(&noted.bytes), checksums: zero(&noted.checksums), logs }
    }

    /// The inode's fields before a change; give them to [`Recorder::fields_changed`].
    pub fn fields(&self, op: &Op<'_>, frame: &NodeFrame, block: &Block) -> Option<Fields> {
        if op.log_epoch() == 0 { None } else { Fields::of(frame, block) }
    }

    pub fn fields_changed(&self, op: &Op<'_>, frame: &NodeFrame, before: Option<Fields>, block: &Block) {
        let (Some(before), Some(after)) = (before, before.and_then(|_| Fields::of(frame, block))) else {
            return;
        };
        if before != after {
            let (attr, links) = after.since(&before);
            self.note(op, frame.ino, |log| log.changed(&attr, links));
        }
    }

    /// An inode came into being; its block is filled in.
    pub fn inode_made(&self, op: &Op<'_>, block: &Block, ino: Ino, features: Features) {
        if op.log_epoch() == 0 {
            return;
        }
        let i: &RawInode = block.view();
        let layout = i.layout(features).ok();
        let words = layout.as_ref().map_or((0, 0), |l| (i.slot(l, 0).0, i.slot(l, 1).0));
        let device = matches!(i.i_mode.get() & 0o170_000, 0o020_000 | 0o060_000);
        let rdev = if device { pack_rdev(rdev::decode(words.0, words.1)) } else { 0 };
        self.note(op, ino, |log| log.made(inode_new(i, rdev)));
        if i.is_symlink() {
            let attr = segno_journal::record::Attr { size: Some(i.i_size.get()), ..Default::default() };
            self.note(op, ino, |log| log.changed(&attr, 0));
            let area = layout
                .map(|l| l.inline_range())
                .filter(|_| i.inline().contains(segno_format::inode::Inline::DATA));
            if let Some(target) = area.and_then(|a| block.0.get(a)?.get(..i.i_size.get() as usize)) {
                self.note(op, ino, |log| log.inline_written(0, target));
            }
        }
    }

    pub fn inode_freed(&self, op: &Op<'_>, ino: Ino) {
        self.note(op, ino, InodeLog::freed);
    }

    /// A name of a directory leads elsewhere: from nowhere if it is new, to nowhere if it goes.
    pub fn name(
        &self,
        op: &Op<'_>,
        dir: Ino,
        name: (&[u8], Option<u32>),
        before: Option<Ino>,
        after: Option<Target>,
    ) {
        if name.0 == b".." {
            let after = after.filter(|_| !planted(Bug::UnjournaledParent));
            self.note(op, dir, |log| after.map_or(0, |a| log.parent(a.ino)));
        } else {
            self.note(op, dir, |log| log.name(name.0, name.1, before, after));
        }
    }

    /// The attributes are no longer those of `old`; both are whole areas.
    pub fn attrs_changed(&self, op: &Op<'_>, ino: Ino, old: &[u8], new: &[u8]) {
        let entries = |area| xattr::iter(area, ino.0).map_while(Result::ok);
        for e in entries(new) {
            let before = xattr::find(old, e.index, e.name, ino.0).ok().flatten();
            let missed = planted(Bug::SameLengthXattr) && before.is_some_and(|b| b.len() == e.value.len());
            if before != Some(e.value) && !missed {
                self.note(op, ino, |log| log.xattr(e.index, e.name, Some(e.value)));
            }
        }
        for e in entries(old) {
            if matches!(xattr::find(new, e.index, e.name, ino.0), Ok(None)) {
                self.note(op, ino, |log| log.xattr(e.index, e.name, None));
            }
        }
    }

    pub fn inline_written(&self, op: &Op<'_>, ino: Ino, offset: usize, bytes: &[u8]) {
        self.note(op, ino, |log| log.inline_written(offset as u16, bytes));
    }
    pub fn inline_cut(&self, op: &Op<'_>, ino: Ino, size: u64) {
        self.note(op, ino, |log| log.inline_cut(size));
    }
    /// Inline data moved to block 0, or nowhere if it was all zeros.
    pub fn inline_off(&self, op: &Op<'_>, ino: Ino, to: Option<Mapped>) {
        self.note(op, ino, InodeLog::inline_off);
        self.mapped(op, ino, to.into_iter(), false);
    }
    /// File blocks have their content at these addresses; `moved` if it is the same as before.
    pub fn mapped(&self, op: &Op<'_>, ino: Ino, pages: impl Iterator<Item = Mapped>, moved: bool) {
        let mut checksums = 0;
        let counted = pages.inspect(|p| checksums += if p.crc.is_some() { 1 } else { CHECKED + 1 });
        self.note(op, ino, |log| log.mapped(counted, moved));
        if checksums > 0 {
            self.of(op.log_epoch()).checksums.fetch_add(checksums, Ordering::Relaxed);
        }
    }
    pub fn reserved(&self, op: &Op<'_>, ino: Ino, blocks: std::ops::Range<u64>) {
        self.note(op, ino, |log| log.reserved(blocks.start, blocks.end.saturating_sub(blocks.start)));
    }
    pub fn unmapped(&self, op: &Op<'_>, ino: Ino, blocks: std::ops::Range<u64>) {
        if blocks.is_empty() {
            return;
        }
        self.note(op, ino, |log| log.unmapped(blocks.start, blocks.end.saturating_sub(blocks.start)));
    }
    /// Everything from a file block on went.
    pub fn truncated(&self, op: &Op<'_>, ino: Ino, from: u64) {
        self.note(op, ino, |log| log.truncated(from));
    }
}

/// What they come to, by inode number; nothing of an inode that came and went.
pub fn sections(logs: impl Iterator<Item = (Ino, InodeLog)>, epoch: u64, checked: bool) -> Vec<Section> {
    let section = |(ino, log): (Ino, InodeLog)| Section { ino, epoch, records: log.into_records(checked) };
    let mut sections: Vec<Section> = logs.map(section).filter(|s| !s.records.is_empty()).collect();
    sections.sort_unstable_by_key(|s| s.ino);
    sections
}

/// Whether an epoch's records create the inode.
pub fn creates(section: &Section) -> bool {
    section.records.iter().any(|r| matches!(r, Record::InodeNew(_)))
}
