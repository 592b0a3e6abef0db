//! One run: layout, writes, counts by quarter, verification.
use crate::counters::Counters;
use crate::experiment::Experiment;
use crate::rounds::Loop;
use crate::volume::{Full, Model};
use crate::waits::{Costs, WriteWaits};
use crate::workload::Driver;
use segno_clean::Tie;

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub experiment: Experiment,
    pub policy: String,
    pub how: Loop,
    pub seed: u64,
    /// Whether dirty pages count towards the need; by default as in the kernel of the round.
    pub count_dirty_data: Option<bool>,
    /// Maximum number of application writes.
    pub limit: Option<u64>,
}

impl Setting {
    #[must_use]
    pub fn counts_dirty_data(&self) -> bool {
        self.count_dirty_data.unwrap_or(self.how == Loop::Current)
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub layout: Counters,
    /// Counts since the layout, at the end of each quarter.
    pub quarters: Vec<Counters>,
    pub file_blocks: u64,
    pub nodes: u64,
    pub waits: WriteWaits,
}

/// Runs and verifies; calls `progress` at each percent.
pub fn run(setting: &Setting, mut progress: impl FnMut(u64, &Counters)) -> Result<Outcome, String> {
    let mut model = Model::new(setting.experiment, &setting.policy, setting.how)?;
    model.count_data = setting.counts_dirty_data();
    if matches!(setting.how, Loop::Seed | Loop::Current) {
        model.space.index.tie = Tie::Lowest;
    }
    let mut driver = Driver::new(&model, setting.seed);
    let full = |m: &Model| format!("no section left after {} application writes", m.counts.app_writes);
    driver.lay_out(&mut model).map_err(|Full| full(&model))?;
    let layout = std::mem::take(&mut model.counts);
    model.space.resets = 0;
    let wanted = setting.experiment.wanted_writes();
    let wanted = setting.limit.map_or(wanted, |l| l.min(wanted));
    let mut quarters = Vec::new();
    let mut waits = WriteWaits::default();
    let mut percent = 0;
    while quarters.len() < 4 {
        let before = Costs::of(&model.counts);
        driver.step(&mut model).map_err(|Full| full(&model))?;
        let done = model.counts.app_writes;
        waits.record(before, Costs::of(&model.counts));
        if done * 100 / wanted > percent {
            percent = done * 100 / wanted;
            progress(percent, &model.counts);
        }
        if done >= wanted * (quarters.len() as u64 + 1) / 4 {
            quarters.push(snapshot(&model));
        }
    }
    model.verify()?;
    Ok(Outcome {
        layout,
        quarters,
        file_blocks: model.place.len() as u64,
        nodes: model.node_place.len() as u64,
        waits,
    })
}

fn snapshot(model: &Model) -> Counters {
    let mut counts = model.counts.clone();
    counts.zone_resets = model.space.resets;
    counts.zone_violations = model.space.violations;
    counts
}
