//! Ends epochs, makes them durable, and keeps journal and checkpoints consistent.
//!
//! A commit ends the epoch, waits for the operations in it, takes its records, appends the group and flushes the
//! device. Records carry checksums of the data that they name, so data and group can share a flush. Without
//! checksums, or with the journal on another device, data is flushed before the group is appended. Operations of the
//! next epoch continue meanwhile. A commit writes no dirty data: size and blocks of a file are recorded when its data
//! has been written and is published.
use super::MountedJournal;
use super::mounted::Commits;
use crate::commit::Commit;
use crate::commit::checkpoint::{CheckpointReason, Frozen};
use crate::error::{Error, Result};
use crate::health::invariant;
use crate::space::Log;
use crate::stat;
use crate::transaction::Taken;
use segno_format::checkpoint::RawCheckpoint;
use segno_format::{Block, BlockAddr};
use segno_journal::{Canary, CpIntent, Group, Kind, Section};

/// Bytes for the group's headers and its neighbours, beyond the bytes of the records.
const SLACK: u64 = 64 << 10;

/// Result of a commit.
enum Ended {
    Durable,
    /// The journal cannot take the epoch; only a checkpoint makes it durable.
    NeedsCheckpoint,
}

impl Commit {
    /// The journal, if there is one and it works.
    pub fn journal(&self) -> Option<&MountedJournal> {
        self.journal.get().filter(|journal| !journal.is_failed())
    }

    /// Makes all changes before the call durable, except data of regular files that was not flushed. The caller holds no
    /// lock.
    pub fn sync_metadata(&self) -> Result<()> {
        self.base.health.check_running()?;
        let Some(journal) = self.journal() else { return self.checkpoint(CheckpointReason::Sync) };
        let wanted = self.base.tx.epochs.open();
        let Some(permit) = journal.queue.wait(wanted) else { return Ok(()) };
        let ended = {
            let mut commits = journal.commits.lock();
            self.base.health.check_running()?;
            // A journal that failed in the meantime may have no open epoch.
            if !journal.is_failed() && commits.broken.is_none() && commits.newest >= wanted {
                return Ok(());
            }
            let ended = stat::timed(&self.base.stats.journal.total, || self.end_epoch(journal, &mut commits));
            let certain = !journal.is_failed() && commits.broken.is_none();
            permit.reached(if certain { commits.newest } else { 0 });
            ended?
        };
        drop(permit);
        match ended {
            Ended::Durable => Ok(()),
            Ended::NeedsCheckpoint => self.checkpoint(CheckpointReason::Sync),
        }
    }

    fn end_epoch(&self, journal: &MountedJournal, commits: &mut Commits) -> Result<Ended> {
        let room = journal.ring.usage().free;
        let covered = commits.covered.as_ref().map_or(0, |taken| taken.bytes);
        let wanted = self.base.tx.records.pending().saturating_add(covered).saturating_add(SLACK);
        if commits.broken.is_some() || journal.is_failed() || wanted > room {
            return Ok(Ended::NeedsCheckpoint);
        }
        let times = &self.base.stats.journal;
        let epoch = stat::timed(&times.drain, || self.base.tx.epochs.end());
        let (sections, checked) = stat::timed(&times.take, || self.take_epoch(journal, commits, epoch));
        if !checked {
            // The extent of the loss is unknown, so the volume stops.
            stat::timed(&times.data_flush, || self.base.dev.flush())
                .inspect_err(|e| self.base.health.stop(e))?;
        }
        match self.write_epoch(journal, sections) {
            Ok(written) => commits.since_boundary |= written,
            Err(e) => {
                commits.broken = Some(epoch);
                if !matches!(e, segno_journal::Error::Full { .. } | segno_journal::Error::TooLarge { .. }) {
                    self.journal_failed(journal, e)?;
                }
                return Ok(Ended::NeedsCheckpoint);
            }
        }
        invariant!(self.base.health, epoch > commits.newest, "an epoch of the journal is committed twice");
        commits.newest = epoch;
        journal.note_usage();
        Ok(Ended::Durable)
    }

    /// The records of an epoch, and whether the flush that follows them is enough. Without records no flush follows.
    fn take_epoch(
        &self,
        journal: &MountedJournal,
        commits: &mut Commits,
        epoch: u64,
    ) -> (Vec<Section>, bool) {
        // While a checkpoint is in progress, replay may still start from the previous one.
        let parts = [commits.covered.take(), Some(self.base.tx.records.take(epoch))];
        let checked = journal.shared && parts.iter().flatten().all(Taken::is_checked);
        let sections: Vec<Section> =
            parts.into_iter().flatten().flat_map(|part| part.into_sections(checked)).collect();
        let follows = !sections.is_empty();
        (sections, checked && follows)
    }

    /// Disables the journal, or returns the error if the volume's own device failed.
    fn journal_failed(&self, journal: &MountedJournal, why: segno_journal::Error) -> Result<()> {
        self.disable_journal(journal, &why);
        if !journal.concerns_volume(&why) {
            return Ok(());
        }
        let why = why.into();
        self.base.health.stop(&why);
        Err(why)
    }

    /// The committed epochs remain replayable until an fsync is logged after the current checkpoint.
    fn disable_journal(&self, journal: &MountedJournal, why: &dyn std::fmt::Display) {
        self.nodes.since.break_chain();
        self.base.tx.records.set_checksums(false);
        journal.disable(why);
    }

    /// Appends sections of ascending epochs as one group, all or nothing. Returns false if `sections` is
    /// empty.
    fn write_epoch(&self, journal: &MountedJournal, sections: Vec<Section>) -> segno_journal::Result<bool> {
        let Some(epoch) = sections.first().map(|s| s.epoch) else { return Ok(false) };
        let (times, group) = (&self.base.stats.journal, Group { kind: Kind::Epoch, epoch, sections });
        let position = stat::timed(&times.append, || journal.ring.append(&group))?;
        stat::add(&self.base.stats.journal_commits, 1);
        stat::add(&self.base.stats.journal_bytes, position.bytes);
        stat::timed(&times.flush, || journal.ring.flush()).map(|()| true)
    }

    /// Keeps pending records and the ring within their limits. Called before a change takes its first lock.
    pub fn bound_journal(&self) -> Result<()> {
        let Some(journal) = self.journal() else { return Ok(()) };
        let background = self.base.opts.background;
        if journal.is_full() || (journal.is_half_full() && !background) {
            return self.checkpoint_while(|| self.journal().is_some_and(MountedJournal::is_half_full));
        }
        let (pending, due) = (self.base.tx.records.pending(), journal.commit_bytes());
        if pending > due * 2 || (pending > due && !background) {
            return self.sync_metadata();
        }
        if pending > due || journal.is_half_full() {
            self.signal.wake();
        }
        Ok(())
    }

    /// Performs a commit that was requested from the background thread.
    pub fn relieve_journal(&self) -> Result<()> {
        let is_due = || self.is_metadata_due() || self.journal().is_some_and(MountedJournal::is_half_full);
        if is_due() {
            return self.checkpoint_while(is_due);
        }
        let pending = |journal: &MountedJournal| self.base.tx.records.pending() > journal.commit_bytes();
        if self.journal().is_some_and(pending) { self.sync_metadata() } else { Ok(()) }
    }

    /// Announces the checkpoint in the journal, once the pack is written except for its last block. Without the
    /// announcement the journal is stale after a crash, so it may then hold nothing that the checkpoint lacks.
    pub fn announce_checkpoint(
        &self,
        header: &Block,
        crc: u32,
        frozen: &Frozen,
        logs: &[Log; 6],
    ) -> Result<()> {
        let Some(journal) = self.journal.get() else { return Ok(()) };
        if !journal.is_failed() {
            self.announce(journal, header, crc, frozen.boundary, logs)?;
        }
        // Commits after the boundary were acknowledged, and only the journal has them: a checkpoint that makes it stale loses them.
        if journal.is_failed() && frozen.concurrent && journal.commits.lock().since_boundary {
            return Err(segno_journal::Error::Failed.into());
        }
        Ok(())
    }

    fn announce(
        &self,
        journal: &MountedJournal,
        header: &Block,
        crc: u32,
        boundary: u64,
        logs: &[Log; 6],
    ) -> Result<()> {
        let version = header.view::<RawCheckpoint>().checkpoint_ver.get();
        let announced = self.canaries(logs).and_then(|canaries| {
            // Flushed separately: the pack must not become valid before its announcement is durable.
            journal.ring.intend(CpIntent { version, crc, boundary, canaries })?;
            Ok(journal.ring.flush()?)
        });
        match announced {
            Ok(()) => Ok(()),
            Err(Error::Journal(e)) => self.journal_failed(journal, e),
            // The block at a log's position cannot be read; without its checksum, writes by another implementation
            // would go undetected.
            Err(e) => {
                self.disable_journal(journal, &e);
                Ok(())
            }
        }
    }

    /// Ends the epoch at a boundary: the checkpoint covers all records so far. The gate is closed and no commit is in
    /// progress. Returns the last covered epoch.
    pub fn draw_boundary(&self, commits: &mut Commits) -> u64 {
        let Some(journal) = self.journal.get() else { return 0 };
        let boundary = self.boundary(journal);
        // Only a failed journal leaves records of an older epoch.
        drop(self.base.tx.records.take(boundary.saturating_sub(1)));
        commits.covered = Some(self.base.tx.records.take(boundary));
        commits.since_boundary = false;
        self.base.tx.epochs.set(if journal.is_failed() { 0 } else { boundary + 1 });
        boundary
    }

    /// The last epoch that a checkpoint with the gate closed covers.
    fn boundary(&self, journal: &MountedJournal) -> u64 {
        match self.base.tx.epochs.open() {
            0 => journal.ring.next_epoch() - 1,
            open => open,
        }
    }

    /// Canaries: the blocks that another implementation would write first, or the stamp where blocks are written in order.
    fn canaries(&self, logs: &[Log; 6]) -> Result<Vec<Canary>> {
        let one = |addr: BlockAddr| -> Result<Canary> {
            let crc = match self.base.dev.stamp().filter(|_| self.base.dev.is_in_order(addr)) {
                Some(stamp) => segno_journal::data_crc(stamp),
                None => segno_journal::data_crc(&self.base.dev.read(addr)?),
            };
            Ok(Canary { addr, crc })
        };
        logs.iter().map(|log| one(log.position(&self.base.geo))).collect()
    }

    /// Called when the checkpoint with this boundary is durable. Returns the records that the journal no longer
    /// needs.
    pub fn checkpoint_durable(
        &self,
        commits: Option<&mut Commits>,
        boundary: u64,
        guarded: bool,
    ) -> Result<Option<Taken>> {
        let (Some(journal), Some(commits)) = (self.journal.get(), commits) else { return Ok(None) };
        // Only now: groups that a reclaim overwrites are needed until the checkpoint that covers them is durable.
        commits.newest = commits.newest.max(boundary);
        commits.broken = commits.broken.filter(|&epoch| epoch > boundary);
        let reclaimed = match journal.reclaim() {
            Err(e) if !journal.is_failed() => self.journal_failed(journal, e),
            _ => Ok(()),
        };
        journal.checkpointed();
        if journal.is_failed() {
            self.base.tx.epochs.set(0);
            // The checkpoint has all changes that the journal had, and hides no work from other
            // implementations.
            if !guarded {
                self.base.health.guard(false)?;
            }
        }
        reclaimed.map(|()| commits.covered.take())
    }
}
