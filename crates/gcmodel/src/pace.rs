//! Paced cleaning of the model: the engine's rule on block counts.
use crate::counters::Kind;
use crate::log::LogKind;
use crate::volume::{DENT, Full, Model};
use segno_clean::need::Figures;
use segno_clean::pace::Host;
use segno_clean::policy::{Situation, Victim};
use segno_clean::{BLOCKS_PER_SEG, Class};

impl Model {
    fn keep_out(&mut self, victim: Victim) -> Victim {
        self.aside.push(victim.sec);
        self.space.set_aside(victim.sec, true);
        self.counts.sections[victim.class as usize] += 1;
        self.count_segments(&victim);
        victim
    }

    /// The first valid block of a section from `from` on.
    fn next_valid(&self, from: u32, end: u32) -> Option<u32> {
        let mut at = from;
        while at < end {
            let bits = self.space.valid[at as usize / 64] >> (at % 64);
            if bits != 0 {
                return Some(at + bits.trailing_zeros()).filter(|&found| found < end);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

impl Host for Model {
    type Error = Full;

    fn figures(&self) -> Figures {
        let left = |k: LogKind| u64::from(self.space.per_sec - self.space.logs[k.slot()].next);
        let blocks = u64::from(self.e.zones) * u64::from(self.e.blocks_per_zone);
        let dents = self.dirty_dents.len;
        let figures = Figures {
            per_section: self.e.blocks_per_zone.into(),
            free_sections: self.space.free_sections(),
            pending_sections: self.space.prefree_sections(),
            unused: blocks.saturating_sub(self.space.valid_total),
            data_left: [left(LogKind::HotData), left(LogKind::WarmData), left(LogKind::ColdData)],
            node_left: [left(LogKind::HotNode), left(LogKind::WarmNode), left(LogKind::ColdNode)],
            nodes: self.node_place.len() as u64,
            // Each write changes the file's times, so its inode is always dirty.
            dirty_nodes: self.dirty_nodes.len + dents + 1,
            dents,
            logged: self.logged,
            granted: 0,
            ..Figures::default()
        };
        figures.with_victims(&self.space.index)
    }
    fn choose(&mut self) -> Option<Victim> {
        let situation = Situation { facts: crate::rounds::Host::facts(self), ..Situation::default() };
        let victim = self.policy.pick(&self.space.index, &situation)?;
        Some(self.keep_out(victim))
    }
    fn choose_emptiest(&mut self, class: Class) -> Option<Victim> {
        let (sec, _) = self.space.index.emptiest(class)?;
        Some(self.keep_out(Victim { sec, class }))
    }
    fn release(&mut self, victim: Victim) {
        self.aside.retain(|&sec| sec != victim.sec);
        self.space.set_aside(victim.sec, false);
        self.counts.sections[victim.class as usize] -= 1;
    }
    fn valid(&self, section: u32) -> u64 {
        self.space.sec_valid[section as usize].into()
    }
    fn copy(&mut self, section: u32, most: u64) -> Result<u64, Full> {
        let (mut at, end) = (section * self.space.per_sec, (section + 1) * self.space.per_sec);
        let mut moved = 0;
        while let Some(addr) = self.next_valid(at, end).filter(|_| moved < most) {
            let owner = self.owner[addr as usize];
            if owner & DENT != 0 {
                self.move_dent(owner & !DENT)?;
            } else {
                self.move_data(owner)?;
            }
            (moved, at) = (moved + 1, addr + 1);
        }
        Ok(moved)
    }
    fn dirty_nodes(&mut self, section: u32) -> Result<(), Full> {
        debug_assert!(self.space.per_sec.is_multiple_of(BLOCKS_PER_SEG));
        let nodes = self.valid_owners(section);
        self.move_nodes(&nodes)
    }
    fn checkpoint(&mut self) -> Result<u64, Full> {
        let before = self.counts.of(Kind::Nodes) + self.counts.of(Kind::MovedNodes);
        self.write_checkpoint()?;
        for sec in std::mem::take(&mut self.aside) {
            self.space.set_aside(sec, false);
        }
        Ok(self.counts.of(Kind::Nodes) + self.counts.of(Kind::MovedNodes) - before)
    }
}
