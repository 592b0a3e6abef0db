//! The section with the fewest valid blocks.
use super::{Factors, Situation, Victim, VictimPolicy, victim};
use crate::{Class, Index, TieBreak};

#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy {
    pub factors: Factors,
}

impl VictimPolicy for Greedy {
    fn pick(&mut self, index: &Index, _: &Situation) -> Option<Victim> {
        cheapest(index, |class, valid| u64::from(valid).saturating_mul(self.factors.of(class)))
    }
}

/// The class whose emptiest section costs less, by a cost that grows with the valid blocks. Of equal costs
/// the lower section number is taken if that is the rule, else data.
pub(super) fn cheapest(index: &Index, cost: impl Fn(Class, u32) -> u64) -> Option<Victim> {
    let best = |class| index.emptiest(class).map(|(sec, valid)| (cost(class, valid), sec, class));
    let found = match (best(Class::Data), best(Class::Node)) {
        (Some(d), Some(n)) => {
            let node = n.0 < d.0 || (n.0 == d.0 && index.tie == TieBreak::Lowest && n.1 < d.1);
            if node { n } else { d }
        }
        (d, n) => d.or(n)?,
    };
    Some(victim(found.1, found.2))
}
