//! Cleaning: emptying sections by moving what is valid in them, so that logs can open them again.
//!
//! Data blocks are copied at once. Nodes are only made dirty: the next checkpoint gives them new places. An emptied
//! section is free once a checkpoint has forgotten what was in it.
mod discard;
mod migrate;
mod mode;
mod need;
mod trim;

use crate::checkpoint::Reason;
use crate::error::{Error, Result};
use crate::segment::Table;
use crate::stat;
use crate::volume::Volume;
use segno_clean::Class;
use segno_clean::policy::{self, Facts, Situation, Victim, VictimPolicy};
use segno_format::SegNo;
use std::collections::BTreeSet;

pub(crate) use discard::Undiscarded;
pub use mode::Mode;
pub use trim::TrimRange;

/// A checkpoint only to free sections is due when they are this part of what lies between the floor and the goal.
const COMMIT_PART: u64 = 2;

/// How much room there is, in sections.
#[derive(Clone, Copy, Debug)]
struct Room {
    free: u64,
    /// Free after the next checkpoint.
    pending: u64,
    /// What cleaning keeps at any price.
    floor: u64,
    /// What it would like to keep: dirty blocks and the reserve.
    goal: u64,
    /// Most valid blocks of a section that there is room to copy.
    fits: u64,
}

impl Room {
    /// Nothing may be left undone.
    fn is_spent(&self) -> bool {
        self.free <= self.floor
    }
    fn between(&self) -> u64 {
        self.goal.saturating_sub(self.floor).max(1)
    }
    /// Most valid blocks of a victim, out of `full`. The reserve is spent slowly: near the goal only almost empty
    /// sections are worth their copies, at the floor all are. Meanwhile logs fill the holes of used segments.
    fn most_valid(&self, full: u64) -> u64 {
        let left = self.free.saturating_sub(self.floor).min(self.between());
        full * (self.between() - left) / self.between()
    }
    /// Whether freeing what is pending is worth a checkpoint.
    fn pays(&self) -> bool {
        self.pending > 0
            && (self.is_spent()
                || self.free + self.pending > self.goal
                || self.pending * COMMIT_PART >= self.between())
    }
}

/// What the cleaner remembers from run to run.
#[derive(Debug)]
pub(crate) struct Cleaner {
    foreground: Box<dyn VictimPolicy>,
    background: Box<dyn VictimPolicy>,
    /// Node sections that the next checkpoint empties. They count as busy, so that no log fills their holes until then
    /// and no run chooses them again.
    waiting: Vec<u32>,
    /// The checkpoint version at which they began to wait.
    since: u64,
    /// Sections that background rounds have chosen: what could not be emptied is not chosen again and again.
    chosen: BTreeSet<u32>,
}

impl Cleaner {
    /// With the policy that the mount asked for, or one that suits each of the two.
    pub fn new(policy: Option<&str>) -> Result<Self> {
        let parse = |default| {
            policy::parse(policy.unwrap_or(default)).map_err(|_| Error::Invalid("gc_policy: no such policy"))
        };
        Ok(Self {
            foreground: parse(policy::DEFAULT)?,
            background: parse("cost_benefit")?,
            waiting: Vec::new(),
            since: 0,
            chosen: BTreeSet::new(),
        })
    }
    /// Whether candidates must be ordered by age.
    pub fn needs_ages(&self) -> bool {
        self.foreground.needs_ages() || self.background.needs_ages()
    }
}

/// What one run of foreground cleaning remembers.
#[derive(Debug, Default)]
struct Run {
    /// Whether it has tried any section; each is tried once.
    tried: bool,
    /// Nothing else was left, so pinned files move too.
    pinned_too: bool,
}

impl Volume {
    /// Cleans until free sections cover what is dirty plus the reserve again, as far as that is worth its cost. The
    /// reserve is what runs live on, so only a volume that has used it up fails with `NoSpace`. Nothing may be held.
    pub(crate) fn clean_foreground(&self) -> Result<()> {
        let before = self.stats.moved();
        let mut cleaner = self.cleaner.lock();
        let mut run = Run::default();
        let done = self.run_foreground(&mut cleaner, &mut run);
        cleaner.foreground.round_ended();
        self.segs.with_table(|t| t.reconsider());
        if run.tried {
            stat::add(&self.stats.gc_foreground, 1);
        }
        match self.stats.moved() - before {
            0 => {}
            moved => self.stats.gc_stall.record(moved),
        }
        done
    }

    fn run_foreground(&self, cleaner: &mut Cleaner, run: &mut Run) -> Result<()> {
        loop {
            // What the checkpoint on its way frees may do.
            self.under_way.wait();
            self.check_running()?;
            self.release_emptied(cleaner);
            if !self.short_of_sections() {
                return Ok(());
            }
            let room = self.room(cleaner);
            // With no section to lose, the holes that a checkpoint makes count too.
            let holes = || self.segs.with_table(|t| t.reclaimable()) >= self.geo.blocks_per_sec().into();
            if room.pays() || (room.is_spent() && holes()) {
                self.checkpoint(Reason::Sync)?;
                self.release_waiting(cleaner);
                continue;
            }
            match self.next_victim(cleaner, room) {
                Some(victim) => {
                    run.tried = true;
                    self.segs.with_table(|t| t.set_aside(victim.sec, true));
                    self.clean_victim(cleaner, &victim, run.pinned_too)?;
                }
                None if room.is_spent() && !run.pinned_too => {
                    run.pinned_too = true;
                    self.segs.with_table(|t| t.reconsider());
                }
                None => break,
            }
        }
        if self.segs.free_sections() < self.demand().sections() { Err(Error::NoSpace) } else { Ok(()) }
    }

    fn room(&self, cleaner: &Cleaner) -> Room {
        let full = u64::from(self.geo.blocks_per_sec());
        let least = self.segs.with_table(|t| t.index().emptiest(Class::Data)).map_or(full, |(_, v)| v.into());
        let demand = self.demand();
        let (need, most) = (demand.need(least), demand.need(full));
        let free = self.segs.free_sections();
        Room {
            free,
            fits: if free >= most.dirty + most.kept || most.kept == need.kept { full } else { least },
            pending: self.segs.with_table(|t| t.prefree_sections()) + cleaner.waiting.len() as u64,
            floor: need.dirty + need.kept,
            goal: need.dirty + u64::from(self.segs.reserved_sections),
        }
    }

    fn next_victim(&self, cleaner: &mut Cleaner, room: Room) -> Option<Victim> {
        let most = room.most_valid(self.geo.blocks_per_sec().into());
        let situation = Situation {
            enough_with_prefree: room.free + room.pending > room.goal,
            enough_with_freed: room.free + room.pending > room.goal,
            facts: self.gc_facts(),
        };
        if room.is_spent() {
            cleaner.foreground.nearly_out();
        }
        self.segs.with_table(|t| {
            let victim = cleaner.foreground.pick(t.index(), &situation)?;
            let (victim, valid) = match u64::from(t.valid_in_section(victim.sec)) {
                valid if valid <= room.fits => (victim, valid),
                _ => {
                    let (sec, valid) = t.index().emptiest(Class::Data)?;
                    (Victim { sec, class: Class::Data }, valid.into())
                }
            };
            let worth = room.is_spent() || valid <= most;
            worth.then(|| self.keep_out(t, victim))
        })
    }

    fn gc_facts(&self) -> Facts {
        let nodes = u64::from(self.counts.values().valid_nodes).max(1);
        let spare = self.geo.main_blocks().saturating_sub(self.segs.with_table(|t| t.totals().0));
        Facts { now: self.segs.now(), nodes, spare }
    }

    fn clean_victim(&self, cleaner: &mut Cleaner, victim: &Victim, pinned_too: bool) -> Result<()> {
        // As of before the nodes are made dirty: a later checkpoint writes them.
        let since = self.gate.enter().epoch();
        let cleaned = self.clean_section(victim, pinned_too);
        if victim.class == Class::Node && cleaned.is_ok() {
            cleaner.waiting.push(victim.sec);
            cleaner.since = since;
            return Ok(());
        }
        self.let_in(victim.sec);
        match cleaned {
            // Damage keeps its section as it is, and others may do; without space for the copies, those that were made
            // may do.
            Err(Error::Corrupt(_) | Error::NoSpace) => Ok(()),
            other => other,
        }
    }

    /// Lets logs have the node sections that a checkpoint has emptied.
    fn release_emptied(&self, cleaner: &mut Cleaner) {
        let written = self.gate.enter().epoch() != cleaner.since && !self.under_way.is_on();
        if !cleaner.waiting.is_empty() && written {
            self.release_waiting(cleaner);
        }
    }

    fn release_waiting(&self, cleaner: &mut Cleaner) {
        let segs: Vec<SegNo> = cleaner.waiting.drain(..).flat_map(|sec| self.segments_of(sec)).collect();
        let freed: Vec<SegNo> = self.segs.with_table(|t| {
            segs.iter().for_each(|&seg| t.settle(&[self.geo.seg_start(seg)], &self.geo));
            let freed: Vec<SegNo> = segs.into_iter().filter(|&seg| t.is_free(seg)).collect();
            freed.iter().for_each(|&seg| t.unsettle(seg, 1));
            freed
        });
        self.discard_segments(&freed);
    }

    /// Empties one section in the background, the one that age and fill make the best; false if none is worth it.
    pub fn clean_once(&self) -> Result<bool> {
        self.check_writable()?;
        let Some(mut cleaner) = self.cleaner.try_lock() else { return Ok(false) };
        let situation = Situation { facts: self.gc_facts(), ..Situation::default() };
        let victim = self.segs.with_table(|t| {
            cleaner.chosen.iter().for_each(|&sec| t.set_aside(sec, true));
            let victim = cleaner.background.pick(t.index(), &situation);
            t.reconsider();
            victim.map(|victim| self.keep_out(t, victim))
        });
        let Some(victim) = victim else {
            cleaner.chosen.clear();
            return Ok(false);
        };
        cleaner.chosen.insert(victim.sec);
        stat::add(&self.stats.gc_background, 1);
        let cleaned = self.clean_section(&victim, false);
        self.let_in(victim.sec);
        cleaned.map(|()| true)
    }

    /// A section that is being cleaned counts as busy, so that no log fills the holes that moving makes. It does so from
    /// the moment on that it is chosen: what a checkpoint has placed there and not written would be moved as it is.
    fn keep_out(&self, t: &mut Table, victim: Victim) -> Victim {
        self.segments_of(victim.sec).for_each(|seg| t.unsettle(seg, 1));
        victim
    }

    fn let_in(&self, sec: u32) {
        let segs = self.segments_of(sec);
        self.segs.with_table(|t| segs.for_each(|seg| t.settle(&[self.geo.seg_start(seg)], &self.geo)));
    }

    fn segments_of(&self, sec: u32) -> impl Iterator<Item = SegNo> + use<> {
        let first = self.geo.sec_start(sec).0;
        (first..first.saturating_add(self.geo.segs_per_sec)).map(SegNo)
    }
}
