//! Cleaning in proportion to writes: while room shrinks, each block that writeback places pays for some
//! moves, so that a batch of victims is empty when the room would be used up. No write waits for a whole
//! section.
use crate::Class;
use crate::batch::{BatchSize, Committed};
use crate::need::{Figures, Request, Work, to_signed};
use crate::policy::Victim;

/// Blocks moved at a time, so that writes stay large.
const STEP: u64 = 64;
/// Maximum number of moves that one block placed pays for.
const MOST_PER_BLOCK: u64 = 512;
/// A batch shrinks at least by its size divided by this with each block placed, however little room is left.
const MIN_SHRINK_DIVISOR: u64 = 64;
/// Even pace: moves per block placed, as a multiple of the average that the batch needs, and its minimum.
const EVEN_FACTOR: u64 = 2;
const EVEN_LEAST: u64 = 16;
/// Divisor of a section: blocks that may be moved beyond the even pace.
const BURST_DIVISOR: u64 = 2;
/// Blocks placed until figures are read again.
const REFRESH: u64 = 32;
/// Batches without gain after which space counts as exhausted.
const FRUITLESS: u32 = 16;

/// A volume to be cleaned. Victims are kept out of logs and later choices until [`Host::checkpoint`] ends the
/// batch, or [`Host::release`].
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
    /// Lists the valid blocks of data sections in the order of their owners, to be copied in this order.
    fn list(&mut self, victims: &[Victim]) -> Result<(), Self::Error>;
    /// Nodes that name the listed blocks not yet copied: the most that their copies make dirty.
    fn nodes_listed(&self) -> u64;
    /// Moves up to `most` of the listed blocks that are still valid. Returns how many; 0 at the end of the
    /// list.
    fn copy(&mut self, most: u64) -> Result<u64, Self::Error>;
    /// Makes the valid nodes of a section dirty, so that the next checkpoint writes them elsewhere. Returns
    /// false if they do not fit any more.
    fn dirty_nodes(&mut self, section: u32) -> Result<bool, Self::Error>;
    /// Writes a checkpoint, which frees emptied sections. If the batch continues, its other victims stay out.
    fn checkpoint(&mut self, goes_on: bool) -> Result<Committed, Self::Error>;
}

/// Progress of a batch when the figures were last read.
#[derive(Clone, Copy, Debug)]
struct View {
    /// Blocks that can be placed until the batch must be finished.
    room: u64,
    /// Moves left in the batch.
    left: u64,
    /// Moves that may be made beyond the even pace.
    burst: u64,
    /// Blocks placed since.
    placed: u64,
}

/// Result of [`Pacer::make_room`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Enough to continue: the request fits, and the next section can be emptied after it.
    Made,
    /// The request fits, but cleaning gains no more space. A guarded volume never reaches this for a quantum.
    Floor,
    /// The request does not fit.
    Spent,
}

/// State of paced cleaning.
#[derive(Debug, Default)]
pub struct Pacer {
    /// Data sections being emptied.
    victims: Vec<Victim>,
    size: BatchSize,
    /// Node sections that wait for a checkpoint, which writes their nodes elsewhere.
    node_sections: u64,
    /// Moves since the last checkpoint of cleaning.
    moved: u64,
    /// Moves due and not yet done.
    credit: u64,
    /// Moves per block placed at the even pace.
    even: u64,
    /// Recent moves beyond the even pace. They are limited, as one write may place many blocks.
    ahead: u64,
    view: Option<View>,
}

impl Pacer {
    /// Moves what `placed` blocks pay for. Call it after writeback placed them.
    pub fn pace<H: Host>(&mut self, host: &mut H, placed: u64) -> Result<(), H::Error> {
        let mut unpaid = placed;
        while unpaid > 0 {
            let part = unpaid.min(REFRESH);
            self.pay(host, part, unpaid)?;
            unpaid -= part;
        }
        Ok(())
    }

    /// Moves what a few of the `unpaid` blocks pay for.
    fn pay<H: Host>(&mut self, host: &mut H, placed: u64, unpaid: u64) -> Result<(), H::Error> {
        let even = placed * self.even.max(EVEN_LEAST);
        self.ahead = self.ahead.saturating_sub(even);
        let view = match self.view {
            Some(view) if view.placed + placed <= REFRESH => view,
            _ => match self.look(host, unpaid)? {
                Some(view) => view,
                None => return Ok(()),
            },
        };
        let room = view.room.saturating_sub(view.placed).max(view.left / MIN_SHRINK_DIVISOR).max(1);
        let due = (placed * view.left).div_ceil(room).min(placed * MOST_PER_BLOCK);
        self.view = Some(View { placed: view.placed + placed, ..view });
        self.credit = (self.credit + due).min(view.burst.max(even).saturating_sub(self.ahead));
        while self.credit >= STEP && !self.victims.is_empty() {
            if !host.figures().fits(self.left(host), host.nodes_listed()) {
                return self.finish(host);
            }
            let moved = self.advance(host, self.credit.min(MOST_PER_BLOCK))?;
            self.credit = self.credit.saturating_sub(moved.max(1));
        }
        Ok(())
    }

    /// Makes room for a quantum of writeback, or a request that is larger, at once.
    pub fn make_room<H: Host>(&mut self, host: &mut H, request: Request) -> Result<Room, H::Error> {
        if host.figures().promising(request).room(self.work(host)) >= 0 {
            return Ok(Room::Made);
        }
        self.finish(host)?;
        Ok(match self.restore(host, request)? {
            true => Room::Made,
            false if host.figures().promising(request).floor() >= 0 => Room::Floor,
            false => Room::Spent,
        })
    }

    /// Cleans batches that gain in any case, at once, until the request fits and a section can be emptied
    /// after it. Returns false if nothing is gained.
    fn restore<H: Host>(&mut self, host: &mut H, request: Request) -> Result<bool, H::Error> {
        if host.figures().logged > 0 {
            self.commit(host, false)?;
        }
        let mut best = host.figures().floor();
        let mut fruitless = 0;
        while host.figures().promising(request).goal() < 0 {
            if fruitless == FRUITLESS {
                return Ok(false);
            }
            self.begin_productive(host)?;
            if self.sections() == 0 {
                return Ok(false);
            }
            // Batches of nodes alone gain, or run out of victims.
            fruitless += u32::from(!self.victims.is_empty());
            self.finish(host)?;
            let floor = host.figures().floor();
            if floor > best {
                (best, fruitless) = (floor, 0);
            }
        }
        Ok(true)
    }

    /// Reads the figures; begins a batch if it is time for one. `None` if nothing is to be moved. Blocks not
    /// yet paid for are placed already, so they count as room.
    fn look<H: Host>(&mut self, host: &mut H, unpaid: u64) -> Result<Option<View>, H::Error> {
        self.view = None;
        let mut figures = host.figures();
        if self.victims.is_empty() {
            if self.room_ahead(&figures) > figures.begins_at() {
                self.credit = 0;
                return Ok(None);
            }
            if figures.pending_sections > 0 {
                // They are as good as free, and need no move.
                if figures.goal() <= to_signed(figures.per_section / 2) {
                    self.commit(host, false)?;
                }
                return Ok(None);
            }
            if figures.goal() < 0 {
                self.restore(host, Request::default())?;
            }
            self.begin(host)?;
            figures = host.figures();
        }
        let work = self.work(host);
        let falls_short = figures.beyond(work, 1) < -to_signed(figures.slack())
            || !figures.may_wait(work.left, work.dirtied, 2 * REFRESH);
        if work.left > 0 && falls_short {
            self.finish(host)?;
            return Ok(None);
        }
        let beyond = figures.beyond(work, self.size.sections());
        let room = u64::try_from(beyond + to_signed(unpaid)).unwrap_or(0);
        let moves = work.left + self.moved;
        let freed = (self.sections() * figures.per_section).saturating_sub(moves).max(1);
        self.even = EVEN_FACTOR * moves / freed;
        let burst = figures.per_section / BURST_DIVISOR;
        Ok((work.left > 0).then_some(View { room, left: work.left, burst, placed: 0 }))
    }

    /// The room that a batch of the size wanted would have.
    fn room_ahead(&self, figures: &Figures) -> i64 {
        let sections = self.size.sections();
        let left = sections * figures.victim.unwrap_or(figures.per_section);
        figures.beyond(Work { left, dirtied: self.size.nodes_of(left), sections }, sections)
    }

    /// Sections that the batch under way frees.
    fn sections(&self) -> u64 {
        self.victims.len() as u64 + self.node_sections
    }

    fn left<H: Host>(&self, host: &H) -> u64 {
        self.victims.iter().map(|v| host.valid(v.sec)).sum()
    }

    fn work<H: Host>(&self, host: &H) -> Work {
        Work { left: self.left(host), dirtied: host.nodes_listed(), sections: self.sections() }
    }

    /// Chooses the victims of a batch by the policy, as long as the checkpoint after them fits.
    fn begin<H: Host>(&mut self, host: &mut H) -> Result<(), H::Error> {
        while (self.victims.len() as u64) < self.size.sections() {
            let Some(victim) = host.choose() else { break };
            if !self.take(host, victim)? {
                host.release(victim);
                break;
            }
        }
        if self.victims.is_empty() {
            return if self.node_sections > 0 { self.commit(host, false) } else { Ok(()) };
        }
        Ok(())
    }

    /// Takes a victim into the batch. Returns false if it does not fit.
    fn take<H: Host>(&mut self, host: &mut H, victim: Victim) -> Result<bool, H::Error> {
        let figures = host.figures();
        if victim.class == Class::Node {
            let Work { left, dirtied, .. } = self.work(host);
            let fits =
                figures.fits(left, dirtied + host.valid(victim.sec)) && host.dirty_nodes(victim.sec)?;
            self.node_sections += u64::from(fits);
            return Ok(fits);
        }
        self.victims.push(victim);
        host.list(&self.victims)?;
        let work = self.work(host);
        let fits = match self.victims.as_slice() {
            [_only] => figures.fits(work.left, work.dirtied),
            _ => {
                figures.may_wait(work.left, work.dirtied, 2 * figures.quantum())
                    && figures.beyond(work, 1) >= to_signed(figures.quantum())
            }
        };
        if !fits {
            self.victims.pop();
            host.list(&self.victims)?;
        }
        Ok(fits)
    }

    /// Begins a batch that gains in any case: the emptiest data section, and node sections whose holes cover
    /// the nodes that its copies make dirty. Where the former does not fit, it gains from a node section
    /// alone.
    fn begin_productive<H: Host>(&mut self, host: &mut H) -> Result<(), H::Error> {
        let mut uncovered = 0;
        if let Some(victim) = host.choose_emptiest(Class::Data) {
            let valid = host.valid(victim.sec);
            if self.take(host, victim)? {
                uncovered = valid;
            } else {
                host.release(victim);
            }
        }
        let per_section = host.figures().per_section;
        while let Some(victim) = host.choose_emptiest(Class::Node) {
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

    /// Moves up to `most` blocks; the checkpoint follows when none is left. Returns the moves.
    fn advance<H: Host>(&mut self, host: &mut H, most: u64) -> Result<u64, H::Error> {
        let moved = host.copy(most)?;
        self.moved += moved;
        self.ahead += moved;
        if moved == 0 || self.left(host) == 0 {
            self.victims.clear();
            self.commit(host, false)?;
        }
        Ok(moved)
    }

    /// Reduces the batch to the moves of one section, including those made ahead: keeps the sections with the
    /// fewest valid blocks, and at least one. The others are emptied later.
    fn shorten<H: Host>(&mut self, host: &mut H) -> Result<(), H::Error> {
        let most = host.figures().per_section.saturating_sub(self.ahead);
        if self.left(host) <= most {
            return Ok(());
        }
        self.victims.sort_by_key(|v| host.valid(v.sec));
        let mut moves = 0;
        let mut fits = |v: &Victim| {
            moves += host.valid(v.sec);
            moves <= most
        };
        let count = self.victims.iter().take_while(|v| fits(v)).count();
        self.victims.drain(count.max(1)..).for_each(|v| host.release(v));
        host.list(&self.victims)
    }

    /// Completes the batch under way, or what one section of moves completes of it.
    fn finish<H: Host>(&mut self, host: &mut H) -> Result<(), H::Error> {
        self.shorten(host)?;
        if !self.victims.is_empty() && !host.figures().fits(self.left(host), host.nodes_listed()) {
            // Nodes that fsyncs have logged since need no room after a checkpoint.
            self.commit(host, true)?;
            if !host.figures().fits(self.left(host), host.nodes_listed()) {
                std::mem::take(&mut self.victims).into_iter().for_each(|v| host.release(v));
                host.list(&[])?;
            }
        }
        while !self.victims.is_empty() {
            self.advance(host, u64::MAX)?;
        }
        if self.node_sections > 0 || host.figures().pending_sections > 0 {
            self.commit(host, false)?;
        }
        Ok(())
    }

    fn commit<H: Host>(&mut self, host: &mut H, goes_on: bool) -> Result<(), H::Error> {
        (self.view, self.credit, self.node_sections) = (None, 0, 0);
        // The checkpoint frees sections that are already empty.
        self.victims.retain(|v| host.valid(v.sec) > 0);
        let written = host.checkpoint(goes_on)?;
        self.size.committed(std::mem::take(&mut self.moved), written, &host.figures());
        Ok(())
    }
}
