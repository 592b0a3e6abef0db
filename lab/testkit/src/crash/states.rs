//! Enumerates power cuts.
use super::image::{CrashChoice, CrashLog, Kept, SECTORS, Settled};
use crate::record::Event;
use crate::rng::Rng;
use segno_device::MemDevice;
use segno_format::BLOCK_SIZE;
use std::collections::BTreeSet;

/// With up to `EXHAUSTIVE` writes (or blocks) in flight, every subset is tried.
const EXHAUSTIVE: usize = 10;

/// How many states to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPlan {
    /// Seed of all random choices.
    pub seed: u64,
    /// Subsets drawn between two flushes where there are too many to try all.
    pub subsets: usize,
    /// Cuts drawn inside writes of data, over the whole log.
    pub torn_data: usize,
    /// Also states that only a drive leaves which ignores flushes: a FUA write without the directly preceding write that it
    /// completes.
    pub early: bool,
}

impl CrashPlan {
    /// Default numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, subsets: 200, torn_data: 20, early: false }
    }
}

/// One possible device state after a power cut.
#[derive(Debug)]
pub struct CrashState {
    /// Index in the enumeration: `CrashStates::new(..).nth(index)` builds it again.
    pub index: usize,
    pub choice: CrashChoice,
    pub device: MemDevice,
}

/// All states to try, in the order of the log:
/// - *prefix*: everything before a cut, for each cut before a write or discard, and at the end;
/// - *subset*: before each flush, after each FUA write and at the end, subsets of the writes in flight; with
///   several regions also all but the writes of one of them;
/// - *early*, if requested: the end of something written in two parts without the part before it;
/// - *torn*: as prefix, with the last write cut at a sector, everywhere in metadata and sometimes in data.
///
/// `nth`, and with it `skip` and `step_by`, do not build the states they omit.
pub struct CrashStates<'a> {
    log: &'a CrashLog,
    choices: Vec<CrashChoice>,
    next: usize,
    settled: Settled,
}

impl<'a> CrashStates<'a> {
    /// `is_metadata` classifies a written block by its address and bytes.
    pub fn new(
        log: &'a CrashLog,
        plan: CrashPlan,
        is_metadata: impl Fn(u64, &[u8; BLOCK_SIZE]) -> bool,
    ) -> Self {
        let mut rng = Rng::new(plan.seed);
        let mut choices = prefixes(log);
        choices.extend(subsets(log, plan, &mut rng));
        if plan.early {
            choices.extend(early(log));
        }
        choices.extend(torn(log, plan, &mut rng, is_metadata));
        choices.sort_by_key(|c| c.cut);
        Self { log, choices, next: 0, settled: Settled::new(log) }
    }

    /// Some of them; indices count these.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&CrashChoice) -> bool) -> Self {
        self.choices.retain(wanted);
        self
    }
}

impl Iterator for CrashStates<'_> {
    type Item = CrashState;

    fn next(&mut self) -> Option<CrashState> {
        self.nth(0)
    }

    fn nth(&mut self, n: usize) -> Option<CrashState> {
        let index = self.next.saturating_add(n).min(self.choices.len());
        self.next = index;
        let choice = *self.choices.get(index)?;
        self.next += 1;
        Some(CrashState { index, choice, device: self.settled.image(self.log, &choice) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.choices.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for CrashStates<'_> {}

/// Cuts before each change rather than after the preceding one: the image is the same, and more marks have been passed.
fn prefixes(log: &CrashLog) -> Vec<CrashChoice> {
    let before_changes = (0..).zip(log.events()).filter(|(_, e)| is_change(e)).map(|(index, _)| index);
    before_changes
        .chain([log.events().len()])
        .map(|cut| CrashChoice { cut, kept: Kept::All, torn: None })
        .collect()
}

fn is_change(event: &Event) -> bool {
    matches!(event, Event::Write { .. } | Event::Discard { .. })
}

fn subsets(log: &CrashLog, plan: CrashPlan, rng: &mut Rng) -> Vec<CrashChoice> {
    let mut cuts: Vec<usize> = (0..)
        .zip(log.events())
        .filter_map(|(index, event)| match event {
            Event::Flush { .. } => Some(index),
            Event::Write { fua: true, .. } => Some(index + 1),
            _ => None,
        })
        .chain([log.events().len()])
        .collect();
    cuts.dedup();
    let at = |cut| {
        subsets_at(log, cut, plan, rng).into_iter().map(move |kept| CrashChoice { cut, kept, torn: None })
    };
    cuts.into_iter().flat_map(at).collect()
}

/// Proper subsets of the events in flight; the full set is a prefix.
fn subsets_at(log: &CrashLog, cut: usize, plan: CrashPlan, rng: &mut Rng) -> Vec<Kept> {
    let writes = log.in_flight(cut).count();
    let blocks: usize = log.in_flight(cut).map(block_count).sum();
    let mut drawn = |make: fn(u64) -> Kept, n: usize| (0..n).map(|_| make(rng.draw())).collect::<Vec<_>>();
    let draw_writes: fn(u64) -> Kept = |seed| Kept::DrawnWrites { seed };
    let draw_blocks: fn(u64) -> Kept = |seed| Kept::DrawnBlocks { seed };
    if blocks <= EXHAUSTIVE {
        masks(blocks).map(Kept::Blocks).collect()
    } else if writes <= EXHAUSTIVE {
        let mut all: Vec<Kept> = masks(writes).map(Kept::Writes).collect();
        all.extend(drawn(draw_blocks, plan.subsets));
        all
    } else {
        let mut some = vec![Kept::Nothing, Kept::OnlyLast, Kept::AllButFirst, Kept::AllButLast];
        some.extend(regions_in_flight(log, cut).into_iter().map(Kept::AllButRegion));
        some.extend(drawn(draw_writes, plan.subsets.div_ceil(2)));
        some.extend(drawn(draw_blocks, plan.subsets / 2));
        some
    }
}

/// Regions with something in flight, if there is more than one of them.
fn regions_in_flight(log: &CrashLog, cut: usize) -> BTreeSet<usize> {
    let all: BTreeSet<usize> = log.in_flight(cut).map(|event| log.regions.of_event(event)).collect();
    if all.len() > 1 { all } else { BTreeSet::new() }
}

/// All proper subsets of up to [`EXHAUSTIVE`] elements.
fn masks(things: usize) -> std::ops::Range<u64> {
    0..(1 << things) - 1
}

/// The end of something written in two parts without the part before it.
fn early(log: &CrashLog) -> Vec<CrashChoice> {
    let mut choices = Vec::new();
    let mut last_write = None;
    for (index, event) in log.events().iter().enumerate() {
        let Event::Write { addr, blocks, fua } = event else { continue };
        let end = addr.saturating_add(blocks.len() as u64);
        if let Some((cut, part_end)) = last_write
            && *fua
            && part_end == *addr
        {
            choices.push(CrashChoice { cut, kept: Kept::AllAnd { event: index }, torn: None });
        }
        last_write = Some((index, end));
    }
    choices
}

fn block_count(event: &Event) -> usize {
    match event {
        Event::Write { blocks, .. } => blocks.len(),
        _ => 1,
    }
}

fn torn(
    log: &CrashLog,
    plan: CrashPlan,
    rng: &mut Rng,
    is_metadata: impl Fn(u64, &[u8; BLOCK_SIZE]) -> bool,
) -> Vec<CrashChoice> {
    let mut choices = Vec::new();
    let mut data = Sample { size: plan.torn_data, seen: 0, chosen: Vec::new() };
    for (cut, event) in (1..).zip(log.events()) {
        let Event::Write { addr, blocks, .. } = event else { continue };
        for (index, block) in (0..).zip(blocks) {
            let metadata = is_metadata(addr.saturating_add(index), block);
            // Sector 0 of a block is a cut between blocks; before the first one it is no cut inside the write.
            for sector in u64::from(index == 0)..SECTORS {
                let choice = CrashChoice { cut, kept: Kept::All, torn: Some(index * SECTORS + sector) };
                if metadata { choices.push(choice) } else { data.offer(choice, rng) }
            }
        }
    }
    choices.extend(data.chosen);
    choices
}

/// Reservoir sampling of a stream of unknown length.
struct Sample {
    size: usize,
    seen: u64,
    chosen: Vec<CrashChoice>,
}

impl Sample {
    fn offer(&mut self, choice: CrashChoice, rng: &mut Rng) {
        self.seen += 1;
        if self.chosen.len() < self.size {
            self.chosen.push(choice);
        } else if let Some(slot) =
            usize::try_from(rng.below(self.seen)).ok().and_then(|i| self.chosen.get_mut(i))
        {
            *slot = choice;
        }
    }
}
