//! The least amplification known: blocks that become invalid at about the same time share a section.
//!
//! One run records in which order pages are written back and deleted; a pass backwards gives each block the time of its death. It
//! is near the optimum, no proof of it.
use crate::log::LogKind;
use crate::placement::{Placement, TRIM};
use crate::run::{Outcome, Setting, finish, model_of};

/// Numbers of groups that are tried.
const GROUPS: std::ops::RangeInclusive<u8> = 4..=12;
const POLICIES: [&str; 2] = ["greedy", "benefit"];
/// A time after the end.
const NEVER: u32 = u32::MAX;

/// The best run, and how it was achieved.
#[derive(Clone, Debug)]
pub struct Best {
    pub outcome: Outcome,
    pub groups: u8,
    pub policy: &'static str,
}

/// When each block dies, in recorded writes.
#[derive(Clone, Debug)]
pub struct Future {
    /// By recorded write: that of the same page's next write or deletion.
    next: Vec<u32>,
    /// By page: when its block on the device dies.
    death: Vec<u32>,
    now: u32,
    groups: u8,
    per_sec: u32,
}

impl Future {
    fn of(record: &[u32], pages: usize, groups: u8, per_sec: u32) -> Self {
        let mut next = vec![NEVER; record.len()];
        let mut later = vec![NEVER; pages];
        for (at, &entry) in record.iter().enumerate().rev() {
            next[at] = std::mem::replace(&mut later[(entry & !TRIM) as usize], at as u32);
        }
        Self { next, death: vec![NEVER; pages], now: 0, groups, per_sec }
    }

    /// The log for a page that is written back.
    pub fn written(&mut self, page: u32) -> LogKind {
        self.death[page as usize] = self.next.get(self.now as usize).copied().unwrap_or(NEVER);
        self.now += 1;
        self.moved(page)
    }
    /// The log for a block that is moved.
    pub fn moved(&self, page: u32) -> LogKind {
        let left = self.death[page as usize].saturating_sub(self.now);
        let doublings = left.div_ceil(self.per_sec).next_power_of_two().trailing_zeros();
        LogKind::group(doublings.min(u32::from(self.groups) - 1) as u8)
    }
    pub fn trimmed(&mut self) {
        self.now += 1;
    }
}

/// The least amplification over numbers of groups and policies; those without enough sections are left out.
pub fn best(setting: &Setting) -> Result<Best, String> {
    let recorded = Setting { policy: "greedy".into(), lifetime: false, ..setting.clone() };
    let mut model = model_of(&recorded)?;
    model.placement = Placement::Recorded(Vec::new());
    let (_, model) = finish(model, &recorded, |_, _| {})?;
    let Placement::Recorded(record) = &model.placement else { return Err("nothing was recorded".into()) };
    let mut best: Option<Best> = None;
    for (groups, policy) in GROUPS.flat_map(|g| POLICIES.map(|p| (g, p))) {
        let setting = Setting { policy: policy.into(), ..recorded.clone() };
        let mut model = model_of(&setting)?;
        let per_sec = setting.experiment.blocks_per_zone;
        model.placement = Placement::Oracle(Future::of(record, model.place.len(), groups, per_sec));
        if !model.space.open_groups(groups) {
            continue;
        }
        let Ok((outcome, _)) = finish(model, &setting, |_, _| {}) else { continue };
        if best.as_ref().is_none_or(|b| outcome.waf() < b.outcome.waf()) {
            best = Some(Best { outcome, groups, policy });
        }
    }
    best.ok_or_else(|| "no number of groups has enough sections".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_grouped_by_the_time_that_is_left() {
        // Page 0 is written at 0, 3 and 9, page 1 at 1 and deleted at 2.
        let record = [0, 1, 1 | TRIM, 0, 2, 3, 4, 5, 6, 0];
        let mut f = Future::of(&record, 7, 4, 2);
        assert_eq!(f.next, [3, 2, NEVER, 9, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER]);
        let group = LogKind::group;
        assert_eq!(f.written(0), group(0), "two writes left of a section of two");
        assert_eq!(f.written(1), group(0));
        f.trimmed();
        assert_eq!(f.written(0), group(2), "five left, up to four sections");
        assert_eq!(f.written(2), group(3), "never");
        (3..6).for_each(|page| _ = f.written(page));
        assert_eq!(f.moved(0), group(0), "at 7");
    }
}
