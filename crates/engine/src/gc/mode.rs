//! Background cleaning modes, and cleaning on request.
use super::Cleaner;
use crate::commit::CheckpointReason;
use crate::error::Result;
use crate::gc::Gc;
use crate::space::SegmentPin;
use crate::stat;
use crate::sync::atomic::Ordering;
use segno_clean::policy::{Situation, Victim};
use segno_format::{BLOCKS_PER_SEG, SecNo};

/// Maximum sections per checkpoint in urgent or requested cleaning.
const AT_A_TIME: u32 = 16;
/// A section with a larger percentage of valid blocks is cleaned only if a writer needs space, as in F2FS.
const WORTH_PERCENT: u64 = 95;

/// Idle cleaning runs while less than this percentage of the unused space is in free segments, as in F2FS.
const FREE_PERCENT: u64 = 40;

/// Background cleaning mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Nothing.
    Off,
    /// One section per step while the volume is idle and its free space scattered.
    #[default]
    Normal,
    /// All worthwhile sections, several per step, idle or not.
    Urgent,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Off, Self::Normal, Self::Urgent];

    /// Name in `segno ctl`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Normal => "normal",
            Self::Urgent => "urgent",
        }
    }
    /// Parses a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}

impl Gc {
    /// The background cleaning mode.
    pub fn mode(&self) -> Mode {
        let number = self.mode.load(Ordering::Relaxed);
        Mode::ALL.into_iter().find(|&m| m as u8 == number).unwrap_or_default()
    }
    /// Sets the mode, from the next step on.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Cleans a bounded number of worthwhile sections and commits, so that they are free on return. Returns their
    /// number; 0 means that none is left. Operations continue meanwhile.
    pub fn clean_now(&self) -> Result<u32> {
        self.base.health.check_writable()?;
        let mut cleaner = self.cleaner.lock();
        let mut tried = 0;
        // Copies use free sections until the checkpoint: if few are left, one victim at a time.
        while tried == 0 || (tried < AT_A_TIME && !self.files.room.assess()) {
            let Some((victim, pin)) = self.worth_cleaning(&mut cleaner) else { break };
            self.nodes.space.with_table(|t| t.set_aside(SecNo(victim.sec)));
            tried += 1;
            if let Err(e) = self.clean_victim(&mut cleaner, &victim, pin, false) {
                self.nodes.space.with_table(|t| t.reconsider());
                return Err(e);
            }
        }
        self.nodes.space.with_table(|t| t.reconsider());
        if tried > 0 {
            stat::add(&self.base.stats.gc_background, tried.into());
            self.commit.checkpoint(CheckpointReason::Sync)?;
            self.release_waiting(&mut cleaner);
        }
        Ok(tried)
    }

    fn worth_cleaning(&self, cleaner: &mut Cleaner) -> Option<(Victim, SegmentPin)> {
        let most = u64::from(self.base.geo.blocks_per_sec()) * WORTH_PERCENT / 100;
        let situation = Situation { facts: self.gc_facts(), ..Situation::default() };
        self.pin_victim(|t| {
            let victim = cleaner.foreground.pick(t.index(), &situation)?;
            (u64::from(t.valid_in_section(SecNo(victim.sec))) <= most).then_some(victim)
        })
    }

    /// Whether most of the space available to users is holes in used sections.
    pub fn is_scattered(&self) -> bool {
        let unused =
            self.nodes.space.counts.user_blocks.saturating_sub(self.nodes.space.counts.values().valid_blocks);
        let overprovision =
            u64::from(self.nodes.space.overprov_sections) * u64::from(self.base.geo.segs_per_sec);
        let free = self.nodes.space.with_table(|t| t.free_segments()).saturating_sub(overprovision);
        free * u64::from(BLOCKS_PER_SEG) * 100 < unused * FREE_PERCENT
    }
}
