//! Ending epochs and making them durable, and what a checkpoint means to the journal.
//!
//! The order of a commit: end the epoch; wait for the operations in it; take its records; append the group; flush. The
//! records have checksums of the data that they name, so that it need not be durable before them. Where they have not, or a
//! flush of the journal is none of the data, the data is flushed before the group is appended. Operations of the next epoch
//! go on meanwhile. Data that is dirty stays so: a file's size and its blocks are noted when they are published, which is
//! when the data was written.
use super::Log;
use super::recorder::Taken;
use super::state::Commits;
use crate::checkpoint::{Frozen, Reason};
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::planted::{Bug, planted};
use crate::segment::LogSnapshot;
use crate::stat;
use crate::volume::Volume;
use segno_format::checkpoint::RawCheckpoint;
use segno_format::inode::Inline;
use segno_format::{Block, BlockAddr};
use segno_journal::{Canary, CpIntent, Group, Kind, Section};

/// Blocks that a group and its neighbours may take beyond the bytes noted.
const SLACK: u64 = 64 << 10;

/// How a commit ended.
enum Ended {
    Durable,
    /// The journal cannot take it, now or any more.
    NeedsCheckpoint,
}

impl Volume {
    /// The journal, if there is one and it works.
    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.get().filter(|log| !log.is_failed())
    }

    /// Whether the journal takes checksums of a file's data. Of what may be overwritten in place there are none: they would not
    /// hold. Where directories have their blocks, nobody notes.
    pub(crate) fn wants_checksums(&self, inode: &Inode) -> bool {
        let pinned = || inode.get(|i| i.inline().contains(Inline::PIN_FILE));
        self.log().is_some_and(Log::is_shared) && !inode.is_dir() && !pinned()
    }

    /// Makes everything that was done before the call durable, except data that was not flushed if its device refuses
    /// it. Nothing may be held.
    pub(crate) fn commit(&self) -> Result<()> {
        self.check_running()?;
        let Some(log) = self.log() else { return self.checkpoint(Reason::Sync) };
        let wanted = self.gate.log_epoch();
        let Some(turn) = log.turns.wait(wanted) else { return Ok(()) };
        let ended = {
            let mut commits = log.commits.lock();
            self.check_running()?;
            // A journal that failed meanwhile may have no epoch open any more.
            if !log.is_failed() && commits.broken.is_none() && commits.newest >= wanted {
                return Ok(());
            }
            let ended = stat::timed(&self.stats.journal.total, || self.end_epoch(log, &mut commits));
            let certain = !log.is_failed() && commits.broken.is_none();
            turn.reached(if certain { commits.newest } else { 0 });
            ended?
        };
        drop(turn);
        match ended {
            Ended::Durable => Ok(()),
            Ended::NeedsCheckpoint => self.checkpoint(Reason::Sync),
        }
    }

    fn end_epoch(&self, log: &Log, commits: &mut Commits) -> Result<Ended> {
        let room = log.journal.usage().free;
        let covered = commits.covered.as_ref().map_or(0, Taken::bytes);
        let wanted = self.notes.pending().saturating_add(covered).saturating_add(SLACK);
        if commits.broken.is_some() || log.is_failed() || wanted > room {
            return Ok(Ended::NeedsCheckpoint);
        }
        let times = &self.stats.journal;
        let epoch = stat::timed(&times.drain, || self.gate.end_log_epoch());
        let (sections, checked) = stat::timed(&times.take, || self.take_epoch(log, commits, epoch));
        if !checked {
            // What the device lost is not known, so nothing may be built on it.
            stat::timed(&times.data_flush, || self.dev.flush()).inspect_err(|e| self.stop(e))?;
        }
        match self.write_epoch(log, sections) {
            Ok(written) => commits.since_boundary |= written,
            Err(e) => {
                commits.broken = Some(epoch);
                if !matches!(e, segno_journal::Error::Full { .. } | segno_journal::Error::TooLarge { .. }) {
                    self.journal_failed(log, e)?;
                }
                return Ok(Ended::NeedsCheckpoint);
            }
        }
        commits.newest = epoch;
        log.note_usage();
        Ok(Ended::Durable)
    }

    /// The records of an epoch, and whether the flush that follows them is enough. Where there are none no flush follows.
    fn take_epoch(&self, log: &Log, commits: &mut Commits, epoch: u64) -> (Vec<Section>, bool) {
        // While a checkpoint is on its way, the one before it may be what is replayed on.
        let parts = [commits.covered.take(), Some(self.notes.take(epoch))];
        let checked = log.is_shared() && parts.iter().flatten().all(Taken::is_checked);
        let unchecked = planted(Bug::UncheckedData);
        let sections: Vec<Section> =
            parts.into_iter().flatten().flat_map(|part| part.into_sections(checked && !unchecked)).collect();
        let follows = !sections.is_empty();
        (sections, (checked || unchecked) && follows)
    }

    /// Goes on without the journal, unless what failed is the volume's own device.
    fn journal_failed(&self, log: &Log, why: segno_journal::Error) -> Result<()> {
        self.give_up_journal(log, &why);
        if !log.concerns_volume(&why) {
            return Ok(());
        }
        let why = why.into();
        self.stop(&why);
        Err(why)
    }

    /// What was committed is replayed as long as nobody logs an fsync behind the checkpoint in force.
    fn give_up_journal(&self, log: &Log, why: &dyn std::fmt::Display) {
        self.since.break_chain();
        log.give_up(why);
    }

    /// Sections of ascending epochs, which count together or not at all. False if there are none.
    fn write_epoch(&self, log: &Log, sections: Vec<Section>) -> segno_journal::Result<bool> {
        let Some(epoch) = sections.first().map(|s| s.epoch) else { return Ok(false) };
        let (times, group) = (&self.stats.journal, Group { kind: Kind::Epoch, epoch, sections });
        let position = stat::timed(&times.append, || log.journal.append(&group))?;
        stat::add(&self.stats.journal_commits, 1);
        stat::add(&self.stats.journal_bytes, position.bytes);
        stat::timed(&times.flush, || log.journal.flush()).map(|()| true)
    }

    /// Keeps pending records and the ring within their limits. Called before a change takes its first lock.
    pub(crate) fn bound_journal(&self) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        let background = self.opts.background;
        if log.is_full() || (log.is_half_full() && !background) {
            return self.checkpoint_while(|| self.log().is_some_and(Log::is_half_full));
        }
        let (pending, due) = (self.notes.pending(), log.commit_bytes());
        if pending > due * 2 || (pending > due && !background) {
            return self.commit();
        }
        if pending > due || log.is_half_full() {
            self.signal.wake();
        }
        Ok(())
    }

    /// Commits what the background thread was asked to.
    pub(crate) fn relieve_journal(&self) -> Result<()> {
        let is_due = || self.is_metadata_due() || self.log().is_some_and(Log::is_half_full);
        if is_due() {
            return self.checkpoint_while(is_due);
        }
        let pending = |log: &Log| self.notes.pending() > log.commit_bytes();
        if self.log().is_some_and(pending) { self.commit() } else { Ok(()) }
    }

    /// Called with the pack written up to its last block: announces the checkpoint in the journal. Without that the
    /// journal has no effect after a crash, so it must hold nothing that the checkpoint does not.
    pub(crate) fn announce_checkpoint(
        &self,
        header: &Block,
        crc: u32,
        frozen: &Frozen,
        logs: &LogSnapshot,
    ) -> Result<()> {
        let Some(log) = self.log.get() else { return Ok(()) };
        if !log.is_failed() {
            self.announce(log, header, crc, frozen.boundary, logs)?;
        }
        if log.is_failed() && frozen.concurrent && log.commits.lock().since_boundary {
            return Err(segno_journal::Error::Failed.into());
        }
        Ok(())
    }

    fn announce(&self, log: &Log, header: &Block, crc: u32, boundary: u64, logs: &LogSnapshot) -> Result<()> {
        let version = header.view::<RawCheckpoint>().checkpoint_ver.get();
        let announced = self.canaries(logs).and_then(|canaries| {
            log.journal.intend(CpIntent { version, crc, boundary, canaries })?;
            Ok(log.journal.flush()?)
        });
        match announced {
            Ok(()) => Ok(()),
            Err(Error::Journal(e)) => self.journal_failed(log, e),
            // The place of a log cannot be read: without its checksum nothing would tell that others wrote there.
            Err(e) => {
                self.give_up_journal(log, &e);
                Ok(())
            }
        }
    }

    /// A checkpoint covers everything noted so far; the gate is closed, and no epoch is being committed. What is noted from
    /// here on is of the next epoch. Returns the last epoch that is covered.
    pub(crate) fn draw_boundary(&self, commits: &mut Commits) -> u64 {
        let Some(log) = self.log.get() else { return 0 };
        let boundary = self.boundary(log);
        // Only a journal that failed has left anything of an epoch before.
        drop(self.notes.take(boundary.saturating_sub(1)));
        commits.covered = Some(self.notes.take(boundary));
        commits.since_boundary = false;
        self.gate.set_log_epoch(if log.is_failed() { 0 } else { boundary + 1 });
        boundary
    }

    /// The epoch that a checkpoint with the gate closed covers, and all before.
    fn boundary(&self, log: &Log) -> u64 {
        match self.gate.log_epoch() {
            0 => log.journal.next_epoch() - 1,
            open => open,
        }
    }

    /// The blocks where another system would write first.
    fn canaries(&self, logs: &LogSnapshot) -> Result<Vec<Canary>> {
        let place = |(log, _): &(crate::segment::LogState, _)| -> BlockAddr {
            self.geo.seg_start(log.segno).offset(log.next)
        };
        let one = |addr| -> Result<Canary> {
            Ok(Canary { addr, crc: segno_journal::data_crc(&self.dev.read(addr)?) })
        };
        logs.iter().map(place).map(one).collect()
    }

    /// The checkpoint with this boundary is durable. Returns what need not be in the journal any more.
    pub(crate) fn checkpoint_durable(
        &self,
        commits: Option<&mut Commits>,
        boundary: u64,
    ) -> Result<Option<Taken>> {
        let (Some(log), Some(commits)) = (self.log.get(), commits) else { return Ok(None) };
        commits.newest = commits.newest.max(boundary);
        commits.broken = commits.broken.filter(|&epoch| epoch > boundary);
        let reclaimed = match log.reclaim() {
            Err(e) if !log.is_failed() => self.journal_failed(log, e),
            _ => Ok(()),
        };
        log.checkpointed();
        if log.is_failed() {
            self.gate.set_log_epoch(0);
        }
        reclaimed.map(|()| commits.covered.take())
    }
}
