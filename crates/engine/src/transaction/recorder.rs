//! Storage of records: up to two epochs, each a table of inodes in shards to reduce contention.
//!
//! The records of an inode are kept here instead of in the inode. So they outlive the cached inode, and a commit
//! takes whole tables. A thread that changes an inode holds the inode's lock; a shard's lock is held only while a
//! record is added.
use super::Op;
use super::fields::{Fields, inode_new, pack_rdev};
use super::inode_records::{InodeRecords, MappedPage, Target};
use crate::lock::{Mutex, rank};
use crate::stat::Sampled;
use foldhash::HashMap;
use segno_format::inode::RawInode;
use segno_format::xattr;
use segno_format::{Block, Features, Ino, rdev};
use segno_journal::{Record, Section};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SHARDS: usize = if cfg!(feature = "loom") { 1 } else { 32 };
/// Maximum number of data checksums in an epoch: recovery reads all these blocks.
const CHECKED: u64 = 4096;
type Shard = Mutex<HashMap<Ino, InodeRecords>, { rank::LEAF }>;

/// Collects what operations record. One outside an epoch records nothing.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Whether to store checksums of mapped data.
    checksums: AtomicBool,
    epochs: [EpochRecords; 2],
    /// Times taken to add records.
    pub times: Sampled,
}

/// The records of an epoch, taken by a commit.
#[derive(Debug)]
pub struct Taken {
    epoch: u64,
    /// Approximate size in the journal.
    pub bytes: u64,
    checksums: u64,
    logs: Vec<HashMap<Ino, InodeRecords>>,
}

impl Taken {
    /// Whether replay can verify all mapped data by checksums, within the limit.
    pub fn is_checked(&self) -> bool {
        self.checksums <= CHECKED
    }
    /// Sections by inode number; see [`InodeRecords::into_records`].
    pub fn into_sections(self, checked: bool) -> Vec<Section> {
        sections(self.logs.into_iter().flatten(), self.epoch, checked)
    }
}

#[derive(Debug, Default)]
struct EpochRecords {
    shards: [Shard; SHARDS],
    /// Approximate size of the records in the journal.
    bytes: AtomicU64,
    /// Checksums of mapped pages; more than [`CHECKED`] if one has none.
    checksums: AtomicU64,
}

impl Recorder {
    pub fn wants_checksums(&self) -> bool {
        self.checksums.load(Ordering::Relaxed)
    }
    pub fn set_checksums(&self, wanted: bool) {
        self.checksums.store(wanted, Ordering::Relaxed);
    }

    fn of(&self, epoch: u64) -> &EpochRecords {
        let [even, odd] = &self.epochs;
        if epoch.is_multiple_of(2) { even } else { odd }
    }

    /// Approximate size of the epochs not written yet.
    pub fn pending(&self) -> u64 {
        self.epochs.iter().map(|e| e.bytes.load(Ordering::Relaxed)).sum()
    }

    /// Takes all records of an epoch, in time independent of their number. All operations of the epoch have ended.
    pub fn take(&self, epoch: u64) -> Taken {
        let noted = self.of(epoch);
        let logs = noted.shards.iter().map(|shard| std::mem::take(&mut *shard.lock())).collect();
        let zero = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        Taken { epoch, bytes: zero(&noted.bytes), checksums: zero(&noted.checksums), logs }
    }
}

impl Op<'_> {
    /// Records a change of an inode. `add` returns the approximate size in the journal.
    pub fn record(&self, ino: Ino, add: impl FnOnce(&mut InodeRecords) -> usize) {
        if !self.is_recorded() {
            return;
        }
        let records = &self.transactions.records;
        let noted = records.of(self.journal_epoch);
        let shard = &noted.shards[ino.0 as usize & (SHARDS - 1)];
        let bytes = records.times.time(|| add(shard.lock().entry(ino).or_default()));
        self.bytes.set(self.bytes.get().saturating_add(bytes as u64));
    }

    /// Adds the size of the operation's records to that of its epoch.
    pub(super) fn count_bytes(&self) {
        let bytes = self.bytes.take();
        if bytes > 0 {
            self.transactions.records.of(self.journal_epoch).bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The inode's fields before a change, to be passed to [`Op::fields_changed`].
    pub fn fields(&self, block: &Block) -> Option<Fields> {
        if self.is_recorded() { Fields::of(block) } else { None }
    }

    pub fn fields_changed(&self, ino: Ino, before: Option<Fields>, block: &Block) {
        let (Some(before), Some(after)) = (before, before.and_then(|_| Fields::of(block))) else {
            return;
        };
        if before != after {
            let (attr, links) = after.since(&before);
            self.record(ino, |log| log.changed(&attr, links));
        }
    }

    /// Records a new inode, whose block is filled in.
    pub fn inode_made(&self, block: &Block, ino: Ino, features: Features) {
        if !self.is_recorded() {
            return;
        }
        let i: &RawInode = block.view();
        let layout = i.layout(features).ok();
        let words = layout.as_ref().map_or((0, 0), |l| (i.slot(l, 0).0, i.slot(l, 1).0));
        let device = matches!(i.i_mode.get() & 0o170_000, 0o020_000 | 0o060_000);
        let rdev = if device { pack_rdev(rdev::decode(words.0, words.1)) } else { 0 };
        self.record(ino, |log| log.made(inode_new(i, rdev)));
        if i.is_symlink() {
            let attr = segno_journal::record::Attr { size: Some(i.i_size.get()), ..Default::default() };
            self.record(ino, |log| log.changed(&attr, 0));
            let area = layout
                .map(|l| l.inline_range())
                .filter(|_| i.inline().contains(segno_format::inode::Inline::DATA));
            if let Some(target) = area.and_then(|a| block.0.get(a)?.get(..i.i_size.get() as usize)) {
                self.record(ino, |log| log.inline_written(0, target));
            }
        }
    }

    /// Records a change of a directory entry. `before` is `None` for a new name, `after` for a removed one.
    pub fn name_changed(
        &self,
        dir: Ino,
        name: (&[u8], Option<u32>),
        before: Option<Ino>,
        after: Option<Target>,
    ) {
        if name.0 == b".." {
            self.record(dir, |log| after.map_or(0, |a| log.parent(a.ino)));
        } else {
            self.record(dir, |log| log.name(name.0, name.1, before, after));
        }
    }

    /// Records the differences between two attribute areas.
    pub fn attrs_changed(&self, ino: Ino, old: &[u8], new: &[u8]) {
        let entries = |area| xattr::iter(area, ino.0).map_while(Result::ok);
        for e in entries(new) {
            let before = xattr::find(old, e.index, e.name, ino.0).ok().flatten();
            if before != Some(e.value) {
                self.record(ino, |log| log.xattr(e.index, e.name, Some(e.value)));
            }
        }
        for e in entries(old) {
            if matches!(xattr::find(new, e.index, e.name, ino.0), Ok(None)) {
                self.record(ino, |log| log.xattr(e.index, e.name, None));
            }
        }
    }

    /// Records that inline data moved to block 0, or was dropped if all zeros.
    pub fn inline_off(&self, ino: Ino, to: Option<MappedPage>) {
        self.record(ino, InodeRecords::inline_off);
        self.mapped(ino, to.into_iter(), false);
    }
    /// Records new addresses of file blocks; `moved` if the content is unchanged.
    pub fn mapped(&self, ino: Ino, pages: impl Iterator<Item = MappedPage>, moved: bool) {
        self.record_blocks(ino, pages, |log, pages| log.mapped(pages, moved));
    }
    /// Records the stored blocks of packed clusters, each under the page in whose slot it is.
    pub fn packed(&self, ino: Ino, blocks: impl Iterator<Item = MappedPage>) {
        self.record_blocks(ino, blocks, |log, blocks| log.packed(blocks));
    }
    fn record_blocks(
        &self,
        ino: Ino,
        blocks: impl Iterator<Item = MappedPage>,
        add: impl FnOnce(&mut InodeRecords, &mut dyn Iterator<Item = MappedPage>) -> usize,
    ) {
        let mut checksums = 0;
        let mut counted = blocks.inspect(|p| checksums += if p.crc.is_some() { 1 } else { CHECKED + 1 });
        self.record(ino, |log| add(log, &mut counted));
        if checksums > 0 {
            let noted = self.transactions.records.of(self.journal_epoch);
            noted.checksums.fetch_add(checksums, Ordering::Relaxed);
        }
    }
}

/// The final records by inode number, without inodes created and freed within the epoch.
pub fn sections(logs: impl Iterator<Item = (Ino, InodeRecords)>, epoch: u64, checked: bool) -> Vec<Section> {
    let section =
        |(ino, log): (Ino, InodeRecords)| Section { ino, epoch, records: log.into_records(checked) };
    let mut sections: Vec<Section> = logs.map(section).filter(|s| !s.records.is_empty()).collect();
    sections.sort_unstable_by_key(|s| s.ino);
    sections
}

/// Whether an epoch's records create the inode.
pub fn creates(section: &Section) -> bool {
    section.records.iter().any(|r| matches!(r, Record::InodeNew(_)))
}
