//! How eagerly the background cleans, and cleaning because somebody said so.
use super::Cleaner;
use crate::checkpoint::Reason;
use crate::error::Result;
use crate::stat;
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_clean::policy::{Situation, Victim};

/// Sections that one step of urgent cleaning, or of cleaning by command, empties at most before it commits.
const AT_A_TIME: u32 = 16;
/// A section with more than this part of its blocks valid is not worth its copies unless a writer needs room, as in F2FS.
const WORTH_PERCENT: u64 = 95;

/// What the background does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Nothing.
    Off,
    /// One section a step while the volume is idle and its space scattered.
    #[default]
    Normal,
    /// Whatever is worth it, several sections a step, idle or not.
    Urgent,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Off, Self::Normal, Self::Urgent];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Normal => "normal",
            Self::Urgent => "urgent",
        }
    }
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}

impl Volume {
    #[must_use]
    pub fn gc_mode(&self) -> Mode {
        let number = self.gc_mode.load(Ordering::Relaxed);
        Mode::ALL.into_iter().find(|&m| m as u8 == number).unwrap_or_default()
    }
    /// From the next step on.
    pub fn set_gc_mode(&self, mode: Mode) {
        self.gc_mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Empties up to some sections that are worth it, and commits, so that they are free on return. Returns how many; none
    /// are left if it is 0. Operations go on meanwhile.
    pub fn clean_now(&self) -> Result<u32> {
        self.check_writable()?;
        let mut cleaner = self.cleaner.lock();
        let mut tried = 0;
        // Copies take free sections until the checkpoint: with few of them, one at a time.
        while tried == 0 || (tried < AT_A_TIME && !self.short_of_sections()) {
            let Some(victim) = self.worth_cleaning(&mut cleaner) else { break };
            self.segs.with_table(|t| t.set_aside(victim.sec, true));
            tried += 1;
            if let Err(e) = self.clean_victim(&mut cleaner, &victim, false) {
                self.segs.with_table(|t| t.reconsider());
                return Err(e);
            }
        }
        self.segs.with_table(|t| t.reconsider());
        if tried > 0 {
            stat::add(&self.stats.gc_background, tried.into());
            self.checkpoint(Reason::Sync)?;
            self.release_waiting(&mut cleaner);
        }
        Ok(tried)
    }

    fn worth_cleaning(&self, cleaner: &mut Cleaner) -> Option<Victim> {
        let most = u64::from(self.geo.blocks_per_sec()) * WORTH_PERCENT / 100;
        let situation = Situation { facts: self.gc_facts(), ..Situation::default() };
        self.segs.with_table(|t| {
            let victim = cleaner.foreground.pick(t.index(), &situation)?;
            (u64::from(t.valid_in_section(victim.sec)) <= most).then_some(victim)
        })
    }
}
