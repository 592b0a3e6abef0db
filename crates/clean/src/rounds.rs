//! When cleaning runs and when it stops: the foreground rounds of Linux, two versions of them, and our own.
use crate::policy::{Facts, Situation, Victim, VictimPolicy};

/// The order of tests and checkpoints in a foreground round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loop {
    /// Linux 6.6: whether there is enough is asked on every pass from free sections alone, and a checkpoint follows if
    /// one frees anything; so there is one for each section cleaned.
    Seed,
    /// Linux 6.1 stable: that question turns a round into a foreground one only once.
    Current,
    /// Ours: sections are cleaned in batches, sorted by owner, with one checkpoint for each batch.
    #[default]
    Batch,
}

/// Dirty blocks that must have a place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dirty {
    pub nodes: u64,
    pub dents: u64,
    pub data: u64,
}

/// Sections that dirty blocks may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Whole sections of them, plus the reserve.
    pub lower: u64,
    /// One more for each kind with a rest, plus the reserve.
    pub upper: u64,
    /// Whether the rests fit into what the open sections have left.
    pub fits: bool,
}

/// What the open sections have left, by the blocks that a checkpoint would count as used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    pub data: u64,
    pub nodes: u64,
    pub hot_data: u64,
}

impl Need {
    /// Of `dirty` blocks in sections of `per_sec`; `left` is the least that an open section of its kind has.
    #[must_use]
    pub fn of(dirty: Dirty, per_sec: u64, left: Left, reserve: u64) -> Self {
        let per = per_sec.max(1);
        let kinds = [dirty.nodes, dirty.dents, dirty.data];
        let lower: u64 = kinds.iter().map(|n| n / per).sum();
        let rests = kinds.iter().filter(|&n| n % per > 0).count() as u64;
        let fits = left.data >= dirty.data % per
            && left.nodes >= dirty.nodes % per
            && left.hot_data >= dirty.dents % per;
        Self { lower: lower + reserve, upper: lower + rests + reserve, fits }
    }
    /// Whether so many free sections are too few.
    #[must_use]
    pub fn not_enough(self, free: u64) -> bool {
        free <= self.upper && (free <= self.lower || !self.fits)
    }
}

/// A checkpoint is due when there are no more than this many free sections beyond the need without the reserve.
const NEARLY_OUT: u64 = 3;

/// The volume, as a round sees it.
pub trait Host {
    type Error;
    fn need(&self) -> Need;
    /// Sections that only cleaning and checkpoints may use; part of the need.
    fn reserve(&self) -> u64;
    fn free_sections(&self) -> u64;
    /// Segments, and sections, that the next checkpoint frees.
    fn prefree(&self) -> (u64, u64);
    fn checkpoint(&mut self) -> Result<(), Self::Error>;
    fn facts(&self) -> Facts;
    fn policy(&mut self) -> &mut dyn VictimPolicy;
    fn pick(&mut self, situation: Situation) -> Option<Victim>;
    /// Empties a section; true if nothing is left in it.
    fn migrate(&mut self, victim: Victim) -> Result<bool, Self::Error>;
    /// Empties several sections, data sorted by owner; returns how many are empty.
    fn migrate_batch(&mut self, victims: &[Victim]) -> Result<u64, Self::Error>;
    fn section_blocks(&self) -> u64;
    /// Free blocks that emptying a section takes until the next checkpoint.
    fn cost(&self, victim: Victim) -> u64;
    /// A section that was chosen is no candidate until the round ends.
    fn set_aside(&mut self, victim: Victim);
    fn batching(&self) -> Batching {
        Batching::of(self.reserve())
    }
}

/// How our own rounds use the free sections that a volume has beyond what is dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Kept at any price.
    pub floor: u64,
    /// Cleaned between two checkpoints, at most: their copies take as many free sections until the checkpoint.
    pub sections: u64,
}

impl Batching {
    /// For a volume that reserves so many sections: half of them for copies, one for what writers begin meanwhile.
    #[must_use]
    pub fn of(reserve: u64) -> Self {
        Self { floor: 1, sections: (reserve / 2).max(1) }
    }
}

/// One foreground round.
pub fn foreground<H: Host>(host: &mut H, how: Loop) -> Result<(), H::Error> {
    let done = match how {
        Loop::Batch => batch(host),
        Loop::Seed | Loop::Current => linux(host, how),
    };
    host.policy().round_ended();
    done
}

/// Whether a writer has to clean before it goes on.
pub fn must_clean<H: Host>(host: &H, how: Loop) -> bool {
    match how {
        Loop::Batch => {
            let rule = host.batching();
            spare(host, rule) <= rule.sections
        }
        Loop::Seed | Loop::Current => host.need().not_enough(host.free_sections()),
    }
}

fn linux<H: Host>(host: &mut H, how: Loop) -> Result<(), H::Error> {
    let (mut foreground, mut freed) = (false, 0);
    let patched = host.policy().patches_loop();
    loop {
        if patched && commit_if_nearly_out(host)? {
            freed = 0;
        }
        let asks_again = how == Loop::Seed && !patched;
        if (!foreground || asks_again) && must_clean(host, how) {
            if host.prefree().0 > 0 {
                host.checkpoint()?;
                freed = 0;
            }
            foreground = how == Loop::Seed || must_clean(host, how);
        }
        if !foreground {
            return Ok(());
        }
        let situation = situation(host, freed);
        let Some(victim) = host.pick(situation) else { return Ok(()) };
        if host.migrate(victim)? {
            freed += 1;
        }
        let enough = !host.need().not_enough(host.free_sections() + freed);
        if enough && freed > 0 && !host.policy().goes_on() {
            return Ok(());
        }
        if !patched && !enough && nearly_out(host) && host.prefree().0 > 0 {
            host.checkpoint()?;
            if how == Loop::Seed {
                freed = 0;
            }
        }
    }
}

/// Cleans batches until there is room for the next one, with a checkpoint behind each.
fn batch<H: Host>(host: &mut H) -> Result<(), H::Error> {
    let rule = host.batching();
    loop {
        let spare = spare(host, rule);
        if spare > rule.sections {
            return Ok(());
        }
        if host.prefree().1 > 0 {
            host.checkpoint()?;
            continue;
        }
        let mut room = spare * host.section_blocks();
        let mut victims = Vec::new();
        while (victims.len() as u64) < spare.max(1) {
            let situation = situation(host, 0);
            let Some(victim) = host.pick(situation) else { break };
            let cost = host.cost(victim);
            if cost > room && !victims.is_empty() {
                break;
            }
            room = room.saturating_sub(cost);
            host.set_aside(victim);
            victims.push(victim);
        }
        if victims.is_empty() || host.migrate_batch(&victims)? == 0 {
            return Ok(());
        }
        host.checkpoint()?;
    }
}

/// Free sections that copies may take.
fn spare<H: Host>(host: &H, rule: Batching) -> u64 {
    let dirty = host.need().upper - host.reserve();
    host.free_sections().saturating_sub(dirty + rule.floor)
}

fn situation<H: Host>(host: &H, freed: u64) -> Situation {
    let (need, free) = (host.need(), host.free_sections());
    Situation {
        enough_with_prefree: !need.not_enough(free + host.prefree().1),
        enough_with_freed: !need.not_enough(free + freed),
        facts: host.facts(),
    }
}

fn nearly_out<H: Host>(host: &H) -> bool {
    host.free_sections() <= host.need().upper - host.reserve() + NEARLY_OUT
}

/// What the patches do first in each pass. True if a checkpoint was written.
fn commit_if_nearly_out<H: Host>(host: &mut H) -> Result<bool, H::Error> {
    if !nearly_out(host) {
        return Ok(false);
    }
    host.policy().nearly_out();
    let due = host.prefree().0 > 0;
    if due {
        host.checkpoint()?;
    }
    Ok(due)
}
