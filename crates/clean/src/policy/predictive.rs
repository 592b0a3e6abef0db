//! The section that costs the fewest block writes per block gained, counting what cleaning it makes others write.
//!
//! A moved data block makes its node dirty, so a data section also costs a write for each node it will make dirty. A node
//! section empties by itself while nodes are rewritten, so taking it early copies blocks that were about to die: it counts
//! as that much fuller.
use super::{Facts, Situation, Victim, VictimPolicy, victim};
use crate::{Class, Index};

/// Of each class this many of the emptiest sections are weighed.
const LOOK_AT: usize = 32;
/// A block of a node section counts as at most so many: the sooner nodes are rewritten, the less a copy is worth.
const NODE_FACTOR: u64 = 2;
/// But sections that are left to empty by themselves may hold no more than this part of the spare space, which is
/// missing for data. Where nodes are many, they count like data.
const SPARE_PART: u64 = 8;

#[derive(Clone, Copy, Debug, Default)]
pub struct Predictive;

impl VictimPolicy for Predictive {
    fn pick(&mut self, index: &Index, situation: &Situation) -> Option<Victim> {
        let full = u64::from(index.per_sec());
        let clean = u64::from(65_536 - situation.facts.dirty_nodes.min(65_536));
        let data = index.by_fill(Class::Data).take(LOOK_AT).map(|(sec, valid)| {
            let valid = u64::from(valid);
            let nodes = (distinct(index.owners(sec), valid) * clean) >> 16;
            (per_block(valid + nodes, full - valid.min(full)), sec, Class::Data)
        });
        let node = index.by_fill(Class::Node).take(1).map(|(sec, valid)| {
            let counted = as_data(valid.into(), &situation.facts).min(full);
            (per_block(counted, full - counted), sec, Class::Node)
        });
        let (_, sec, class) = data.chain(node).min_by_key(|&(cost, ..)| cost)?;
        Some(victim(sec, class))
    }
}

/// Valid node blocks as data blocks: up to `NODE_FACTOR` times as many.
fn as_data(valid: u64, facts: &Facts) -> u64 {
    let most = valid * (NODE_FACTOR - 1);
    let more = (valid * (facts.spare / SPARE_PART)).checked_div(facts.nodes).unwrap_or(most);
    valid + more.min(most)
}

/// Cost per block gained; a section without gain costs more than any other.
fn per_block(writes: u64, gained: u64) -> u64 {
    (writes << 16).checked_div(gained).unwrap_or(u64::MAX)
}

/// Nodes that so many blocks still hit, of those that the whole section hit: `q (1 - (1 - 1/q)^v)`.
fn distinct(owners: u32, valid: u64) -> u64 {
    match owners {
        0 => 0,
        1 => 1,
        q => {
            let q = f64::from(q);
            (q * (1.0 - (1.0 - 1.0 / q).powf(valid as f64))) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_nodes_are_better_than_many() {
        let mut i = Index::new(4, 2048);
        i.put(0, Class::Data, 1800, 0);
        i.put(1, Class::Data, 1810, 0);
        i.set_owners(0, 1700);
        i.set_owners(1, 20);
        let pick = |i: &Index, nodes| {
            let facts = Facts { nodes, spare: 64_000, ..Facts::default() };
            Predictive.pick(i, &Situation { facts, ..Situation::default() }).map(|v| v.sec)
        };
        assert_eq!(pick(&i, 8_000), Some(1));
        i.put(2, Class::Node, 950, 0);
        assert_eq!(pick(&i, 8_000), Some(1), "it goes on emptying by itself");
        assert_eq!(pick(&i, 800_000), Some(2), "but what it holds is too much of the spare space");
        i.put(2, Class::Node, 850, 0);
        assert_eq!(pick(&i, 8_000), Some(2));
    }

    #[test]
    fn blocks_that_share_nodes_are_counted_once() {
        assert_eq!((distinct(0, 9), distinct(1, 9), distinct(100, 1)), (0, 1, 1));
        assert!((60..=64).contains(&distinct(100, 100)), "{}", distinct(100, 100));
    }
}
