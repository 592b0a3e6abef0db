//! Builds the device state after one particular power cut.
use super::regions::Regions;
use crate::record::Event;
use crate::rng::Rng;
use segno_device::{BlockDevice, MemDevice, Snapshot};
use segno_format::{BLOCK_SIZE, Block};
use std::fmt;
use std::io;
use std::sync::Arc;

/// Atomic write unit of a drive: a torn block is cut at a multiple of this.
const SECTOR_SIZE: usize = 512;
/// Sectors in a block.
pub(crate) const SECTORS: u64 = (BLOCK_SIZE / SECTOR_SIZE) as u64;

/// A device's initial contents and the log of its writes, discards and flushes.
#[derive(Clone, Debug)]
pub struct CrashLog {
    base: Snapshot,
    events: Vec<Event>,
    pub(super) regions: Regions,
}

/// One power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashChoice {
    /// Number of events before the cut. If the last one is a FUA write, it had not returned yet.
    pub cut: usize,
    /// Which of the events in flight reached the device.
    pub kept: Kept,
    /// Sectors of the last write that reached the device; all of them if `None`.
    pub torn: Option<u64>,
}

/// A subset of the writes and discards in flight. "First" and "last" are in the order of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    All,
    Nothing,
    OnlyLast,
    AllButFirst,
    AllButLast,
    /// All except those of one of several regions: one device loses its cache.
    AllButRegion(usize),
    /// Bit i stands for the i-th write or discard.
    Writes(u64),
    /// Bit i stands for the i-th block; a discard counts as one.
    Blocks(u64),
    /// All, and one event after the cut.
    AllAnd {
        event: usize,
    },
    /// Randomly chosen writes and discards.
    DrawnWrites {
        seed: u64,
    },
    /// Randomly chosen blocks and discards, with some blocks torn.
    DrawnBlocks {
        seed: u64,
    },
}

/// Outcome of one block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockOutcome {
    Arrived,
    Lost,
    Torn { sectors: u64 },
}

impl fmt::Display for CrashChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cut after event {}, of those in flight {:?} arrived", self.cut, self.kept)?;
        self.torn.map_or(Ok(()), |n| write!(f, ", the last torn after {n} sectors"))
    }
}

impl CrashLog {
    /// The base and the log of a [`crate::RecordDevice`] that started from it. No write or discard may cross the ranges that
    /// are flushed apart.
    pub fn new(base: Snapshot, events: Vec<Event>) -> io::Result<Self> {
        let regions = Regions::new(base.block_count(), &events)?;
        Ok(Self { base, events, regions })
    }

    /// The log.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The marks before the cut, in order.
    pub fn marks(&self, cut: usize) -> impl Iterator<Item = &str> {
        self.events.iter().take(cut).filter_map(|e| match e {
            Event::Mark(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The device state after this power cut.
    #[must_use]
    pub fn image(&self, choice: &CrashChoice) -> MemDevice {
        Settled::new(self).image(self, choice)
    }

    /// Events before the cut that may be lost.
    pub(crate) fn in_flight(&self, cut: usize) -> impl Iterator<Item = &Event> {
        self.after_settled(cut).filter(|(optional, _)| *optional).map(|(_, event)| event)
    }

    /// Events since the last flush of their region, each with whether it may be lost.
    fn after_settled(&self, cut: usize) -> impl Iterator<Item = (bool, &Event)> {
        let cut = cut.min(self.events.len());
        let from = self.regions.all_settled(cut);
        let events = self.events.get(from..cut).unwrap_or_default();
        (from..).zip(events).filter_map(move |(index, event)| {
            let may_be_lost = match event {
                Event::Write { fua, .. } => !fua || index + 1 == cut,
                Event::Discard { .. } => true,
                Event::Flush { .. } | Event::Mark(_) => return None,
            };
            let settled = self.regions.settled(self.regions.of_event(event), cut);
            (index >= settled).then_some((may_be_lost, event))
        })
    }
}

/// The device with the durable events of a cut. It only advances in the log, so cuts must be requested in order.
pub(crate) struct Settled {
    device: MemDevice,
    /// Number of events in each region.
    events: Vec<usize>,
}

impl Settled {
    pub(crate) fn new(log: &CrashLog) -> Self {
        Self { device: MemDevice::from_snapshot(&log.base), events: vec![0; log.regions.count()] }
    }

    /// The device state after this power cut.
    pub(crate) fn image(&mut self, log: &CrashLog, choice: &CrashChoice) -> MemDevice {
        self.advance(log, choice.cut);
        let device = MemDevice::from_snapshot(&self.device.snapshot());
        let mut outcomes = choice.kept.outcomes(log.in_flight(choice.cut).count());
        let mut events = log.after_settled(choice.cut).peekable();
        while let Some((optional, event)) = events.next() {
            let torn = choice.torn.filter(|_| events.peek().is_none());
            match (torn, optional) {
                (Some(sectors), _) => {
                    apply(&device, event, |block| BlockOutcome::of_torn_write(block, sectors))
                }
                (None, true) => {
                    outcomes.next_event(log.regions.of_event(event));
                    apply(&device, event, |_| outcomes.next_block());
                }
                (None, false) => apply(&device, event, |_| BlockOutcome::Arrived),
            }
        }
        if let Kept::AllAnd { event } = choice.kept
            && let Some(event) = log.events.get(event)
        {
            apply(&device, event, |_| BlockOutcome::Arrived);
        }
        device
    }

    /// Regions have no block in common, so their order does not matter.
    fn advance(&mut self, log: &CrashLog, cut: usize) {
        for (region, events) in self.events.iter_mut().enumerate() {
            let to = log.regions.settled(region, cut);
            let new = log.events.get(*events..to).unwrap_or_default();
            for event in new.iter().filter(|event| log.regions.of_event(event) == region) {
                apply(&self.device, event, |_| BlockOutcome::Arrived);
            }
            *events = to;
        }
    }
}

/// Applies the surviving part of an event; `outcome` is called for each block in turn, for a discard once. The device calls
/// cannot fail: `CrashLog::new` has checked the addresses, and memory refuses nothing else.
fn apply(device: &MemDevice, event: &Event, mut outcome: impl FnMut(u64) -> BlockOutcome) {
    match event {
        Event::Write { addr, blocks, .. } => {
            for (index, block) in (0..).zip(blocks) {
                match outcome(index) {
                    BlockOutcome::Arrived => {
                        let _checked = device.write_shared(addr.saturating_add(index), block);
                    }
                    BlockOutcome::Torn { sectors } => {
                        tear(device, addr.saturating_add(index), block, sectors)
                    }
                    BlockOutcome::Lost => {}
                }
            }
        }
        Event::Discard { addr, count } if outcome(0) == BlockOutcome::Arrived => {
            let _checked = device.discard(*addr, *count);
        }
        Event::Discard { .. } | Event::Flush { .. } | Event::Mark(_) => {}
    }
}

/// Overwrites the first sectors of a block.
fn tear(device: &MemDevice, addr: u64, block: &[u8; BLOCK_SIZE], sectors: u64) {
    let mut mixed = [Block::zeroed()];
    let _checked = device.read(addr, &mut mixed);
    let [mut mixed] = mixed.map(|b| b.0);
    let len = (sectors.min(SECTORS) as usize).saturating_mul(SECTOR_SIZE);
    for (to, from) in mixed.iter_mut().zip(block).take(len) {
        *to = *from;
    }
    let _checked = device.write_shared(addr, &Arc::new(mixed));
}

impl BlockOutcome {
    /// Outcome of a block in a write of which `sectors` sectors reached the device.
    fn of_torn_write(block: u64, sectors: u64) -> Self {
        match sectors.saturating_sub(block.saturating_mul(SECTORS)) {
            0 => Self::Lost,
            n if n < SECTORS => Self::Torn { sectors: n },
            _ => Self::Arrived,
        }
    }

    fn arrived_if(yes: bool) -> Self {
        if yes { Self::Arrived } else { Self::Lost }
    }
}

impl Kept {
    fn outcomes(self, events: usize) -> BlockOutcomes {
        let mut rng = match self {
            Self::DrawnWrites { seed } | Self::DrawnBlocks { seed } => Rng::new(seed),
            _ => Rng::new(0),
        };
        // The density varies, so that states with nearly everything lost or kept occur as well.
        let density = 1 + rng.below(7);
        BlockOutcomes { kept: self, rng, density, events, event: 0, block: 0, outcome: BlockOutcome::Lost }
    }
}

/// Decides the outcome of each block in flight, in order.
struct BlockOutcomes {
    kept: Kept,
    rng: Rng,
    /// How many of 8 drawn survive.
    density: u64,
    /// Number of events in flight; position among events and blocks.
    events: usize,
    event: usize,
    block: usize,
    /// Outcome of the current event.
    outcome: BlockOutcome,
}

impl BlockOutcomes {
    fn next_event(&mut self, region: usize) {
        let (first, last) = (self.event == 0, self.event + 1 == self.events);
        self.outcome = BlockOutcome::arrived_if(match self.kept {
            Kept::All | Kept::AllAnd { .. } => true,
            Kept::OnlyLast => last,
            Kept::AllButFirst => !first,
            Kept::AllButLast => !last,
            Kept::AllButRegion(lost) => region != lost,
            Kept::Writes(mask) => bit(mask, self.event),
            Kept::DrawnWrites { .. } => self.draw(),
            Kept::Nothing | Kept::Blocks(_) | Kept::DrawnBlocks { .. } => false,
        });
        self.event += 1;
    }

    fn next_block(&mut self) -> BlockOutcome {
        let block = self.block;
        self.block += 1;
        match self.kept {
            Kept::Blocks(mask) => BlockOutcome::arrived_if(bit(mask, block)),
            Kept::DrawnBlocks { .. } if self.rng.below(16) == 0 => {
                BlockOutcome::Torn { sectors: 1 + self.rng.below(SECTORS - 1) }
            }
            Kept::DrawnBlocks { .. } => BlockOutcome::arrived_if(self.draw()),
            _ => self.outcome,
        }
    }

    fn draw(&mut self) -> bool {
        self.rng.below(8) < self.density
    }
}

fn bit(mask: u64, index: usize) -> bool {
    u32::try_from(index).ok().and_then(|i| mask.checked_shr(i)).is_some_and(|m| m & 1 == 1)
}
