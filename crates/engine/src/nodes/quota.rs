//! Quota: usage by user, group and project, exact at each checkpoint.
//!
//! Usage is derived from the inode blocks: every change of `i_blocks` or of an owner goes through
//! [`super::NodeCache::modify`], which reports the difference here. Limits are kept in the files but not enforced, as
//! in Linux without a quota mount option.
use super::NodeFrame;
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use segno_format::inode::RawInode;
use segno_format::quota::{QUOTA_KINDS, QuotaTable};
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Block, Features, Ino};

/// The usage that an inode is charged, and its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeUsage {
    /// User, group, project.
    ids: [u32; QUOTA_KINDS],
    bytes: u64,
}

/// A quota file in memory.
pub struct QuotaFile {
    pub ino: Ino,
    pub table: QuotaTable,
    /// Content of the file in the last checkpoint, and the number of ids in it.
    pub stored: Vec<u8>,
    pub stored_ids: usize,
    /// The table is newer than `stored`.
    pub changed: bool,
    /// The file could not be written for lack of space.
    pub unwritten: bool,
}

#[derive(Default)]
struct QuotaFiles {
    files: [Option<QuotaFile>; QUOTA_KINDS],
    /// Usage may be wrong; a check must recount it.
    doubtful: bool,
}

/// Quota usage. Does nothing until a writable mount has loaded the files.
pub struct Quota {
    /// The quota files by kind.
    pub own: [Option<Ino>; QUOTA_KINDS],
    projects: bool,
    on: AtomicBool,
    files: Mutex<QuotaFiles, { rank::LEAF }>,
}

impl Quota {
    pub fn new(sb: &Superblock) -> Self {
        Self {
            own: sb.quota_inos().map(|ino| ino.map(Ino)),
            projects: sb.features.contains(Features::PRJQUOTA),
            on: AtomicBool::new(false),
            files: Mutex::default(),
        }
    }

    /// Starts to account usage.
    pub fn start(&self) {
        self.on.store(true, Ordering::Release);
    }

    pub fn set_doubtful(&self, doubtful: bool) {
        self.files.lock().doubtful = doubtful;
    }

    /// Takes a file out for its checkpoint; [`Quota::put`] returns it.
    pub fn take(&self, kind: usize) -> Option<QuotaFile> {
        self.files.lock().files.get_mut(kind).and_then(Option::take)
    }

    /// False if the file was not taken out.
    #[must_use]
    pub fn put(&self, kind: usize, file: QuotaFile) -> bool {
        let mut files = self.files.lock();
        let slot = files.files.get_mut(kind).filter(|slot| slot.is_none());
        slot.map(|slot| *slot = Some(file)).is_some()
    }

    fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Whether the inode is a quota file; those are not charged.
    pub fn owns(&self, ino: Ino) -> bool {
        self.own.contains(&Some(ino))
    }

    /// The usage of a node; only a filled-in inode has any.
    pub fn inode_usage(&self, frame: &NodeFrame, block: &Block) -> Option<InodeUsage> {
        if frame.is_inode() { self.inode_usage_of(frame.ino, block) } else { None }
    }

    pub fn inode_usage_of(&self, ino: Ino, block: &Block) -> Option<InodeUsage> {
        if !self.is_on() || self.owns(ino) {
            return None;
        }
        let raw: &RawInode = block.view();
        let others = raw.i_blocks.get().checked_sub(1)?;
        let project = if self.projects { raw.projid() } else { 0 };
        Some(InodeUsage {
            ids: [raw.i_uid.get(), raw.i_gid.get(), project],
            bytes: others.saturating_mul(BLOCK_SIZE as u64),
        })
    }

    /// Sets all usage to 0 for a recount.
    pub fn forget_usage(&self) {
        for file in self.files.lock().files.iter_mut().flatten() {
            file.table.entries.values_mut().for_each(|e| (e.inodes, e.bytes) = (0, 0));
            file.table.entries.retain(|_, e| !e.is_empty());
            file.changed = true;
        }
    }

    /// Updates usage after an inode changed.
    pub fn changed(&self, before: Option<InodeUsage>, after: Option<InodeUsage>) {
        if before == after {
            return;
        }
        let mut files = self.files.lock();
        let mut exact = true;
        for (kind, file) in files.files.iter_mut().enumerate() {
            let Some(file) = file else { continue };
            let of = |h: Option<InodeUsage>| h.and_then(|h| h.ids.get(kind).map(|&id| (id, h.bytes)));
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
        files.doubtful |= !exact;
    }

    /// Whether a check must recount usage; `None` without quota files.
    pub fn needs_check(&self) -> Option<bool> {
        self.is_on().then(|| {
            let files = self.files.lock();
            files.doubtful || files.files.iter().flatten().any(|f| f.unwritten)
        })
    }

    /// Number of blocks that the next checkpoint may write.
    pub fn blocks_due(&self) -> u64 {
        if !self.is_on() {
            return 0;
        }
        // A new id takes up to three tree blocks and a leaf, which share one block of the volume.
        let blocks = |f: &QuotaFile| {
            let new_ids = f.table.entries.len().saturating_sub(f.stored_ids);
            f.stored.len() / BLOCK_SIZE + new_ids + 1
        };
        let files = self.files.lock();
        files.files.iter().flatten().filter(|f| f.changed).map(|f| blocks(f) as u64).sum()
    }
}
