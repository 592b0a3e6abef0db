//! Cleaning: moves the valid blocks out of sections, so that logs can open them again.
//!
//! Data blocks are copied at once. Nodes are only dirtied: the next checkpoint writes them elsewhere. An emptied
//! section is free once a checkpoint no longer refers to its blocks.
mod migrate;
mod mode;
mod paced;
mod trim;

use crate::base::Base;
use crate::commit::{CheckpointReason, Commit, Signal};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::health::invariant;
use crate::lock::{Mutex, rank};
use crate::nodes::Nodes;
use crate::room::Sections;
use crate::space::{SegmentPin, Table};
use crate::stat;
use crate::sync::atomic::{AtomicU8, AtomicU64};
use segno_clean::Class;
use segno_clean::need::Request;
use segno_clean::policy::{self, Facts, Situation, Victim, VictimPolicy};
use segno_format::SecNo;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

pub use mode::Mode;
pub use trim::TrimRange;

/// A section with a larger percentage of valid blocks is not worth cleaning in the background.
const BACKGROUND_PERCENT: u64 = 80;
/// Number of the policy's choices that background cleaning examines to find one with few enough valid blocks.
const BACKGROUND_TRIES: usize = 16;

/// State of the cleaner across runs.
pub struct Cleaner {
    foreground: Box<dyn VictimPolicy>,
    background: Box<dyn VictimPolicy>,
    /// Pinned node sections that the next checkpoint empties. The pin keeps logs from filling their holes and runs
    /// from choosing them again.
    waiting: Vec<SegmentPin>,
    /// Epoch in which the last of them was emptied.
    since: u64,
    /// Sections that background rounds have chosen, so that a section that cannot be emptied is not chosen
    /// repeatedly.
    chosen: BTreeSet<SecNo>,
    paced: paced::Paced,
}

impl Cleaner {
    /// Uses the given policy, or a suitable default for foreground and background.
    pub fn new(policy: Option<&str>) -> Result<Self> {
        let parse = |default| {
            policy::parse(policy.unwrap_or(default)).map_err(|_| Error::Invalid("gc_policy: no such policy"))
        };
        Ok(Self {
            foreground: parse(policy::DEFAULT)?,
            background: parse("benefit")?,
            waiting: Vec::new(),
            since: 0,
            chosen: BTreeSet::new(),
            paced: paced::Paced::default(),
        })
    }
    /// Whether candidates must be ordered by age.
    pub fn needs_ages(&self) -> bool {
        self.foreground.needs_ages() || self.background.needs_ages()
    }
    /// Whether candidates must be ordered by opening.
    pub fn needs_openings(&self) -> bool {
        self.foreground.needs_openings() || self.background.needs_openings()
    }
}

/// Cleans sections: for writers without space, in the background, on request.
pub struct Gc {
    base: Arc<Base>,
    nodes: Arc<Nodes>,
    files: Arc<Files>,
    commit: Arc<Commit>,
    /// Serializes cleaning.
    cleaner: Mutex<Cleaner, { rank::CLEANER }>,
    /// A [`Mode`]; may change while mounted.
    mode: AtomicU8,
    /// Data blocks written that cleaning was paced for.
    paced_at: AtomicU64,
    /// Wakes the cleaner thread.
    thread: OnceLock<Arc<Signal>>,
}

/// State of one run of foreground cleaning.
#[derive(Debug, Default)]
struct Run {
    /// Blocks of the request.
    wanted: u64,
    /// Whether a checkpoint was written for it, which turns freed blocks into holes.
    committed: bool,
    /// Whether a section was tried; each is tried once.
    tried: bool,
    /// Pinned files move too, because nothing else is left.
    pinned_too: bool,
}

impl Gc {
    pub fn new(files: Arc<Files>, commit: Arc<Commit>, cleaner: Cleaner) -> Self {
        let mode = if files.base.opts.background_gc { Mode::default() } else { Mode::Off };
        Self {
            base: files.base.clone(),
            nodes: files.nodes.clone(),
            files,
            commit,
            cleaner: Mutex::new(cleaner),
            mode: AtomicU8::new(mode as u8),
            paced_at: AtomicU64::new(0),
            thread: OnceLock::new(),
        }
    }
}

impl Gc {
    /// In rounds: cleans until free sections cover dirty blocks, the reserve and a request, or further
    /// cleaning is not worth its cost. Returns whether there is room. Fails with `NoSpace` only when the
    /// reserve is used up. The caller holds no lock.
    fn clean_sections(&self, request: Request) -> Result<bool> {
        let before = self.base.stats.moved();
        let mut cleaner = self.cleaner.lock();
        let mut run = Run { wanted: request.blocks, ..Run::default() };
        let done = self.run_foreground(&mut cleaner, &mut run);
        cleaner.foreground.round_ended();
        self.nodes.space.with_table(|t| t.reconsider());
        if run.tried {
            stat::add(&self.base.stats.gc_foreground, 1);
        }
        match self.base.stats.moved() - before {
            0 => {}
            moved => self.base.stats.gc_stall.record(moved),
        }
        done.map(|()| self.files.room.has_sections_for(request.blocks))
    }

    fn run_foreground(&self, cleaner: &mut Cleaner, run: &mut Run) -> Result<()> {
        loop {
            // A checkpoint in progress may free enough.
            self.commit.in_progress.wait();
            self.base.health.check_running()?;
            self.release_emptied(cleaner);
            let room = self.files.room.sections(cleaner.waiting.len() as u64, run.wanted);
            let short = run.wanted > 0 && !self.files.room.has_sections_for(run.wanted);
            if room.free > room.goal && !short {
                return Ok(());
            }
            let commits = short && !std::mem::replace(&mut run.committed, true);
            // Without sections to spare, blocks that a checkpoint frees count too.
            let freed = self.nodes.space.with_table(|t| t.reclaimable());
            let holes = freed >= self.base.geo.blocks_per_sec().into();
            if room.pays() || (room.is_spent() && holes) || (commits && freed > 0) {
                self.commit.checkpoint(CheckpointReason::Sync)?;
                self.release_waiting(cleaner);
                continue;
            }
            match self.next_victim(cleaner, room) {
                Some((victim, pin)) => {
                    let known = victim.sec < self.base.geo.section_count;
                    invariant!(self.base.health, known, "a victim is not a section of the volume");
                    run.tried = true;
                    self.nodes.space.with_table(|t| t.set_aside(SecNo(victim.sec)));
                    self.clean_victim(cleaner, &victim, pin, run.pinned_too)?;
                }
                None if room.is_spent() && !run.pinned_too => {
                    run.pinned_too = true;
                    self.nodes.space.with_table(|t| t.reconsider());
                }
                None => break,
            }
        }
        if self.nodes.space.free_sections() < self.files.room.sections_for_dirty() {
            Err(Error::NoSpace)
        } else {
            Ok(())
        }
    }

    fn next_victim(&self, cleaner: &mut Cleaner, room: Sections) -> Option<(Victim, SegmentPin)> {
        let most = room.most_valid(self.base.geo.blocks_per_sec().into());
        let situation = Situation {
            enough_with_prefree: room.free + room.pending > room.goal,
            enough_with_freed: room.free + room.pending > room.goal,
            facts: self.gc_facts(),
        };
        if room.is_spent() {
            cleaner.foreground.nearly_out();
        }
        self.pin_victim(|t| {
            let victim = cleaner.foreground.pick(t.index(), &situation)?;
            let valid = u64::from(t.valid_in_section(SecNo(victim.sec)));
            let worth = room.is_spent() || valid <= most;
            worth.then_some(victim)
        })
    }

    fn gc_facts(&self) -> Facts {
        let nodes = u64::from(self.nodes.space.counts.values().valid_nodes).max(1);
        let (valid, written, even) =
            self.nodes.space.with_table(|t| (t.totals().0, t.written(), t.writes_are_even()));
        let spare = self.base.geo.main_blocks().saturating_sub(valid);
        Facts { now: self.nodes.space.now(), nodes, spare, written, even }
    }

    fn clean_victim(
        &self,
        cleaner: &mut Cleaner,
        victim: &Victim,
        pin: SegmentPin,
        pinned_too: bool,
    ) -> Result<()> {
        // Read before the nodes are dirtied: a later checkpoint writes them.
        let since = self.base.tx.begin().epoch();
        let cleaned = self.clean_section(victim, pinned_too);
        if victim.class == Class::Node && cleaned.is_ok() {
            cleaner.waiting.push(pin);
            cleaner.since = since;
            return Ok(());
        }
        drop(pin);
        match cleaned {
            // A damaged section stays as it is, and another victim may do. Without space for the copies, those
            // already made may do.
            Err(Error::Corrupt(_) | Error::NoSpace) => Ok(()),
            other => other,
        }
    }

    /// Releases the node sections that a checkpoint has emptied.
    fn release_emptied(&self, cleaner: &mut Cleaner) {
        let written = self.base.tx.begin().epoch() != cleaner.since && !self.commit.in_progress.is_on();
        if !cleaner.waiting.is_empty() && written {
            self.release_waiting(cleaner);
        }
    }

    fn release_waiting(&self, cleaner: &mut Cleaner) {
        for mut pin in cleaner.waiting.drain(..) {
            pin.retain_free();
            self.commit.discard_segments(pin);
        }
    }

    /// Cleans one section in the background, the best by the policy that has enough holes. Returns false if none has.
    pub fn clean_once(&self) -> Result<bool> {
        self.base.health.check_writable()?;
        let Some(mut cleaner) = self.cleaner.try_lock() else { return Ok(false) };
        let situation = Situation { facts: self.gc_facts(), ..Situation::default() };
        let most = u64::from(self.base.geo.blocks_per_sec()) * BACKGROUND_PERCENT / 100;
        let victim = self.pin_victim(|t| {
            cleaner.chosen.iter().for_each(|&sec| t.set_aside(sec));
            let victim = (0..BACKGROUND_TRIES).find_map(|_| {
                let victim = cleaner.background.pick(t.index(), &situation)?;
                t.set_aside(SecNo(victim.sec));
                (u64::from(t.valid_in_section(SecNo(victim.sec))) <= most).then_some(victim)
            });
            t.reconsider();
            victim
        });
        let Some((victim, _pin)) = victim else {
            cleaner.chosen.clear();
            return Ok(false);
        };
        cleaner.chosen.insert(SecNo(victim.sec));
        stat::add(&self.base.stats.gc_background, 1);
        self.clean_section(&victim, false).map(|()| true)
    }

    /// Pins the victim, so that no log fills the holes that moving leaves. Choice and pin are atomic: otherwise a
    /// checkpoint could place blocks there, which cleaning would copy before they are written.
    pub fn pin_victim(
        &self,
        choose: impl FnOnce(&mut Table) -> Option<Victim>,
    ) -> Option<(Victim, SegmentPin)> {
        let (victim, pin) = self.nodes.space.pin(|t| {
            let victim = choose(t).filter(|v| {
                let idle = !t.is_section_busy(self.base.geo.sec_start(SecNo(v.sec)));
                invariant!(self.base.health, idle, "a victim is being filled", else {});
                idle
            });
            (victim, victim.iter().flat_map(|v| self.base.geo.segments_of(SecNo(v.sec))).collect())
        });
        victim.map(|victim| (victim, pin))
    }
}
