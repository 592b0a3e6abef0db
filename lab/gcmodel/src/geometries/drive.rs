//! Writes of a case, with cleaning and checks between them.
use super::draw::{Case, Pattern};
use super::planted_bug::PlantedBug;
use super::watch::Watched;
use crate::counters::Kind;
use crate::placement::Placement;
use crate::rounds::Loop;
use crate::volume::{Full, Model, NODE};
use segno_clean::Class;
use segno_clean::need::Request;
use segno_clean::pace::{Host, Pacer, Room};
use segno_testkit::Rng;

/// Blocks written after the layout, as a multiple of the volume.
const TIMES: u64 = 5;
/// Most device writes of a case after the layout.
const MOST_WRITES: u64 = 3_000_000;

/// The counts of a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub app_writes: u64,
    pub writes: u64,
    /// Data sections that were cleaned.
    pub cleaned: u64,
}

impl Case {
    /// Fills the volume and writes five times its size, or as much as the bound allows. An error names the
    /// write that did not fit.
    pub fn run(&self) -> Result<Totals, String> {
        // Only where cleaning is paced do data logs share sections.
        let how = if self.bug == Some(PlantedBug::Alone) { Loop::Batch } else { Loop::Paced };
        let mut model = Model::new(self.experiment, self.policy, how)?;
        // The rules must do without this margin.
        model.uncounted = 0;
        if self.lifetime {
            model.placement = Placement::Lifetimes;
        }
        let mut writer = Writer::new(*self, model);
        let done = writer.lay_out().and_then(|()| writer.overwrite());
        done.map_err(|e| format!("after {} writes, {e}", writer.model.counts.app_writes))?;
        writer.model.verify()?;
        if writer.model.space.violations > 0 {
            return Err(format!("{} violations of zone rules", writer.model.space.violations));
        }
        let counts = &writer.model.counts;
        let cleaned = counts.sections[Class::Data as usize];
        Ok(Totals { app_writes: counts.app_writes, writes: counts.total(), cleaned })
    }
}

struct Writer {
    case: Case,
    model: Model,
    pacer: Pacer,
    rng: Rng,
    /// Page at which writeback continues.
    cursor: u32,
    /// Steps of the pattern so far.
    steps: u64,
    /// Blocks of small files, and how many their lengths add up to.
    lengths: Vec<u32>,
    used: u64,
}

impl Writer {
    fn new(case: Case, model: Model) -> Self {
        let files = if case.pattern == Pattern::Refill { model.small_files() } else { 0 };
        Self {
            rng: Rng::new(!case.seed),
            pacer: Pacer::default(),
            cursor: 0,
            steps: 0,
            lengths: vec![0; files as usize],
            used: 0,
            case,
            model,
        }
    }

    fn lay_out(&mut self) -> Result<(), String> {
        if self.case.pattern == Pattern::Refill {
            (0..self.lengths.len() as u32).try_for_each(|file| self.create(file))?;
        } else {
            (0..self.model.place.len() as u32).try_for_each(|page| self.write(page))?;
        }
        self.write_back(0)?;
        (0..self.model.node_place.len() as u32).for_each(|node| {
            self.model.dirty_nodes.add(node);
        });
        self.checkpoint()
    }

    fn overwrite(&mut self) -> Result<(), String> {
        let before = self.model.counts.clone();
        let wanted = before.app_writes + TIMES * self.case.experiment.main_blocks();
        while self.model.counts.app_writes < wanted
            && self.model.counts.total() - before.total() < MOST_WRITES
        {
            if self.case.pattern == Pattern::Refill {
                let file = self.rng.index(self.lengths.len()) as u32;
                self.delete(file);
                self.create(file)?;
            } else {
                let page = self.choose();
                self.write(page)?;
            }
            self.steps += 1;
            if self.case.pattern == Pattern::Synced {
                self.fsync()?;
            }
        }
        Ok(())
    }

    fn choose(&mut self) -> u32 {
        let pages = self.model.place.len() as u64;
        let page = match self.case.pattern {
            Pattern::EverySection => return self.of_next_section(),
            Pattern::Sequential => self.steps % pages,
            Pattern::NewestFirst if (self.steps / pages).is_multiple_of(2) => pages - 1 - self.steps % pages,
            Pattern::NewestFirst => self.steps % pages,
            Pattern::Uniform | Pattern::Synced | Pattern::Refill => self.rng.scaled(pages),
        };
        page as u32
    }

    /// A page of the next section with data, in the order of sections.
    fn of_next_section(&mut self) -> u32 {
        let (sections, per_section) = (self.case.experiment.zones, self.case.experiment.blocks_per_zone);
        for _ in 0..sections {
            let section = (self.steps % u64::from(sections)) as u32;
            let from = section * per_section + self.rng.scaled(per_section.into()) as u32;
            let space = &self.model.space;
            let found = (from..(section + 1) * per_section).find(|&addr| space.is_valid(addr));
            match found.and_then(|addr| self.model.owner.get(addr as usize)) {
                Some(&owner) if owner < NODE => return owner,
                _ => self.steps += 1,
            }
        }
        self.rng.index(self.model.place.len()) as u32
    }

    fn write(&mut self, page: u32) -> Result<(), String> {
        self.model.counts.app_writes += 1;
        self.model.dirty.add(page);
        let most = self.model.e.dirty_limit();
        // Writeback goes in quanta, so it waits for one.
        if self.model.dirty.len >= most + self.quantum() { self.write_back(most) } else { Ok(()) }
    }

    /// Writes pages back in ascending cyclic order, in quanta, until `low` are left.
    fn write_back(&mut self, low: u64) -> Result<(), String> {
        while self.model.dirty.len > low {
            for _ in 0..self.quantum().min(self.model.dirty.len - low) {
                let dirty = &self.model.dirty;
                let Some(page) = dirty.next(self.cursor).or_else(|| dirty.next(0)) else { break };
                let last = page as usize + 1 >= self.model.place.len();
                self.cursor = if last { 0 } else { page + 1 };
                self.model.dirty.remove(page);
                self.model.write_user(page).map_err(|Full| self.no_section("writeback"))?;
            }
            self.settle()?;
        }
        Ok(())
    }

    fn quantum(&self) -> u64 {
        if self.case.bug == Some(PlantedBug::Quantum) { 8 * self.case.quantum } else { self.case.quantum }
    }

    /// Writes all pages and nodes of the file back, or a checkpoint if the nodes do not fit ahead of it.
    fn fsync(&mut self) -> Result<(), String> {
        self.write_back(0)?;
        let model = &mut self.model;
        model.dirty_nodes.add(0);
        let nodes = model.dirty_nodes.len;
        let fits = Watched { model, bug: self.case.bug }.figures().has_room_for_chain(nodes);
        let model = &mut self.model;
        if fits || self.case.bug == Some(PlantedBug::Chain) {
            model.logged = (model.logged + model.dirty_nodes.len).min(model.node_place.len() as u64);
            model.flush_nodes().map_err(|Full| self.no_section("fsync"))?;
        } else {
            self.checkpoint()?;
        }
        self.settle()
    }

    fn checkpoint(&mut self) -> Result<(), String> {
        Watched { model: &mut self.model, bug: self.case.bug }.checkpoint_fits(0, "before a checkpoint")?;
        self.model.write_checkpoint().map_err(|Full| self.no_section("checkpoint"))
    }

    /// Creates a file of any length that leaves each other file a block.
    fn create(&mut self, file: u32) -> Result<(), String> {
        let pages = self.model.e.pages_of(file);
        let metadata = self.model.node_place.len() + self.model.dent_place.len();
        let room = self.model.e.user_blocks().saturating_sub(metadata as u64 + self.used);
        let most = u64::from(pages.end - pages.start).min(room);
        let length = if most == 0 { 0 } else { 1 + self.rng.scaled(most) as u32 };
        if let Some(of_file) = self.lengths.get_mut(file as usize) {
            *of_file = length;
        }
        self.used += u64::from(length);
        let dent = self.model.dent_of(file);
        self.model.dirty_nodes.add(file);
        self.model.dirty_dents.add(dent);
        self.settle()?;
        (pages.start..pages.start + length).try_for_each(|page| self.write(page))
    }

    fn delete(&mut self, file: u32) {
        let length = self.lengths.get_mut(file as usize).map_or(0, std::mem::take);
        self.used -= u64::from(length);
        self.model.e.pages_of(file).for_each(|page| self.model.trim(page));
    }

    /// Cleans for the blocks that were placed. Afterwards there is room for a quantum and its checkpoint.
    fn settle(&mut self) -> Result<(), String> {
        let written = self.model.counts.of(Kind::UserData);
        let placed = written - std::mem::replace(&mut self.model.paced, written);
        let mut watched = Watched { model: &mut self.model, bug: self.case.bug };
        watched.checkpoint_fits(0, "before cleaning")?;
        self.pacer.pace(&mut watched, placed)?;
        if watched.figures().floor() < 0
            && self.pacer.make_room(&mut watched, Request::default())? == Room::Spent
        {
            return Err(format!("cleaning gains nothing: {:?}", watched.figures()));
        }
        watched.checkpoint_fits(watched.quantum(), "after cleaning")
    }

    fn no_section(&self, at: &str) -> String {
        format!("no section left for {at}; {:?}", Host::figures(&self.model))
    }
}
