//! Writes of a case, with cuts between them.
use super::device::{Device, judge, reported};
use super::draw::{Case, Pattern};
use super::files::Files;
use super::room::checkpoint_fits;
use super::write_observer::WriteObserver;
use segno_engine::Volume;
use segno_engine::lab::Probe;
use segno_testkit::Rng;
use std::sync::Arc;

/// Blocks written after the layout, as a multiple of the volume.
const TIMES: u64 = 2;
/// Most device writes of a case after the layout.
const MOST_WRITES: u64 = 400_000;
/// Writes between two syncs, on average.
const SYNC_EVERY: u64 = 1000;
/// Most device commands between choosing a cut and the cut.
const CUT_WITHIN: u64 = 600;

/// The counts of a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub writes: u64,
    /// Blocks that cleaning moved.
    pub moved: u64,
    pub cuts: u64,
}

/// Fills the volume, overwrites it and cuts it. An error names the write that did not fit, or the lost page.
pub fn run(case: &Case) -> Result<Totals, String> {
    let mut drive = Drive::new(*case)?;
    drive.lay_out()?;
    let done = drive.overwrite();
    done.map_err(|e| format!("after {} writes and {} cuts: {e}", drive.written, drive.totals.cuts))?;
    drive.finish()
}

struct Drive {
    case: Case,
    dev: Device,
    observer: Arc<WriteObserver>,
    v: Arc<Volume>,
    files: Files,
    rng: Rng,
    written: u64,
    steps: u64,
    totals: Totals,
}

impl Drive {
    /// The volume with the least reserve from that of the case on that guards the nodes of its files.
    fn new(case: Case) -> Result<Self, String> {
        for geometry in case.geometry.with_more_reserved() {
            let dev = geometry.device()?;
            let v = case.mount(dev.zoned.clone())?;
            let mut files = Files::new(&case, v.statfs().bfree);
            if v.guarded().covers(files.nodes()) {
                drop(v);
                let (observer, watched) = dev.observed(files.place());
                let v = case.mount(watched)?;
                files.report_to(observer.clone());
                return Ok(Self {
                    rng: Rng::new(!case.seed),
                    case,
                    dev,
                    observer,
                    v,
                    files,
                    written: 0,
                    steps: 0,
                    totals: Totals::default(),
                });
            }
        }
        Err("no reserve guards the volume".into())
    }

    fn lay_out(&mut self) -> Result<(), String> {
        self.files.lay_out(&self.v, self.case.dirty_pages, &mut self.rng)?;
        self.sync()?;
        let nodes = reported(&self.v, "valid_node_count");
        if self.v.guarded().covers(nodes) {
            return Ok(());
        }
        Err(format!("the case has {nodes} nodes, {:?}", self.v.guarded()))
    }

    fn overwrite(&mut self) -> Result<(), String> {
        let blocks = u64::from(self.case.geometry.sections * self.case.geometry.segments_per_section * 512);
        let wanted = TIMES * blocks;
        let mut cuts: Vec<u64> = (0..self.case.cuts).map(|_| self.rng.below(wanted)).collect();
        cuts.sort_unstable();
        let mut cuts = cuts.into_iter().peekable();
        let before = self.dev.zoned.counts().blocks_written;
        while self.written < wanted && self.dev.zoned.counts().blocks_written - before < MOST_WRITES {
            if cuts.next_if(|&at| at <= self.written).is_some() {
                self.dev.zoned.cut_after(self.rng.below(CUT_WITHIN));
            }
            match self.step() {
                Err(_) if self.dev.zoned.is_cut() => self.recover()?,
                done => done?,
            }
        }
        Ok(())
    }

    /// One write, or a file's replacement.
    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        let placed = if self.case.pattern == Pattern::Refill {
            self.files.replace(&self.v, &mut self.rng)?
        } else {
            let page = self.choose();
            self.files.write(&self.v, page)?;
            1
        };
        self.written += placed;
        self.files.write_back(&self.v, self.case.dirty_pages)?;
        if self.case.pattern == Pattern::Synced && self.steps.is_multiple_of(self.case.fsync_every) {
            self.files.fsync(&self.v)?;
        } else if self.rng.one_in(SYNC_EVERY) {
            self.sync()?;
        }
        self.check_room()
    }

    fn check_room(&self) -> Result<(), String> {
        checkpoint_fits(&Probe(&self.v).space_figures(), self.observer.due())
    }

    fn choose(&mut self) -> u32 {
        let pages = self.files.pages().max(1);
        let page = match self.case.pattern {
            Pattern::Strided => {
                let per_section = u64::from(self.case.geometry.segments_per_section) * 512;
                self.steps * per_section + self.rng.scaled(per_section)
            }
            Pattern::Sequential => self.steps,
            Pattern::NewestFirst if (self.steps / pages).is_multiple_of(2) => pages - 1 - self.steps % pages,
            Pattern::NewestFirst => self.steps,
            Pattern::Uniform | Pattern::Synced | Pattern::Refill => self.rng.scaled(pages),
        };
        (page % pages) as u32
    }

    fn sync(&mut self) -> Result<(), String> {
        self.v.sync().map_err(|e| format!("sync: {e}"))?;
        self.files.synced();
        Ok(())
    }

    /// Mounts what the cut left, and reads everything.
    fn recover(&mut self) -> Result<(), String> {
        self.count();
        self.totals.cuts += 1;
        let rng = &mut self.rng;
        self.dev.zoned = Arc::new(self.dev.zoned.after_cut(|written| rng.below(written + 1)));
        let (observer, watched) = self.dev.observed(self.files.place());
        self.observer = observer;
        self.files.report_to(self.observer.clone());
        self.v = self.case.mount(watched)?;
        self.check_room()?;
        self.files.judge(&self.v, true)
    }

    fn finish(mut self) -> Result<Totals, String> {
        self.dev.zoned.cut_after(u64::MAX);
        self.sync()?;
        self.count();
        self.files.judge(&self.v, false)?;
        for _ in 0..2 {
            self.v.unmount().map_err(|e| format!("unmount: {e}"))?;
            judge(&self.dev.zoned)?;
            self.v = self.case.mount(self.dev.zoned.clone())?;
            self.files.judge(&self.v, false)?;
        }
        Ok(self.totals)
    }

    /// Adds what this mount did.
    fn count(&mut self) {
        self.totals.writes = self.written;
        self.totals.moved += reported(&self.v, "gc_data_blocks") + reported(&self.v, "gc_node_blocks");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(seed: u64) -> Totals {
        let case = Case::draw(seed);
        run(&case).unwrap_or_else(|e| panic!("{case:?}: {e}"))
    }

    /// Seed 88: recovery continued the node log in the second segment of a section, whose first one kept the type of data.
    #[test]
    fn random_guarded_volumes_never_run_out_of_space() {
        for seed in [1, 3, 7, 8, 10, 88] {
            let totals = passes(seed);
            assert!(totals.writes > 1000 && totals.cuts > 0, "{seed}: {totals:?}");
        }
    }

    /// These volumes are conventional, and as full as their reserve guards. When further sections were kept
    /// for recovery, cleaning emptied full sections: 700 moves for each write.
    #[test]
    fn a_volume_as_full_as_its_reserve_guards_keeps_nothing_for_recovery() {
        for seed in [0, 2, 6] {
            let totals = passes(seed);
            assert!(totals.moved < 8 * totals.writes, "{seed}: {totals:?}");
        }
    }
}
