//! Finds the journal of a volume at mount, and closes it at unmount.
use super::MountedJournal;
use crate::commit::Commit;
use crate::error::{Error, Result};
use crate::health::invariant;
use crate::notice::Notice;
use crate::options::JournalMode;
use segno_format::checkpoint::RawCheckpoint;
use segno_journal::{Area, Checkpoint, Journal, Missing, Opened, Replay, Stale, Vacant};

/// Result of the search at mount.
pub enum Found {
    /// No journal, and none is to be created.
    None,
    Usable(Box<Replay>),
    /// A new journal is to be created there.
    Make(Vacant),
}

impl Commit {
    /// Looks for the journal; writes nothing. `foreign`: an fsync was logged after the checkpoint. With a
    /// journal Segno never logs one, so another implementation has written to the volume.
    pub fn find_journal(&self, foreign: bool) -> Result<Found> {
        let (area, make) = match (&self.base.opts.journal, self.journal_gap()) {
            (JournalMode::External(area), gap) => {
                self.check_gap(gap)?;
                (area.clone(), true)
            }
            (JournalMode::On, None) => {
                return Err(Error::Invalid(
                    "journal=on, and there is no gap behind the volume for it: name a file (journal=FILE)",
                ));
            }
            (_, None) => {
                return self.check_present(foreign, Some(Missing::NoSpace)).map(|()| Found::None);
            }
            (mode, Some(area)) => (area, matches!(mode, JournalMode::On)),
        };
        let opened = Journal::open(area.clone(), &self.journal_anchor(), &*self.base.dev.raw);
        let missing = Missing::of(&opened);
        // Every check that may refuse comes before a notice: a refused mount has no effect.
        match opened {
            Ok(Opened::Usable(replay)) if foreign => {
                let found = self.space(area, make)?;
                // A journal without records was made by a recovery that was cut off.
                if !replay.accepted().is_empty() {
                    self.base.opts.observer.notify(&Notice::JournalForeign);
                }
                Ok(found)
            }
            Ok(Opened::Usable(replay)) => {
                let unused =
                    matches!(self.base.opts.journal, JournalMode::Off) && replay.accepted().is_empty();
                Ok(if unused { Found::None } else { Found::Usable(replay) })
            }
            Ok(Opened::Stale(why)) if why.is_damage() => Err(Error::JournalAhead(why)),
            Ok(Opened::Stale(why)) => {
                if why == Stale::OtherVolume && matches!(self.base.opts.journal, JournalMode::External(_)) {
                    area.clone().vacant(&self.base.sb.raw.uuid)?;
                }
                if !matches!(why, Stale::ForeignWrite { .. }) {
                    self.check_present(foreign, missing)?;
                }
                let found = self.space(area, make)?;
                if why != Stale::Unused {
                    self.base.opts.observer.notify(&Notice::JournalStale(why));
                }
                Ok(found)
            }
            Err(segno_journal::Error::Absent { .. }) => {
                self.check_present(foreign, missing)?;
                if make { self.space(area, make) } else { Ok(Found::None) }
            }
            Err(segno_journal::Error::TooSmall { .. }) if !make => {
                self.check_present(foreign, missing).map(|()| Found::None)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Refuses an external journal while the journal after the volume has changes that the volume lacks: they
    /// would be lost.
    fn check_gap(&self, gap: Option<Area>) -> Result<()> {
        let Some(gap) = gap else { return Ok(()) };
        let changes = Journal::changes(gap, &self.journal_anchor(), &*self.base.dev.raw)?;
        if changes > 0 { Err(Error::ChangesBehind) } else { Ok(()) }
    }

    /// The space for a new journal, if one is to be made. With `auto` there is no journal if the space is
    /// occupied.
    fn space(&self, area: Area, make: bool) -> Result<Found> {
        let auto = matches!(self.base.opts.journal, JournalMode::Auto);
        if self.base.opts.read_only || !(make || auto) {
            return Ok(Found::None);
        }
        match area.vacant(&self.base.sb.raw.uuid) {
            Ok(space) => Ok(Found::Make(space)),
            Err(e) if auto && e.is_occupied() => Ok(Found::None),
            Err(e) => Err(e.into()),
        }
    }

    /// Refuses a volume with changes in an external journal other than the given one. Refuses to write if the
    /// volume has a guard and its journal is missing.
    fn check_present(&self, foreign: bool, missing: Option<Missing>) -> Result<()> {
        self.check_external(foreign)?;
        match missing.filter(|_| self.base.sb.guarded) {
            Some(_) if self.base.opts.read_only => {
                self.base.opts.observer.notify(&Notice::JournalElsewhere);
                Ok(())
            }
            Some(missing) => Err(Error::JournalMissing(missing)),
            None => Ok(()),
        }
    }

    /// Refuses a volume whose last mount had an external journal, which was not found, unless another implementation has
    /// written to the volume since.
    fn check_external(&self, foreign: bool) -> Result<()> {
        let needed = !foreign && RawCheckpoint::has_external_journal(&self.cp.lock().header);
        if needed && !self.base.opts.give_up_journal { Err(Error::JournalNotNamed) } else { Ok(()) }
    }

    /// The gap between the end of the volume and the end of the device.
    fn journal_gap(&self) -> Option<Area> {
        Area::tail(self.base.dev.raw.clone(), self.base.geo.block_count)
    }

    /// The current checkpoint in the journal's terms.
    fn journal_anchor(&self) -> Checkpoint {
        let state = self.cp.lock();
        let raw: &RawCheckpoint = state.header.view();
        Checkpoint {
            volume: self.base.sb.raw.uuid,
            version: raw.checkpoint_ver.get(),
            crc: state.crc,
            is_first: state.is_first,
        }
    }

    /// Starts using a journal; the checkpoint that ends recovery opens its first epoch.
    pub fn start_journal(&self, found: Found) -> Result<()> {
        let journal = match found {
            Found::None => return Ok(()),
            Found::Usable(replay) => replay.into_journal()?,
            Found::Make(space) => Journal::create(space, &self.journal_anchor(), self.unique())?,
        };
        self.base.dev.stamp_zones(journal.stamp());
        let shared = !matches!(self.base.opts.journal, JournalMode::External(_));
        let is_first =
            self.journal.set(MountedJournal::new(journal, shared, self.base.opts.observer.clone())).is_ok();
        invariant!(self.base.health, is_first, "a second journal was started");
        self.base.tx.records.set_checksums(shared);
        Ok(())
    }

    /// Whether the volume is to be marked: its journal is in use. One that is replayed and then closed is not.
    pub fn guards(&self) -> bool {
        let wanted = self.base.opts.guard && !matches!(self.base.opts.journal, JournalMode::Off);
        wanted && self.journal().is_some()
    }

    /// Sets the guard, before the checkpoint that ends recovery: that checkpoint hides work from other
    /// implementations, and records follow it.
    pub fn guard_journal(&self) -> Result<()> {
        if self.guards() { self.base.health.guard(true) } else { Ok(()) }
    }

    /// Removes the guard of an earlier mount, after the checkpoint that ends recovery. If its journal failed
    /// meanwhile, that checkpoint may hide work from other implementations, and the guard stays until the
    /// next one.
    pub fn end_old_guard(&self) -> Result<()> {
        let hides_work = self.cp.lock().guarded;
        if hides_work { Ok(()) } else { self.base.health.guard(false) }
    }

    /// After recovery: a journal that was found but not requested is emptied and left alone.
    pub fn leave_unwanted_journal(&self) -> Result<()> {
        let (JournalMode::Off, Some(journal)) = (&self.base.opts.journal, self.journal()) else {
            return Ok(());
        };
        journal.ring.close()?;
        journal.retire();
        self.base.tx.records.set_checksums(false);
        self.base.tx.epochs.set(0);
        self.base.opts.observer.notify(&Notice::JournalClosed);
        Ok(())
    }

    /// A unique identifier for a new journal.
    fn unique(&self) -> [u8; 16] {
        let now = self.base.now();
        let mut out = [0; 16];
        let words = [self.base.next_serial(), now.secs.cast_unsigned() << 30 ^ u64::from(now.nsec)];
        out.iter_mut().zip(words.into_iter().flat_map(u64::to_le_bytes)).for_each(|(o, b)| *o = b);
        out
    }

    /// Closes the journal after the volume's last checkpoint, which covers everything.
    pub fn close_journal(&self) -> Result<()> {
        match self.journal() {
            Some(journal) => Ok(journal.ring.close()?),
            None => Ok(()),
        }
    }
}
