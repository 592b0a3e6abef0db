//! Finding the journal of a volume at mount, and leaving it at unmount.
use super::Log;
use crate::error::{Error, Result};
use crate::notice::Notice;
use crate::options::JournalMode;
use crate::volume::Volume;
use segno_format::checkpoint::RawCheckpoint;
use segno_journal::{Area, Checkpoint, Journal, Opened, Replay, Stale};

const ELSEWHERE: &str = "the volume is marked read-only because a crash left more in its journal than it has itself, and that is not \
                         here: name it (-o journal=FILE), or give it up with segno journal discard";

/// What a mount finds.
pub(crate) enum Found {
    /// No journal, and none is to be made.
    None,
    Usable(Box<Replay>),
    /// A new one is to be made there.
    Make(Area),
}

impl Volume {
    /// Looks for the journal. Nothing is written. `foreign` says that an fsync was logged behind the checkpoint, which
    /// a volume with a journal never does: another system has used it.
    pub(crate) fn find_journal(&self, foreign: bool) -> Result<Found> {
        let (area, make) = match (&self.opts.journal, self.journal_gap()) {
            (JournalMode::Beside(area), _) => (area.clone(), true),
            (JournalMode::On, None) => {
                return Err(Error::Invalid(
                    "journal=on, and there is no gap behind the volume: make one with mkfs --journal SIZE, or name a file",
                ));
            }
            (_, None) => return self.check_unguarded().map(|()| Found::None),
            (mode, Some(area)) => (area, matches!(mode, JournalMode::On)),
        };
        let found = match Journal::open(area.clone(), &self.journal_anchor(), self.dev.raw()) {
            Ok(Opened::Usable(_)) if foreign => {
                self.opts.observer.tell(&Notice::JournalForeign);
                make || matches!(self.opts.journal, JournalMode::Auto)
            }
            Ok(Opened::Usable(replay)) => {
                let unused = matches!(self.opts.journal, JournalMode::Off) && replay.accepted().is_empty();
                return Ok(if unused { Found::None } else { Found::Usable(replay) });
            }
            Ok(Opened::Stale(why)) => {
                if !why.was_in_use() {
                    self.check_unguarded()?;
                }
                if why != Stale::Unused {
                    self.opts.observer.tell(&Notice::JournalStale(why));
                }
                make || matches!(self.opts.journal, JournalMode::Auto)
            }
            Err(segno_journal::Error::Absent { .. }) => self.check_unguarded().map(|()| make)?,
            Err(segno_journal::Error::TooSmall { .. }) if !make => self.check_unguarded().map(|()| false)?,
            Err(e) => return Err(e.into()),
        };
        Ok(if found { Found::Make(area) } else { Found::None })
    }

    /// Without the journal that a guard speaks of, nothing is written.
    fn check_unguarded(&self) -> Result<()> {
        let refused = self.sb.guarded && !self.opts.read_only;
        if refused { Err(Error::Invalid(ELSEWHERE)) } else { Ok(()) }
    }

    /// The gap between the volume's end and the device's.
    fn journal_gap(&self) -> Option<Area> {
        Area::tail(self.dev.shared(), self.geo.block_count)
    }

    /// The checkpoint in force, as the journal names it.
    fn journal_anchor(&self) -> Checkpoint {
        let state = self.cp.lock();
        let raw: &RawCheckpoint = state.header.view();
        Checkpoint { volume: self.sb.raw.uuid, version: raw.checkpoint_ver.get(), crc: state.crc }
    }

    /// Goes on with a journal; the checkpoint that ends recovery opens its first epoch.
    pub(crate) fn start_journal(&self, found: Found) -> Result<()> {
        let journal = match found {
            Found::None => return Ok(()),
            Found::Usable(replay) => replay.into_journal()?,
            Found::Make(area) => Journal::create(area, &self.journal_anchor(), self.unique())?,
        };
        let shared = !matches!(self.opts.journal, JournalMode::Beside(_));
        let _first = self.log.set(Log::new(journal, shared, self.opts.observer.clone()));
        Ok(())
    }

    /// After recovery the volume has everything, until the journal has more.
    pub(crate) fn guard_journal(&self) -> Result<()> {
        self.guard(self.opts.guard && self.log().is_some())
    }

    /// After recovery: a journal that was found and not asked for is empty now, and left alone.
    pub(crate) fn leave_unwanted_journal(&self) -> Result<()> {
        let (JournalMode::Off, Some(log)) = (&self.opts.journal, self.log()) else { return Ok(()) };
        log.journal.close()?;
        log.retire();
        self.gate.set_log_epoch(0);
        Ok(())
    }

    /// A number that no other journal has.
    fn unique(&self) -> [u8; 16] {
        let now = self.now();
        let mut out = [0; 16];
        let words = [self.next_serial(), now.secs.cast_unsigned() << 30 ^ u64::from(now.nsec)];
        out.iter_mut().zip(words.into_iter().flat_map(u64::to_le_bytes)).for_each(|(o, b)| *o = b);
        out
    }

    /// The volume has its last checkpoint, which covers everything.
    pub(crate) fn close_journal(&self) -> Result<()> {
        match self.log() {
            Some(log) => Ok(log.journal.close()?),
            None => Ok(()),
        }
    }
}
