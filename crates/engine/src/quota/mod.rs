//! Quota: what every user, group and project owns, exact at each checkpoint.
//!
//! Usage follows the inode blocks themselves: whatever changes `i_blocks` or an owner goes through
//! [`crate::node::NodeCache::modify`], which tells the difference here. Limits are kept in the files and not enforced, as
//! Linux does without a quota mount option.
mod file;
mod recount;

use crate::lock::{Mutex, rank};
use crate::node::NodeFrame;
use crate::sync::atomic::{AtomicBool, Ordering};
use segno_format::inode::RawInode;
use segno_format::quota::{QUOTA_KINDS, QuotaTable};
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Block, Features, Ino};

/// End of `i_projid` in the extra attributes.
const PROJID_END: u16 = 8;

/// What an inode counts for, and with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// User, group, project.
    ids: [u32; QUOTA_KINDS],
    bytes: u64,
}

/// A quota file in memory.
struct QuotaFile {
    ino: Ino,
    table: QuotaTable,
    /// The bytes that the checkpoint has, and the ids in them.
    stored: Vec<u8>,
    stored_ids: usize,
    /// The table is newer.
    changed: bool,
    /// There was no room to write it.
    behind: bool,
}

#[derive(Default)]
struct Ledger {
    files: [Option<QuotaFile>; QUOTA_KINDS],
    /// Usage is not known for certain; a check has to count anew.
    doubtful: bool,
}

/// See the module. Does nothing until a writable mount has loaded the files.
pub struct Quota {
    own: [Option<Ino>; QUOTA_KINDS],
    projects: bool,
    on: AtomicBool,
    ledger: Mutex<Ledger, { rank::LEAF }>,
}

impl Quota {
    pub fn new(sb: &Superblock) -> Self {
        Self {
            own: sb.quota_inos().map(|ino| ino.map(segno_format::Nid)),
            projects: sb.features.contains(Features::PRJQUOTA),
            on: AtomicBool::new(false),
            ledger: Mutex::default(),
        }
    }

    fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Whether the inode is a quota file; those are not charged to anybody.
    pub fn owns(&self, ino: Ino) -> bool {
        self.own.contains(&Some(ino))
    }

    /// What a node counts for; only an inode does, and only once it is filled in.
    pub fn holding(&self, frame: &NodeFrame, block: &Block) -> Option<Holding> {
        if frame.nid == frame.ino { self.holding_of(frame.ino, block) } else { None }
    }

    fn holding_of(&self, ino: Ino, block: &Block) -> Option<Holding> {
        if !self.is_on() || self.owns(ino) {
            return None;
        }
        let raw: &RawInode = block.view();
        let others = raw.i_blocks.get().checked_sub(1)?;
        let project = if self.projects && raw.has_extra(PROJID_END) { raw.extra().i_projid.get() } else { 0 };
        Some(Holding {
            ids: [raw.i_uid.get(), raw.i_gid.get(), project],
            bytes: others.saturating_mul(BLOCK_SIZE as u64),
        })
    }

    /// Sets all usage to 0, to be counted again.
    fn forget_usage(&self) {
        for file in self.ledger.lock().files.iter_mut().flatten() {
            file.table.entries.values_mut().for_each(|e| (e.inodes, e.bytes) = (0, 0));
            file.table.entries.retain(|_, e| !e.is_empty());
            file.changed = true;
        }
    }

    /// An inode counts differently from now on.
    pub fn changed(&self, before: Option<Holding>, after: Option<Holding>) {
        if before == after {
            return;
        }
        let mut ledger = self.ledger.lock();
        let mut exact = true;
        for (kind, file) in ledger.files.iter_mut().enumerate() {
            let Some(file) = file else { continue };
            let of = |h: Option<Holding>| h.and_then(|h| h.ids.get(kind).map(|&id| (id, h.bytes)));
            file.changed = true;
            if let Some((id, bytes)) = of(after) {
                let entry = file.table.entries.entry(id).or_default();
                entry.inodes = entry.inodes.saturating_add(1);
                entry.bytes = entry.bytes.saturating_add(bytes);
            }
            if let Some((id, bytes)) = of(before) {
                let entry = file.table.entries.entry(id).or_default();
                exact &= entry.inodes >= 1 && entry.bytes >= bytes;
                entry.inodes = entry.inodes.saturating_sub(1);
                entry.bytes = entry.bytes.saturating_sub(bytes);
                if entry.is_empty() {
                    file.table.entries.remove(&id);
                }
            }
        }
        ledger.doubtful |= !exact;
    }

    /// Whether a check has to count usage anew; `None` without quota files.
    pub fn needs_check(&self) -> Option<bool> {
        self.is_on().then(|| {
            let ledger = self.ledger.lock();
            ledger.doubtful || ledger.files.iter().flatten().any(|f| f.behind)
        })
    }

    /// Blocks that the next checkpoint may write.
    pub fn blocks_due(&self) -> u64 {
        if !self.is_on() {
            return 0;
        }
        // A new id takes three tree blocks and a leaf at most, which make one block of the volume.
        let blocks = |f: &QuotaFile| {
            let new_ids = f.table.entries.len().saturating_sub(f.stored_ids);
            f.stored.len() / BLOCK_SIZE + new_ids + 1
        };
        let ledger = self.ledger.lock();
        ledger.files.iter().flatten().filter(|f| f.changed).map(|f| blocks(f) as u64).sum()
    }
}
