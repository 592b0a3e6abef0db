//! Cases and sizes.
use super::case::{Case, Outcome, State};
use super::target::{MODEL, Target};
use super::work::{MIB, Work};
use crate::place::Place;
use anyhow::Result;
use serde::Serialize;

pub const WRITERS: u64 = 12;
/// Contexts compared with one.
pub const MANY: u32 = 8;
/// More contexts than any device here benefits from.
pub const MOST: u32 = 64;

/// Sizes in MiB for each writer, and of volumes in bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scale {
    pub real_mib: u64,
    pub real_random_mib: u64,
    pub real_volume: u64,
    pub memory_mib: u64,
    /// Size of files for measuring extents.
    pub large_mib: u64,
    pub model_mib: u64,
    pub aged_volume: u64,
    pub raw_volume: u64,
    /// Every workload in every state.
    pub full: bool,
}

impl Scale {
    pub fn of(quick: bool) -> Self {
        let full = !quick;
        Self {
            real_mib: if full { 128 } else { 16 },
            real_random_mib: if full { 32 } else { 6 },
            real_volume: if full { 8 << 30 } else { 2 << 30 },
            memory_mib: if full { 128 } else { 32 },
            large_mib: if full { 1024 } else { 272 },
            model_mib: if full { 8 } else { 2 },
            aged_volume: if full { 4 << 30 } else { 1 << 30 },
            raw_volume: 1 << 30,
            full,
        }
    }
}

/// Cases that alternate on one target.
pub struct Group<'a> {
    pub target: Target<'a>,
    pub cases: Vec<Case>,
    /// Share of the time.
    pub share: f64,
    /// Size and parallelism of the raw writes for comparison.
    pub raw_blocks: usize,
    pub raw_threads: u64,
}

impl Group<'_> {
    /// Raw writes of as many bytes as a case writes.
    pub fn raw(&self, volume: u64) -> Result<Outcome> {
        let bytes = self.cases.first().map_or(MIB, |c| c.writers * c.bytes);
        self.target.raw(volume.max(bytes), bytes, self.raw_blocks, self.raw_threads)
    }
}

/// Contexts and exclusive streams.
const FOUR: [(u32, bool); 4] = [(1, false), (1, true), (MANY, false), (MANY, true)];
const TWO: [(u32, bool); 2] = [(1, true), (MANY, true)];

fn cases(base: &Case, arms: &[(u32, bool)]) -> Vec<Case> {
    arms.iter().map(|&(contexts, exclusive)| Case { contexts, exclusive, ..base.clone() }).collect()
}

pub fn groups<'a>(s: &Scale, place: &'a Place) -> Vec<Group<'a>> {
    let base = Case {
        work: Work::Sequential,
        state: State::Fresh,
        writers: WRITERS,
        bytes: s.real_mib * MIB,
        volume: s.real_volume,
        contexts: 1,
        exclusive: true,
        split: false,
        cache: 256 << 20,
    };
    let group = |target, cases, share, raw_blocks, raw_threads| Group {
        target,
        cases,
        share,
        raw_blocks,
        raw_threads,
    };
    let real = || Target::Real(place);
    let random = Case { work: Work::Random, bytes: s.real_random_mib * MIB, cache: 32 << 20, ..base.clone() };
    let memory = Case { bytes: s.memory_mib * MIB, volume: 32 << 30, ..base.clone() };
    let large = Case {
        bytes: s.large_mib * MIB,
        volume: (s.large_mib * MIB * WRITERS * 3).max(32 << 30),
        ..base.clone()
    };
    let model = Case { bytes: s.model_mib * MIB, volume: 4 << 30, cache: 8 << 20, ..random.clone() };
    let aged = Case {
        state: State::Aged,
        volume: s.aged_volume,
        bytes: s.aged_volume / 160 / MIB * MIB,
        ..base.clone()
    };
    let small = Case { work: Work::Small, bytes: 2 * MIB, volume: 4 << 30, ..base.clone() };
    let mut knee = cases(&model, &[1, 2, 4, 8, 16, 32, MOST].map(|n| (n, true)));
    knee.push(Case { split: true, ..model.clone() });
    let mut sequential = cases(&base, &FOUR);
    sequential.push(Case { work: Work::Change, contexts: MANY, ..base.clone() });
    let mut on_real = cases(&random, &TWO);
    on_real.push(Case { contexts: MOST, ..random.clone() });
    let mut out = vec![
        group(real(), sequential, 0.25, 256, 1),
        group(real(), on_real, 0.15, 256, 1),
        group(Target::Memory, cases(&large, &TWO), 0.2, 256, 1),
        group(Target::Memory, cases(&memory, &FOUR), 0.1, 256, 1),
        group(Target::Model, knee, 0.2, 256, MODEL.channels as u64),
        group(Target::Memory, cases(&aged, &TWO), 0.1, 256, 1),
    ];
    if s.full {
        let reused = |base: &Case| Case { state: State::Reused, ..base.clone() };
        let append = Case { work: Work::Append, writers: 8, bytes: 32 * MIB, ..memory.clone() };
        let sequential = Case { bytes: 32 * MIB, cache: 64 << 20, ..model.clone() };
        let sequential = Case { work: Work::Sequential, ..sequential };
        out.extend([
            group(real(), cases(&reused(&base), &TWO), 0.1, 256, 1),
            group(real(), cases(&small, &TWO), 0.1, 256, 1),
            group(Target::Memory, cases(&reused(&memory), &FOUR), 0.1, 256, 1),
            group(Target::Memory, cases(&append, &FOUR), 0.1, 256, 1),
            group(Target::Model, cases(&sequential, &TWO), 0.1, 256, MODEL.channels as u64),
        ]);
    }
    out
}
