//! Paced cleaning of zoned volumes: the rule of `segno_clean::pace` on the volume.
use super::{Cleaner, Gc};
use crate::commit::{CheckpointReason, Signal};
use crate::error::{Error, Result};
use crate::health::invariant;
use crate::room::{Grant, Rule};
use crate::space::SegmentPin;
use crate::stat;
use crate::writeback::Reclaim;
use segno_clean::Class;
use segno_clean::batch::Committed;
use segno_clean::need::{Figures, Request, Work};
use segno_clean::pace::{self, Host, Pacer};
use segno_clean::policy::{Situation, Victim};
use segno_format::summary::RawSummary;
use segno_format::{BlockAddr, SecNo};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks placed and not yet paid for, above which a writer helps the cleaner thread.
const MOST_BEHIND: u64 = 512;
/// Blocks that the cleaner thread pays for at a time, so that writers without room do not wait for it longer.
const TURN: u64 = 32;

/// State of paced cleaning.
#[derive(Default)]
pub struct Paced {
    pacer: Pacer,
    batch: Batch,
}

/// Sections being emptied.
#[derive(Default)]
struct Batch {
    /// Pinned, so that no log fills their holes and no run chooses them again.
    victims: Vec<(Victim, SegmentPin)>,
    /// Data blocks still to be moved, in the order of their owners.
    moving: VecDeque<(RawSummary, BlockAddr)>,
    /// Nodes that they name, without that of the block moved last.
    nodes: u64,
    /// Pinned files move too, because nothing else is left.
    pinned_too: bool,
}

/// The volume as [`Host`] of the pacing rule, with the state of its cleaner.
struct Cleaning<'a> {
    gc: &'a Gc,
    cleaner: &'a mut Cleaner,
}

impl Reclaim for Gc {
    /// Wakes the cleaner thread to move the blocks that the data blocks written since the last call pay for.
    /// A writer moves blocks itself if there is no such thread or if the thread lags. The caller holds no
    /// lock.
    fn pace(&self) -> Result<()> {
        let behind = self.behind();
        if behind == 0 {
            return Ok(());
        }
        let Some(thread) = self.thread.get() else {
            // If another writer is cleaning, the blocks written stay counted and are paid for later.
            return self.cleaner.try_lock().map_or(Ok(()), |mut cleaner| self.pay(&mut cleaner, behind));
        };
        thread.wake();
        match behind.checked_sub(MOST_BEHIND) {
            None | Some(0) => Ok(()),
            Some(excess) => self.pay(&mut self.cleaner.lock(), excess),
        }
    }

    fn reclaim(&self, request: Request) -> Result<bool> {
        match self.files.room.rule {
            Rule::Paced => self.make_room(request),
            Rule::Rounds => self.clean_sections(request),
        }
    }
}

impl Gc {
    /// Wakes this thread, which calls [`Gc::catch_up`], instead of letting writers clean.
    pub fn clean_on(&self, thread: Arc<Signal>) {
        let is_first = self.thread.set(thread).is_ok();
        invariant!(self.base.health, is_first, "a second cleaner thread was started", else {});
    }

    /// Moves the blocks that the data blocks written so far pay for.
    pub fn catch_up(&self) -> Result<()> {
        while self.behind() > 0 {
            self.pay(&mut self.cleaner.lock(), TURN)?;
        }
        Ok(())
    }

    /// Data blocks written and not yet paid for; 0 during a checkpoint, when no blocks are moved.
    fn behind(&self) -> u64 {
        let written = self.base.stats.data_blocks.load(Ordering::Relaxed);
        let behind = written.saturating_sub(self.paced_at.load(Ordering::Relaxed));
        if self.commit.in_progress.is_on() { 0 } else { behind }
    }

    /// Moves the blocks that up to `most` of the data blocks written pay for.
    fn pay(&self, cleaner: &mut Cleaner, most: u64) -> Result<()> {
        // Counted before the moves: the next cleaner pays only for blocks written since.
        let placed = self.behind().min(most);
        self.paced_at.fetch_add(placed, Ordering::Relaxed);
        self.drive(cleaner, |pacer, cleaning| pacer.pace(cleaning, placed))
    }

    /// Makes room for a quantum of writeback, or a larger request, and for a checkpoint after it. Returns false where cleaning gains
    /// nothing any more, which for a quantum does not occur on a volume within its guaranteed number of nodes; the caller then uses
    /// sections kept for recovery. Fails with `NoSpace` if there are too few of them. The caller holds no lock and no grant.
    fn make_room(&self, request: Request) -> Result<bool> {
        let under_way = &self.files.room.under_way;
        let mut cleaner = self.cleaner.lock();
        // A checkpoint in progress may free enough.
        self.commit.in_progress.wait();
        self.base.health.check_running()?;
        let then = under_way.seen();
        let done = self.drive(&mut cleaner, |pacer, cleaning| {
            cleaning.plan();
            pacer.make_room(cleaning, request)
        });
        match done? {
            pace::Room::Made => Ok(true),
            // Others were placing blocks. The caller repeats its request after one of them has ended.
            pace::Room::Floor | pace::Room::Spent if !under_way.none_since(then) => {
                drop(cleaner);
                under_way.wait_for_end(then);
                Ok(true)
            }
            pace::Room::Spent if !self.files.room.can_place() => Err(Error::NoSpace),
            pace::Room::Floor | pace::Room::Spent => Ok(false),
        }
    }

    fn drive<R>(
        &self,
        cleaner: &mut Cleaner,
        run: impl FnOnce(&mut Pacer, &mut Cleaning<'_>) -> Result<R>,
    ) -> Result<R> {
        let before = self.base.stats.moved();
        let mut pacer = std::mem::take(&mut cleaner.paced.pacer);
        let done = run(&mut pacer, &mut Cleaning { gc: self, cleaner });
        cleaner.paced.pacer = pacer;
        match self.base.stats.moved() - before {
            0 => {}
            moved => {
                stat::add(&self.base.stats.gc_foreground, 1);
                self.base.stats.gc_stall.record(moved);
            }
        }
        done
    }
}

impl<'a> Cleaning<'a> {
    fn keep(&mut self, (victim, pin): (Victim, SegmentPin)) -> Victim {
        self.cleaner.paced.batch.victims.push((victim, pin));
        victim
    }

    /// Updates the batch that requests for room take into account. Blocks that were overwritten since they
    /// were listed need no copy.
    fn plan(&self) {
        let batch = &self.cleaner.paced.batch;
        let data = batch.victims.iter().filter(|(victim, _)| victim.class == Class::Data);
        let valid: u64 = data.map(|(victim, _)| self.valid(victim.sec)).sum();
        let (left, sections) = (valid.min(batch.moving.len() as u64), batch.victims.len() as u64);
        self.gc.files.room.plan(Work { left, dirtied: self.nodes_listed(), sections });
    }

    fn pick(&mut self) -> Option<(Victim, SegmentPin)> {
        let situation = Situation { facts: self.gc.gc_facts(), ..Situation::default() };
        self.gc.pin_victim(|t| self.cleaner.foreground.pick(t.index(), &situation))
    }

    /// Takes the next blocks from the list, with their room; `None` if the list is empty or the batch no
    /// longer fits.
    fn next_step(&mut self, most: u64) -> Option<(Vec<(RawSummary, BlockAddr)>, Grant<'a>)> {
        let gc: &'a Gc = self.gc;
        let listed = self.cleaner.paced.batch.moving.len();
        if listed == 0 {
            return None;
        }
        let count = listed.min(usize::try_from(most).unwrap_or(usize::MAX));
        self.plan();
        let granted = gc.files.room.promise_copies(count as u64)?;
        let batch = &mut self.cleaner.paced.batch;
        let step: Vec<_> = batch.moving.drain(..count).collect();
        let begun = step.chunk_by(is_of_same_node).count() as u64;
        // A node with blocks left is dirty once the first of its blocks is moved, so counting it once more is
        // safe.
        let goes_on = step.last().zip(batch.moving.front()).is_some_and(|(a, b)| is_of_same_node(a, b));
        batch.nodes = batch.nodes.saturating_sub(begun) + u64::from(goes_on);
        Some((step, granted))
    }
}

impl Host for Cleaning<'_> {
    type Error = Error;

    fn figures(&self) -> Figures {
        let figures = self.gc.files.room.figures();
        self.gc.nodes.space.with_table(|t| {
            Figures { pending_sections: t.prefree_sections(), ..figures }.with_victims(t.index())
        })
    }

    fn choose(&mut self) -> Option<Victim> {
        let found = self.pick().or_else(|| {
            // Sections that could not be emptied are tried again, with the blocks of pinned files.
            self.cleaner.paced.batch.pinned_too = true;
            self.gc.nodes.space.with_table(|t| t.reconsider());
            self.pick()
        })?;
        Some(self.keep(found))
    }

    fn choose_emptiest(&mut self, class: Class) -> Option<Victim> {
        let found =
            self.gc.pin_victim(|t| t.index().emptiest(class).map(|(sec, _)| Victim { sec, class }))?;
        Some(self.keep(found))
    }

    fn release(&mut self, victim: Victim) {
        self.cleaner.paced.batch.victims.retain(|(kept, _)| kept.sec != victim.sec);
        self.plan();
    }

    fn valid(&self, section: u32) -> u64 {
        self.gc.nodes.space.with_table(|t| t.valid_in_section(SecNo(section))).into()
    }

    fn list(&mut self, victims: &[Victim]) -> Result<()> {
        let mut all = Vec::new();
        for victim in victims {
            let mut add = |seg| self.gc.owners_in(seg, victim.class).map(|owners| all.extend(owners));
            match self.gc.base.geo.segments_of(SecNo(victim.sec)).try_for_each(&mut add) {
                // A damaged section stays as it is.
                Err(Error::Corrupt(c)) => self.gc.base.health.note_damage(&c),
                other => other?,
            }
        }
        all.sort_unstable_by_key(|(owner, _)| (owner.nid(), owner.ofs_in_node.get()));
        let batch = &mut self.cleaner.paced.batch;
        batch.nodes = all.chunk_by(is_of_same_node).count() as u64;
        batch.moving = all.into();
        self.plan();
        Ok(())
    }

    fn nodes_listed(&self) -> u64 {
        // In addition to its node, the first copy of a file makes the inode dirty if Linux left an extent in
        // it.
        let batch = &self.cleaner.paced.batch;
        (2 * batch.nodes).min(batch.moving.len() as u64)
    }

    fn copy(&mut self, most: u64) -> Result<u64> {
        let gc = self.gc;
        while let Some((step, granted)) = self.next_step(most) {
            let moved = gc.move_listed(&step, self.cleaner.paced.batch.pinned_too);
            let promised =
                moved.as_ref().is_err() || moved.as_ref().is_ok_and(|&moved| moved <= granted.blocks());
            invariant!(gc.base.health, promised, "cleaning copies more than it was promised");
            drop(granted);
            self.plan();
            match moved {
                // Blocks of a damaged file stay where they are.
                Err(Error::Corrupt(c)) => self.gc.base.health.note_damage(&c),
                Ok(0) => {}
                moved => return moved,
            }
        }
        Ok(0)
    }

    fn dirty_nodes(&mut self, section: u32) -> Result<bool> {
        let victim = Victim { sec: section, class: Class::Node };
        let gc = self.gc;
        let Some(_granted) = gc.files.room.promise_moved_nodes(self.valid(section)) else { return Ok(false) };
        match self.gc.clean_section(&victim, false) {
            // A damaged section stays as it is.
            Err(Error::Corrupt(c)) => self.gc.base.health.note_damage(&c),
            other => other?,
        }
        self.plan();
        Ok(true)
    }

    fn checkpoint(&mut self, goes_on: bool) -> Result<Committed> {
        let stats = &self.gc.base.stats;
        let written =
            || (stats.node_blocks.load(Ordering::Relaxed), stats.meta_blocks.load(Ordering::Relaxed));
        let before = written();
        self.gc.commit.checkpoint(CheckpointReason::Sync)?;
        let after = written();
        let batch = &mut self.cleaner.paced.batch;
        batch.pinned_too &= goes_on;
        if !goes_on {
            (batch.moving, batch.nodes) = (VecDeque::new(), 0);
        }
        let victims = std::mem::take(&mut batch.victims);
        // Sections count as to be freed or as free.
        self.plan();
        for (victim, mut pin) in victims {
            if self.valid(victim.sec) > 0 && goes_on {
                self.cleaner.paced.batch.victims.push((victim, pin));
                continue;
            }
            if self.valid(victim.sec) > 0 {
                // Not chosen again unless nothing else is left.
                self.gc.nodes.space.with_table(|t| t.set_aside(SecNo(victim.sec)));
                continue;
            }
            stat::add(&stats.gc_sections, 1);
            pin.retain_free();
            self.gc.commit.discard_segments(pin);
        }
        self.plan();
        Ok(Committed { nodes: after.0 - before.0, metadata: after.1 - before.1 })
    }
}

fn is_of_same_node(a: &(RawSummary, BlockAddr), b: &(RawSummary, BlockAddr)) -> bool {
    a.0.nid() == b.0.nid()
}
