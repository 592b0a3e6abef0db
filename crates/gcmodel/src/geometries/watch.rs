//! The model as cleaning sees it, checked before and after every step.
use crate::log::LogKind;
use crate::volume::{Full, Model};
use segno_clean::Class;
use segno_clean::batch::Committed;
use segno_clean::need::{self, Figures};
use segno_clean::pace::Host;
use segno_clean::policy::Victim;

/// A model whose space is checked.
pub struct Watched<'a>(pub &'a mut Model);

impl Watched<'_> {
    /// Checks that a checkpoint fits behind `blocks` more of data, after a crash too, whichever log they go to.
    pub fn checkpoint_fits(&self, blocks: u64, when: &str) -> Result<(), String> {
        let m = &self.0;
        let all = m.node_place.len() as u64;
        let dirty = m.dirty_nodes.len;
        let nodes = m.logged.min(all) + (dirty + blocks.min(all - dirty));
        let opened = [LogKind::HotData, LogKind::WarmData, LogKind::ColdData]
            .into_iter()
            .map(|log| {
                let hot = m.dirty_dents.len + if log == LogKind::HotData { blocks } else { 0 };
                let other = if log == LogKind::HotData { 0 } else { self.opens(log, blocks) };
                self.opens(LogKind::HotData, hot) + other + self.opens(LogKind::WarmNode, nodes)
            })
            .max()
            .unwrap_or(0);
        if opened <= m.space.free_sections() {
            return Ok(());
        }
        Err(format!(
            "{when}: {blocks} blocks and the checkpoint behind them open {opened} sections; {:?}",
            self.figures()
        ))
    }

    /// Sections that a log opens for so many blocks.
    fn opens(&self, log: LogKind, blocks: u64) -> u64 {
        let per_section = u64::from(self.0.space.per_sec);
        let left = per_section - u64::from(self.0.space.logs[log.slot()].next);
        blocks.saturating_sub(left).div_ceil(per_section)
    }

    /// One step of cleaning between two checks.
    fn step<T>(&mut self, what: &str, step: impl FnOnce(&mut Model) -> Result<T, Full>) -> Result<T, String> {
        self.checkpoint_fits(0, &format!("before {what}"))?;
        let done = step(self.0).map_err(|Full| format!("no section left in {what}; {:?}", self.figures()))?;
        self.checkpoint_fits(0, &format!("after {what}"))?;
        Ok(done)
    }

    /// Blocks that writeback places at a time when space is short.
    pub fn quantum(&self) -> u64 {
        need::quantum(self.0.space.per_sec.into())
    }
}

impl Host for Watched<'_> {
    type Error = String;

    fn figures(&self) -> Figures {
        self.0.figures()
    }
    fn choose(&mut self) -> Option<Victim> {
        self.0.choose()
    }
    fn choose_emptiest(&mut self, class: Class) -> Option<Victim> {
        self.0.choose_emptiest(class)
    }
    fn release(&mut self, victim: Victim) {
        self.0.release(victim);
    }
    fn valid(&self, section: u32) -> u64 {
        self.0.valid(section)
    }
    fn list(&mut self, victims: &[Victim]) -> Result<(), String> {
        self.step("listing", |m| m.list(victims))
    }
    fn copy(&mut self, most: u64) -> Result<u64, String> {
        self.step("copying", |m| m.copy(most))
    }
    fn dirty_nodes(&mut self, section: u32) -> Result<(), String> {
        self.step("moving nodes", |m| m.dirty_nodes(section))
    }
    fn checkpoint(&mut self) -> Result<Committed, String> {
        self.step("checkpoint", Host::checkpoint)
    }
}
