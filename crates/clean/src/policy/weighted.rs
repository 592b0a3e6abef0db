//! A node section costs one section more until space is nearly out: version 6 of the LKML series "New victim
//! selection for GC".
use super::greedy::cheapest;
use super::{Situation, Victim, VictimPolicy};
use crate::{Class, Index};

#[derive(Clone, Copy, Debug, Default)]
pub struct Weighted {
    require_node_gc: bool,
}

impl VictimPolicy for Weighted {
    fn pick(&mut self, index: &Index, situation: &Situation) -> Option<Victim> {
        let more = if self.require_node_gc { 0 } else { u64::from(index.per_sec()) };
        let cost = |class, valid: u32| u64::from(valid) + if class == Class::Node { more } else { 0 };
        cheapest(index, cost)
            .filter(|v| !(self.require_node_gc && v.class == Class::Data && situation.enough_with_freed))
    }
    fn nearly_out(&mut self) {
        self.require_node_gc = true;
    }
    fn round_ended(&mut self) {
        self.require_node_gc = false;
    }
}
