//! Foreground rounds, which decide when cleaning starts and stops: replicas of two Linux versions, the changes of an LKML
//! patch series to them, and batches. The engine has its own (`engine::gc`).
use segno_clean::policy::{Facts, Situation, Victim, VictimPolicy};

/// Policies whose LKML patches also change the round: each pass first tests whether space is nearly exhausted, and once it
/// was, the round continues although there are enough free sections.
const PATCHES: [&str; 2] = ["prefer_data", "weighted"];

/// The order of tests and checkpoints in a foreground round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loop {
    /// Linux 6.6: every pass compares free sections alone with the need, and writes a checkpoint if it frees anything; so
    /// there is one for each section cleaned.
    Seed,
    /// Linux 6.1 stable: that comparison happens only until the round has become a foreground one.
    Current,
    /// Sections are cleaned in batches, sorted by owner, with one checkpoint for each batch.
    Batch,
    /// Blocks are moved in proportion to writes, as the engine does (`segno_clean::pace`).
    #[default]
    Paced,
}

/// Dirty blocks that need space.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dirty {
    pub nodes: u64,
    pub dents: u64,
    pub data: u64,
}

/// Sections that dirty blocks can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Full sections, plus the reserve.
    pub lower: u64,
    /// One more for each kind with a remainder, plus the reserve.
    pub upper: u64,
    /// Whether the remainders fit into the open sections.
    pub fits: bool,
}

/// Free blocks in the open sections, as a checkpoint counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogRoom {
    pub data: u64,
    pub nodes: u64,
    pub hot_data: u64,
}

impl Need {
    /// The need of `dirty` blocks in sections of `per_sec` blocks; `room` is the minimum over the open sections of a kind.
    #[must_use]
    pub fn of(dirty: Dirty, per_sec: u64, room: LogRoom, reserve: u64) -> Self {
        let per = per_sec.max(1);
        let kinds = [dirty.nodes, dirty.dents, dirty.data];
        let lower: u64 = kinds.iter().map(|n| n / per).sum();
        let rests = kinds.iter().filter(|&n| n % per > 0).count() as u64;
        let fits = room.data >= dirty.data % per
            && room.nodes >= dirty.nodes % per
            && room.hot_data >= dirty.dents % per;
        Self { lower: lower + reserve, upper: lower + rests + reserve, fits }
    }
    /// Whether `free` free sections are too few.
    #[must_use]
    pub fn not_enough(self, free: u64) -> bool {
        free <= self.upper && (free <= self.lower || !self.fits)
    }
}

/// Space is nearly exhausted with up to this number of free sections beyond the need without the reserve.
const NEARLY_OUT: u64 = 3;

/// The interface of a round to the volume.
pub trait Host {
    type Error;
    fn need(&self) -> Need;
    /// Sections reserved for cleaning and checkpoints; part of the need.
    fn reserve(&self) -> u64;
    fn free_sections(&self) -> u64;
    /// Segments, and sections, that the next checkpoint frees.
    fn prefree(&self) -> (u64, u64);
    fn checkpoint(&mut self) -> Result<(), Self::Error>;
    fn facts(&self) -> Facts;
    fn policy(&mut self) -> &mut dyn VictimPolicy;
    /// Name of the policy.
    fn policy_name(&self) -> &str;
    fn pick(&mut self, situation: Situation) -> Option<Victim>;
    /// Cleans a section; true if it is empty then.
    fn migrate(&mut self, victim: Victim) -> Result<bool, Self::Error>;
    /// Cleans several sections, data sorted by owner; returns how many are empty then.
    fn migrate_batch(&mut self, victims: &[Victim]) -> Result<u64, Self::Error>;
    fn section_blocks(&self) -> u64;
    /// Free blocks that cleaning a section takes until the next checkpoint.
    fn cost(&self, victim: Victim) -> u64;
    /// Excludes a victim from the candidates until the round ends.
    fn set_aside(&mut self, victim: Victim);
    fn batching(&self) -> Batching {
        Batching::of(self.reserve())
    }
}

/// How batches use the free sections beyond the need of dirty blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Never used by copies.
    pub floor: u64,
    /// Maximum number of sections cleaned between two checkpoints: their copies take as many free sections meanwhile.
    pub sections: u64,
}

impl Batching {
    /// For a volume with this reserve: half of it for copies, one section for concurrent writers.
    #[must_use]
    pub fn of(reserve: u64) -> Self {
        Self { floor: 1, sections: (reserve / 2).max(1) }
    }
}

/// One foreground round.
pub fn foreground<H: Host>(host: &mut H, how: Loop) -> Result<(), H::Error> {
    let done = match how {
        Loop::Batch | Loop::Paced => batch(host),
        Loop::Seed | Loop::Current => linux(host, how),
    };
    host.policy().round_ended();
    done
}

/// Whether a writer has to clean first.
pub fn must_clean<H: Host>(host: &H, how: Loop) -> bool {
    match how {
        Loop::Batch | Loop::Paced => {
            let rule = host.batching();
            spare(host, rule) <= rule.sections
        }
        Loop::Seed | Loop::Current => host.need().not_enough(host.free_sections()),
    }
}

fn linux<H: Host>(host: &mut H, how: Loop) -> Result<(), H::Error> {
    let (mut foreground, mut freed) = (false, 0);
    let patched = PATCHES.contains(&host.policy_name());
    let mut goes_on = false;
    loop {
        if patched && nearly_out(host) {
            goes_on = true;
            host.policy().nearly_out();
            if host.prefree().0 > 0 {
                host.checkpoint()?;
                freed = 0;
            }
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
        if enough && freed > 0 && !goes_on {
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

/// Cleans batches, each followed by a checkpoint, until there is room for another one.
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

/// Free sections available for copies.
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
