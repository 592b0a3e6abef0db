//! Observing and stepping a mounted volume, for experiments, simulations and tests. The feature `lab` adds
//! this module; no crate of the product enables it.
use super::Volume;
use crate::clock::Clock;
use crate::commit::CheckpointReason;
use crate::error::Result;
use crate::options::MountOptions;
use crate::stat::Recorded;
use segno_clean::need::Figures;
use segno_device::BlockDevice;
use segno_format::{BLOCK_SIZE, Ino};
use std::sync::Arc;

/// Mounts as [`Volume::mount`] does, with a given clock.
pub fn mount(dev: Arc<dyn BlockDevice>, opts: MountOptions, clock: Arc<dyn Clock>) -> Result<Arc<Volume>> {
    Volume::mount_with_clock(dev, opts, clock)
}

/// A view of a mounted volume.
pub struct Probe<'a>(pub &'a Volume);

impl Probe<'_> {
    /// Makes all changes durable in the volume itself, independent of the journal.
    pub fn checkpoint(&self) -> Result<()> {
        self.0.base.health.check_writable()?;
        self.0.writeback.flush_all_data()?;
        self.0.commit.checkpoint(CheckpointReason::Sync)
    }

    /// A checkpoint as a background step writes it when it is due: dirty data stays.
    pub fn checkpoint_metadata(&self) -> Result<()> {
        self.0.base.health.check_writable()?;
        self.0.commit.checkpoint(CheckpointReason::Sync)
    }

    /// Writes nodes ahead of the boundary of a checkpoint, as one that is about to draw it does.
    pub fn write_nodes_ahead(&self) -> Result<()> {
        let _no_checkpoint = self.0.commit.cp.lock();
        self.0.commit.write_nodes_ahead()
    }

    /// A step of the background thread, which is disabled meanwhile.
    pub fn tick(&self) -> Result<()> {
        self.0.tick()
    }

    /// A step of the thread that flushes data where a journal commits metadata.
    pub fn write_aged(&self) -> Result<()> {
        self.0.write_aged()
    }

    /// Cleans one section in the background, the best by age and fill. Returns false if none is worth it.
    pub fn clean_once(&self) -> Result<bool> {
        self.0.gc.clean_once()
    }

    /// Writes back up to `most` dirty pages of a file, in file order from page `from` on, and returns the
    /// page after the last one; `None` if no page from there on is dirty. If the file grows, dirty pages
    /// before `from` are written too.
    pub fn write_back(&self, ino: Ino, from: u64, most: usize) -> Result<Option<u64>> {
        let inode = self.0.files.inode(ino)?;
        let last = inode.pages.lock().dirty_in(from..u64::MAX, most).last().copied();
        let end = last.map(|page| page.saturating_add(1));
        end.map_or(Ok(0), |end| self.0.writeback.flush_inode(&inode, from..end)).map(|_| end)
    }

    /// Whether a checkpoint is being written.
    #[must_use]
    pub fn is_checkpointing(&self) -> bool {
        self.0.commit.cp.try_lock().is_none()
    }

    /// Time for operations to join the journal's epoch, and to record their changes: one sample in
    /// [`stat::SAMPLED`](crate::stat::SAMPLED).
    #[must_use]
    pub fn journal_times(&self) -> (Recorded, Recorded) {
        (self.0.base.tx.epochs.joins.recorded(), self.0.base.tx.records.times.recorded())
    }

    /// Space as cleaning counts it.
    #[must_use]
    pub fn space_figures(&self) -> Figures {
        self.0.files.room.figures()
    }

    /// Dirty pages of the files of each context.
    #[must_use]
    pub fn context_loads(&self) -> Vec<u64> {
        self.0.writeback.contexts.contexts().iter().map(|c| c.dirty()).collect()
    }

    /// Lengths of the free extents in bytes, longest first: a lower bound on the extents of new files.
    #[must_use]
    pub fn free_intervals(&self) -> Vec<u64> {
        let section = u64::from(self.0.base.geo.blocks_per_sec()) * BLOCK_SIZE as u64;
        self.0.space.with_table(|t| t.free_intervals()).into_iter().map(|n| u64::from(n) * section).collect()
    }
}
