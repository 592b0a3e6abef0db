//! Cleaning in proportion to writes: while room shrinks, each block that writeback places pays for some moves, so that a batch of
//! victims is empty when the room would be used up. No write waits for a whole section.
use crate::Class;
use crate::batch::BatchSize;
use crate::need::Figures;
use crate::policy::Victim;
use std::collections::VecDeque;

/// Blocks moved at a time, so that writes stay large.
const STEP: u64 = 64;
/// Most moves that one block placed pays for.
const MOST_PER_BLOCK: u64 = 512;
/// A batch shrinks at least by this part with each block placed, however little room is left.
const LEAST_PART: u64 = 64;
/// Blocks placed until figures are read again.
const REFRESH: u64 = 32;
/// Batches without gain after which space counts as exhausted.
const FRUITLESS: u32 = 16;

/// A volume to be cleaned. Victims are kept out of logs and later choices until [`Host::checkpoint`] or [`Host::release`].
pub trait Host {
    /// Why a step failed.
    type Error;
    /// Current figures.
    fn figures(&self) -> Figures;
    /// The next victim by the policy.
    fn choose(&mut self) -> Option<Victim>;
    /// The emptiest section of a class.
    fn choose_emptiest(&mut self, class: Class) -> Option<Victim>;
    /// Makes a victim a candidate again, as it was not begun.
    fn release(&mut self, victim: Victim);
    /// Valid blocks of a section.
    fn valid(&self, section: u32) -> u64;
    /// Copies up to `most` valid blocks out of a data section. Returns how many; 0 if none is left that can be moved.
    fn copy(&mut self, section: u32, most: u64) -> Result<u64, Self::Error>;
    /// Makes the valid nodes of a section dirty, so that the next checkpoint writes them elsewhere.
    fn dirty_nodes(&mut self, section: u32) -> Result<(), Self::Error>;
    /// Writes a checkpoint, which frees emptied sections. Returns the node blocks that it wrote.
    fn checkpoint(&mut self) -> Result<u64, Self::Error>;
}

/// Progress of a batch as of the last look at the figures.
#[derive(Clone, Copy, Debug)]
struct View {
    /// Blocks that can be placed until the batch must be finished.
    room: u64,
    /// Moves left in the batch.
    left: u64,
    /// Blocks placed since.
    placed: u64,
}

/// State of paced cleaning.
#[derive(Debug, Default)]
pub struct Pacer {
    /// Data sections still to be emptied; the first may be under way.
    victims: VecDeque<Victim>,
    size: BatchSize,
    /// Whether node sections wait for a checkpoint that writes their nodes elsewhere.
    has_nodes: bool,
    /// Moves due and not yet done.
    credit: u64,
    view: Option<View>,
}

impl Pacer {
    /// Data sections between two checkpoints.
    #[must_use]
    pub fn batch_sections(&self) -> u64 {
        self.size.sections()
    }

    /// Moves what `placed` blocks pay for. Call it after writeback placed them.
    pub fn pace<H: Host>(&mut self, host: &mut H, placed: u64) -> Result<(), H::Error> {
        let view = match self.view {
            Some(view) if view.placed + placed <= REFRESH => view,
            _ => match self.look(host)? {
                Some(view) => view,
                None => return Ok(()),
            },
        };
        let room = view.room.saturating_sub(view.placed).max(view.left / LEAST_PART).max(1);
        let due = (placed * view.left).div_ceil(room).min(placed * MOST_PER_BLOCK);
        self.view = Some(View { placed: view.placed + placed, ..view });
        self.credit += due;
        while self.credit >= STEP && !self.victims.is_empty() {
            let moved = self.advance(host, self.credit.min(MOST_PER_BLOCK))?;
            self.credit = self.credit.saturating_sub(moved.max(1));
        }
        Ok(())
    }

    /// Makes room for a quantum of writeback, at once. Returns false if cleaning gains nothing any more.
    pub fn make_room<H: Host>(&mut self, host: &mut H) -> Result<bool, H::Error> {
        let mut best = host.figures().floor();
        let mut fruitless = 0;
        while best < 0 {
            if fruitless == FRUITLESS {
                return Ok(false);
            }
            self.finish(host)?;
            if host.figures().floor() < 0 {
                self.begin_productive(host)?;
                self.finish(host)?;
            }
            let floor = host.figures().floor();
            fruitless = if floor > best { 0 } else { fruitless + 1 };
            best = best.max(floor);
        }
        Ok(true)
    }

    /// Reads the figures; begins a batch if it is time for one. `None` if nothing is to be moved.
    fn look<H: Host>(&mut self, host: &mut H) -> Result<Option<View>, H::Error> {
        self.view = None;
        let mut figures = host.figures();
        if self.victims.is_empty() {
            if figures.goal() > self.start(&figures) {
                self.credit = 0;
                return Ok(None);
            }
            if figures.pending_sections > 0 {
                // They are as good as free, and come without a move.
                if figures.goal() <= to_signed(figures.per_section / 2) {
                    self.commit(host)?;
                }
                return Ok(None);
            }
            self.begin(host)?;
            figures = host.figures();
        }
        let left = self.left(host);
        let beyond = figures.goal() - to_signed(left);
        if beyond < -to_signed(figures.per_section / 2) && left > 0 {
            self.finish(host)?;
            return Ok(None);
        }
        Ok((left > 0).then_some(View { room: u64::try_from(beyond).unwrap_or(0), left, placed: 0 }))
    }

    /// The room at which a batch begins: its moves and a section, for what it does not foresee.
    fn start(&self, figures: &Figures) -> i64 {
        let valid = figures.victim.unwrap_or(figures.per_section);
        to_signed(self.size.sections() * valid + figures.per_section)
    }

    fn left<H: Host>(&self, host: &H) -> u64 {
        self.victims.iter().map(|v| host.valid(v.sec)).sum()
    }

    /// Chooses the victims of a batch by the policy, as far as the checkpoint behind them fits.
    fn begin<H: Host>(&mut self, host: &mut H) -> Result<(), H::Error> {
        while (self.victims.len() as u64) < self.size.sections() {
            let Some(victim) = host.choose() else { break };
            if !self.take(host, victim)? {
                host.release(victim);
                break;
            }
        }
        if self.victims.is_empty() && self.has_nodes { self.commit(host) } else { Ok(()) }
    }

    /// Takes a victim into the batch. Returns false if it does not fit.
    fn take<H: Host>(&mut self, host: &mut H, victim: Victim) -> Result<bool, H::Error> {
        let (figures, valid) = (host.figures(), host.valid(victim.sec));
        let moves = self.left(host) + valid;
        let fits = match victim.class {
            Class::Node => figures.fits_nodes(valid),
            Class::Data => {
                figures.fits_copies(moves) && (self.victims.is_empty() || figures.goal() >= to_signed(moves))
            }
        };
        match victim.class {
            _ if !fits => {}
            Class::Node => {
                host.dirty_nodes(victim.sec)?;
                self.has_nodes = true;
            }
            Class::Data => self.victims.push_back(victim),
        }
        Ok(fits)
    }

    /// Begins a batch that gains in any case: the emptiest data section, and node sections whose holes cover the nodes
    /// that its copies make dirty.
    fn begin_productive<H: Host>(&mut self, host: &mut H) -> Result<(), H::Error> {
        let data = host.choose_emptiest(Class::Data);
        let mut uncovered = 0;
        if let Some(victim) = data {
            let valid = host.valid(victim.sec);
            if self.take(host, victim)? {
                uncovered = valid;
            } else {
                host.release(victim);
            }
        }
        let per_section = host.figures().per_section;
        loop {
            let Some(victim) = host.choose_emptiest(Class::Node) else { break };
            let gain = per_section.saturating_sub(host.valid(victim.sec));
            if !self.take(host, victim)? {
                host.release(victim);
                break;
            }
            uncovered = uncovered.saturating_sub(gain);
            if uncovered == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Moves up to `most` blocks of the first victim; the checkpoint follows when none is left. Returns the moves.
    fn advance<H: Host>(&mut self, host: &mut H, most: u64) -> Result<u64, H::Error> {
        let Some(victim) = self.victims.front() else { return Ok(0) };
        let moved = host.copy(victim.sec, most)?;
        if moved == 0 || host.valid(victim.sec) == 0 {
            self.victims.pop_front();
            if self.victims.is_empty() {
                self.commit(host)?;
            }
        }
        Ok(moved)
    }

    /// Empties the section under way, drops the others, and commits.
    fn finish<H: Host>(&mut self, host: &mut H) -> Result<(), H::Error> {
        self.victims.drain(1.min(self.victims.len())..).for_each(|v| host.release(v));
        while !self.victims.is_empty() {
            self.advance(host, u64::MAX)?;
        }
        if self.has_nodes || host.figures().pending_sections > 0 { self.commit(host) } else { Ok(()) }
    }

    fn commit<H: Host>(&mut self, host: &mut H) -> Result<(), H::Error> {
        (self.view, self.credit, self.has_nodes) = (None, 0, false);
        let nodes = host.checkpoint()?;
        self.size.committed(nodes, &host.figures());
        Ok(())
    }
}

fn to_signed(blocks: u64) -> i64 {
    i64::try_from(blocks).unwrap_or(i64::MAX)
}
