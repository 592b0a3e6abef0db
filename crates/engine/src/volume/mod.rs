//! The mounted volume, which owns all subsystems.
mod background;
mod give_up;
mod in_memory;
#[cfg(feature = "lab")]
pub mod lab;
mod mount;
mod ops;
mod shutdown;
#[cfg(test)]
mod tests;

use crate::admission::Admission;
use crate::base::Base;
use crate::commit::{CheckpointReason, Commit, MountedJournal};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::gc::Gc;
use crate::names::Names;
use crate::nodes::Nodes;
use crate::options::Discard;
use crate::space::Space;
use crate::stat::Stats;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::types::StatFs;
use crate::writeback::Writeback;
pub use background::Background;
pub use give_up::give_up_journal;
use segno_clean::guard::{Extent, Guarded};
use segno_format::Ino;
use segno_format::superblock::Superblock;
pub use shutdown::Shutdown;
use std::sync::Arc;

/// A mounted volume. All methods may be called from any thread.
pub struct Volume {
    pub(crate) base: Arc<Base>,
    pub(crate) space: Arc<Space>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) files: Arc<Files>,
    pub(crate) writeback: Arc<Writeback>,
    pub(crate) names: Arc<Names>,
    pub(crate) commit: Arc<Commit>,
    pub(crate) gc: Arc<Gc>,
    admission: Admission,
    /// Mounting has recovered the volume after a crash.
    recovered: AtomicBool,
}

impl Volume {
    /// The root directory.
    #[must_use]
    pub fn root(&self) -> Ino {
        Ino::ROOT
    }

    /// Whether mounting it for writing has recovered it after a crash.
    #[must_use]
    pub fn has_recovered(&self) -> bool {
        self.recovered.load(Ordering::Relaxed)
    }

    /// The superblock as mounted.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.base.sb
    }

    /// Counters since mount.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.base.stats
    }

    /// Counters of the device below, by name, for reports.
    #[must_use]
    pub fn device_counters(&self) -> Vec<(String, u64)> {
        self.base.dev.raw.counters()
    }

    /// Counters and state by name, for reports.
    #[must_use]
    pub fn report(&self) -> Vec<(&'static str, u64)> {
        let used = self.space.counts.values();
        let (free_segments, prefree, parked) =
            self.space.with_table(|t| (t.free_segments(), t.prefree() as u64, t.parked_blocks()));
        let (shared, exclusive) = self.space.stream_counts();
        let mut out = self.base.stats.snapshot();
        let (flushes_asked, flushes) = self.base.dev.durable.counts();
        out.extend([
            ("flushes_asked", flushes_asked),
            ("flushes", flushes),
            ("user_block_count", self.space.counts.user_blocks),
            ("valid_block_count", used.valid_blocks),
            ("valid_node_count", used.valid_nodes.into()),
            ("valid_inode_count", used.valid_inodes.into()),
            ("free_sections", self.space.free_sections()),
            ("free_segments", free_segments),
            ("prefree_segments", prefree),
            ("orphans", self.nodes.since.orphan_count() as u64),
            ("cache_bytes", self.base.mem.bytes() + self.base.mem.references.get()),
            ("cache_bytes_references", self.base.mem.references.get()),
            ("cached_inodes", self.base.mem.inodes.get()),
            ("cached_nodes", self.base.mem.nodes.get()),
            ("dirty_nodes", self.base.mem.dirty_nodes.get()),
            ("cached_pages", self.base.mem.pages.get()),
            ("dirty_data_pages", self.base.mem.dirty_data.get()),
            ("dirty_dentry_pages", self.base.mem.dirty_dents.get()),
            ("quota_needs_check", self.nodes.quota.needs_check().unwrap_or(false).into()),
            ("journal_bytes_used", self.commit.journal().map_or(0, |l| l.used())),
            ("journal_bytes_size", self.commit.journal().map_or(0, |l| l.size())),
            ("journal_guard", (self.commit.journal().is_some() && self.base.opts.guard).into()),
            ("journal_failed", self.commit.journal.get().is_some_and(MountedJournal::is_failed).into()),
            ("fsync_mode", self.base.opts.fsync_mode as u64),
            ("discard_never", (self.base.opts.discard == Discard::Never).into()),
            ("stopped", self.base.health.is_stopped().into()),
            ("parked_blocks", parked),
            ("undiscarded_segments", self.commit.undiscarded.count()),
            ("streams_shared", shared),
            ("streams_exclusive", exclusive),
        ]);
        out.extend(self.space.alloc.opened_sections());
        out.extend(self.space.alloc.snapshot());
        out.extend(self.writeback.report());
        out
    }

    /// Whether the inode's attributes are available without reading the device.
    #[must_use]
    pub fn is_cached(&self, ino: Ino) -> bool {
        self.nodes.cache.cached(ino.nid()).is_some()
    }

    /// Makes all changes durable: flushes data, then commits the journal or writes a checkpoint. If the
    /// device uploads writes after it has acknowledged them, waits for the uploads.
    pub fn sync(&self) -> Result<()> {
        if self.base.opts.read_only {
            return Ok(());
        }
        self.base.health.check_running()?;
        self.writeback.flush_all_data()?;
        self.commit.sync_metadata()?;
        self.base.dev.drain()
    }

    /// Flushes everything and writes a clean checkpoint. Later operations fail.
    pub fn unmount(&self) -> Result<()> {
        if self.base.opts.read_only || self.base.health.is_stopped() {
            return Ok(());
        }
        self.names.free_orphans()?;
        self.writeback.flush_all_data()?;
        self.space.close_streams();
        self.commit.checkpoint(CheckpointReason::Umount)?;
        self.commit.close_journal()?;
        self.base.health.guard(false)?;
        self.commit.discard_while(|| true);
        if self.commit.discard_rest() {
            self.commit.checkpoint(CheckpointReason::UmountTrimmed)?;
        }
        if self.base.dev.is_zoned() {
            // Leaves zones as Linux's fsck expects them. Errors are ignored: the next mount tries again.
            let _tried = self.space.close_idle_zones();
        }
        self.base.health.end();
        Ok(())
    }

    /// The number of nodes up to which cleaning is guaranteed to find space.
    #[must_use]
    pub fn guarded(&self) -> Guarded {
        let geo = &self.base.geo;
        Extent {
            sections: geo.section_count.into(),
            blocks_per_section: geo.blocks_per_sec().into(),
            user_blocks: self.space.counts.user_blocks,
        }
        .guarded()
    }

    /// Nodes in use.
    #[must_use]
    pub fn node_count(&self) -> u64 {
        self.space.counts.values().valid_nodes.into()
    }

    /// Space and inode counts for df(1).
    #[must_use]
    pub fn statfs(&self) -> StatFs {
        let used = self.space.counts.values();
        let bfree = self.space.counts.user_blocks.saturating_sub(used.valid_blocks);
        let nodes = u64::from(self.space.counts.nodes_left());
        let total_nodes = u64::from(self.space.counts.node_limit().max(used.valid_nodes));
        let [a, b, c, d, e, f, g, h, ..] = self.base.sb.raw.uuid;
        StatFs {
            blocks: self.base.geo.block_count.saturating_sub(self.base.geo.segment0_blkaddr.into()),
            bfree,
            bavail: bfree.min(self.storable(used.valid_blocks)),
            files: total_nodes.min(self.space.counts.user_blocks),
            ffree: nodes.min(bfree),
            fsid: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        }
    }

    /// Blocks that the device can store in addition to the blocks in use: an image file may be sparse, and
    /// its host full.
    fn storable(&self, used: u64) -> u64 {
        match self.base.dev.host_storage() {
            Some(host) => host.allocated.saturating_sub(used).saturating_add(host.available),
            None => u64::MAX,
        }
    }

    /// Whether the volume stopped after a failed write, or was unmounted.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.base.health.is_stopped()
    }

    /// Stops the volume: nothing is written any more except the reason.
    pub fn stop(&self, why: &Error) {
        self.base.health.stop(why);
    }

    /// The volume label.
    #[must_use]
    pub fn label(&self) -> String {
        self.base.health.label()
    }

    /// Changes the label, durably and atomically across a power cut.
    pub fn set_label(&self, label: &str) -> Result<()> {
        self.base.health.set_label(label)
    }
}
