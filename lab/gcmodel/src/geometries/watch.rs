//! The model as the host of cleaning, checked before and after every step.
use super::planted_bug::PlantedBug;
use crate::log::LogKind;
use crate::volume::{Full, Model};
use segno_clean::Class;
use segno_clean::batch::Committed;
use segno_clean::need::{self, Figures};
use segno_clean::pace::Host;
use segno_clean::policy::Victim;

const CHECKPOINT: &str = "checkpoint";

/// A model whose space is checked.
pub struct Watched<'a> {
    pub model: &'a mut Model,
    pub bug: Option<PlantedBug>,
}

impl Watched<'_> {
    /// Checks that a checkpoint fits after `blocks` more blocks of data, also after a crash, whichever log
    /// they go to.
    pub fn checkpoint_fits(&self, blocks: u64, when: &str) -> Result<(), String> {
        let m = &self.model;
        let all = m.node_place.len() as u64;
        let dirty = m.dirty_nodes.len;
        let nodes = m.logged.min(all) + (dirty + blocks.min(all - dirty));
        let room: u64 = [LogKind::HotData, LogKind::WarmData, LogKind::ColdData]
            .iter()
            .map(|&log| u64::from(m.space.room_in(log)))
            .sum();
        let data = (m.dirty_dents.len + blocks).saturating_sub(room).div_ceil(m.space.per_sec.into());
        let opened = data + self.opens(&[LogKind::WarmNode], nodes);
        if opened <= m.space.free_sections() {
            return Ok(());
        }
        Err(format!(
            "{when}: {blocks} blocks and the checkpoint behind them open {opened} sections; {:?}",
            self.figures()
        ))
    }

    /// The largest number of sections that logs open for `blocks` blocks, whichever log each goes to.
    fn opens(&self, logs: &[LogKind], blocks: u64) -> u64 {
        let per_section = u64::from(self.model.space.per_sec);
        let left = |log: &LogKind| per_section - u64::from(self.model.space.logs[log.slot()].next);
        let opened_by = |some: u32| {
            let some = logs.iter().enumerate().filter(|(i, _)| some >> i & 1 == 1);
            let (opened, filled) = some.fold((0, 0), |(n, filled), (_, log)| (n + 1, filled + left(log) + 1));
            blocks.checked_sub(filled).map_or(0, |more| opened + more / per_section)
        };
        (1..1u32 << logs.len()).map(opened_by).max().unwrap_or(0)
    }

    /// One step of cleaning between two checks.
    fn step<T>(&mut self, what: &str, step: impl FnOnce(&mut Model) -> Result<T, Full>) -> Result<T, String> {
        self.checkpoint_fits(0, &format!("before {what}"))?;
        let resets = self.model.space.resets;
        let done =
            step(self.model).map_err(|Full| format!("no section left in {what}; {:?}", self.figures()))?;
        self.checkpoint_fits(0, &format!("after {what}"))?;
        if self.model.space.resets != resets && what != CHECKPOINT {
            return Err(format!("a section was free after {what}, before the checkpoint"));
        }
        Ok(done)
    }

    /// Blocks that writeback places at a time when space is short.
    pub fn quantum(&self) -> u64 {
        need::quantum(self.model.space.per_sec.into())
    }
}

impl Host for Watched<'_> {
    type Error = String;

    fn figures(&self) -> Figures {
        let figures = self.model.figures();
        self.bug.map_or(figures, |bug| bug.figures(figures, self.model))
    }
    fn choose(&mut self) -> Option<Victim> {
        if self.bug == Some(PlantedBug::Goal) { None } else { self.model.choose() }
    }
    fn choose_emptiest(&mut self, class: Class) -> Option<Victim> {
        self.model.choose_emptiest(class)
    }
    fn release(&mut self, victim: Victim) {
        self.model.release(victim);
    }
    fn valid(&self, section: u32) -> u64 {
        let valid = self.model.valid(section);
        if self.bug == Some(PlantedBug::Batch) { valid.div_ceil(8) } else { valid }
    }
    fn list(&mut self, victims: &[Victim]) -> Result<(), String> {
        self.step("listing", |m| m.list(victims))
    }
    fn nodes_listed(&self) -> u64 {
        self.model.nodes_listed()
    }
    fn copy(&mut self, most: u64) -> Result<u64, String> {
        let early = self.bug == Some(PlantedBug::Release);
        self.step("copying", |m| {
            let moved = m.copy(most)?;
            if early {
                m.space.committed();
            }
            Ok(moved)
        })
    }
    fn dirty_nodes(&mut self, section: u32) -> Result<bool, String> {
        self.step("moving nodes", |m| m.dirty_nodes(section))
    }
    fn checkpoint(&mut self, goes_on: bool) -> Result<Committed, String> {
        self.step(CHECKPOINT, |m| Host::checkpoint(m, goes_on))
    }
}
