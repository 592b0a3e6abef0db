//! Data sections first, node sections only when space is nearly out: version 1 of the LKML series "New victim
//! selection for GC".
use super::{Situation, Victim, VictimPolicy, victim};
use crate::{Class, Index};

#[derive(Clone, Copy, Debug, Default)]
pub struct PreferData {
    need_node_clean: bool,
}

impl VictimPolicy for PreferData {
    fn pick(&mut self, index: &Index, situation: &Situation) -> Option<Victim> {
        let (data, node) = (index.emptiest(Class::Data), index.emptiest(Class::Node));
        if self.need_node_clean {
            let worth = |best: Option<(u32, u32)>| best.map_or(u32::MAX, |(_, valid)| valid);
            if worth(data) > worth(node) {
                return node.map(|(sec, _)| victim(sec, Class::Node));
            }
            if situation.enough_with_prefree {
                self.need_node_clean = false;
                return None;
            }
        }
        data.map(|(sec, _)| victim(sec, Class::Data))
    }
    fn nearly_out(&mut self) {
        self.need_node_clean = true;
    }
    fn round_ended(&mut self) {
        self.need_node_clean = false;
    }
}
