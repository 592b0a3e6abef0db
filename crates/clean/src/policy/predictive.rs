//! The section with the fewest block writes per block gained, taking into account that node blocks become
//! invalid soon.
//!
//! Node sections empty while nodes are rewritten, so cleaning one early copies blocks that were about to
//! become invalid: it counts as fuller. The nodes that a data section makes dirty are not counted: one
//! checkpoint for several sections writes them once, and weighing sections by them was measured without gain.
use super::{Facts, Situation, Victim, VictimPolicy, victim};
use crate::{Class, Index};

/// Upper bound of the weight of a node block: the sooner nodes are rewritten, the less a copy is worth.
const NODE_FACTOR: u64 = 2;
/// Node sections that are left alone take at most the spare space divided by this, which data then lacks. Where
/// nodes are many, they count like data.
const SPARE_DIVISOR: u64 = 8;

#[derive(Clone, Copy, Debug, Default)]
pub struct Predictive;

impl VictimPolicy for Predictive {
    fn pick(&mut self, index: &Index, situation: &Situation) -> Option<Victim> {
        cheaper_class(index, &situation.facts)
    }
}

/// The emptiest section of the class whose emptiest section costs fewer writes per block gained.
pub(super) fn cheaper_class(index: &Index, facts: &Facts) -> Option<Victim> {
    let full = u64::from(index.per_sec());
    let cost = |counted: u64| per_block(counted.min(full), full - counted.min(full));
    let data = index.emptiest(Class::Data).map(|(sec, valid)| (cost(valid.into()), sec, Class::Data));
    let node = index
        .emptiest(Class::Node)
        .map(|(sec, valid)| (cost(as_data(valid.into(), facts)), sec, Class::Node));
    let (_, sec, class) = data.into_iter().chain(node).min_by_key(|&(cost, ..)| cost)?;
    Some(victim(sec, class))
}

/// Valid node blocks expressed in data blocks: up to `NODE_FACTOR` times as many.
fn as_data(valid: u64, facts: &Facts) -> u64 {
    let most = valid * (NODE_FACTOR - 1);
    let more = (valid * (facts.spare / SPARE_DIVISOR)).checked_div(facts.nodes).unwrap_or(most);
    valid + more.min(most)
}

/// Cost per block gained; infinite without gain.
fn per_block(writes: u64, gained: u64) -> u64 {
    (writes << 16).checked_div(gained).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_wait_unless_they_hold_too_much_of_the_spare_space() {
        let mut i = Index::new(4, 2048);
        i.put(1, Class::Data, 1810, 0);
        i.put(2, Class::Node, 950, 0);
        let pick = |i: &Index, nodes| {
            let facts = Facts { nodes, spare: 64_000, ..Facts::default() };
            Predictive.pick(i, &Situation { facts, ..Situation::default() }).map(|v| v.sec)
        };
        assert_eq!(pick(&i, 8_000), Some(1), "it becomes emptier without cleaning");
        assert_eq!(pick(&i, 800_000), Some(2), "but what it holds is too much of the spare space");
        i.put(2, Class::Node, 850, 0);
        assert_eq!(pick(&i, 8_000), Some(2));
    }
}
