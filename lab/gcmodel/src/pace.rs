//! Paced cleaning of the model: the engine's rule on block counts.
use crate::counters::{Counters, Kind};
use crate::log::LogKind;
use crate::volume::{DENT, Full, Model};
use segno_clean::batch::Committed;
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

    /// Moves a block; a dirty page is written instead of its old copy.
    fn move_out(&mut self, owner: u32) -> Result<(), Full> {
        if owner & DENT != 0 {
            return self.move_dent(owner & !DENT);
        }
        if self.dirty.remove(owner) {
            self.counts.written_by_cleaning += 1;
            return self.write_user(owner);
        }
        self.move_data(owner)
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
            granted: self.uncounted,
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
    fn list(&mut self, victims: &[Victim]) -> Result<(), Full> {
        let mut list: Vec<(u32, u32)> = Vec::new();
        for v in victims {
            let (mut at, end) = (v.sec * self.space.per_sec, (v.sec + 1) * self.space.per_sec);
            while let Some(addr) = self.next_valid(at, end) {
                list.push((self.owner[addr as usize], addr));
                at = addr + 1;
            }
        }
        list.sort_unstable();
        let mut last = None;
        self.moving = list
            .into_iter()
            .map(|(owner, addr)| {
                let node = if owner & DENT != 0 { self.small_files() } else { self.node_of(owner) };
                (addr, last.replace(node) != Some(node))
            })
            .collect();
        self.moving_nodes = self.moving.iter().filter(|(_, is_first)| *is_first).count() as u64;
        Ok(())
    }
    fn nodes_listed(&self) -> u64 {
        self.moving_nodes
    }
    fn copy(&mut self, most: u64) -> Result<u64, Full> {
        let mut moved = 0;
        while moved < most {
            let Some((addr, is_first)) = self.moving.pop_front() else { break };
            // Written with a branch: rustc 1.95 may lose the addition of a comparison's result.
            if is_first {
                self.moving_nodes -= 1;
            }
            if self.space.is_valid(addr) {
                self.move_out(self.owner[addr as usize])?;
                moved += 1;
            }
        }
        Ok(moved)
    }
    fn dirty_nodes(&mut self, section: u32) -> Result<bool, Full> {
        debug_assert!(self.space.per_sec.is_multiple_of(BLOCKS_PER_SEG));
        let nodes = self.valid_owners(section);
        self.move_nodes(&nodes)?;
        Ok(true)
    }
    fn checkpoint(&mut self, goes_on: bool) -> Result<Committed, Full> {
        let nodes = |c: &Counters| c.of(Kind::Nodes) + c.of(Kind::MovedNodes);
        let before = (self.counts.total(), nodes(&self.counts));
        self.write_checkpoint()?;
        let (kept, done): (Vec<u32>, Vec<u32>) = std::mem::take(&mut self.aside)
            .into_iter()
            .partition(|&sec| goes_on && self.space.sec_valid[sec as usize] > 0);
        self.aside = kept;
        done.into_iter().for_each(|sec| self.space.set_aside(sec, false));
        let nodes = nodes(&self.counts) - before.1;
        Ok(Committed { nodes, metadata: self.counts.total() - before.0 - nodes })
    }
}

#[cfg(test)]
mod tests {
    use crate::experiment::Experiment;
    use crate::rounds::Loop;
    use crate::volume::Model;
    use segno_clean::pace::Pacer;
    use segno_testkit::Rng;

    /// Moves of each call, if `placed` blocks are placed between two calls on a volume that is not full.
    fn moves_of_calls(placed: u64) -> Vec<u64> {
        let e = Experiment { zones: 32, file_blocks: Some(40_000), ..Experiment::named("E1").unwrap() };
        moves_on(e, placed, 1)
    }

    /// Moves of each call in the last of some rounds over all pages.
    fn moves_on(e: Experiment, placed: u64, rounds: u64) -> Vec<u64> {
        let mut model = Model::new(e, "predictive", Loop::Paced).unwrap();
        let (mut pacer, mut rng) = (Pacer::default(), Rng::new(1));
        let pages = model.place.len() as u64;
        (0..pages as u32).for_each(|page| model.write_user(page).unwrap());
        model.write_checkpoint().unwrap();
        let mut call = || {
            (0..placed).for_each(|_| model.write_user(rng.scaled(pages) as u32).unwrap());
            let before = model.counts.moved();
            pacer.pace(&mut model, placed).unwrap();
            model.counts.moved() - before
        };
        let calls = pages / placed;
        (0..rounds * calls).for_each(|_| assert!(call() <= 512 * placed));
        (0..calls).map(|_| call()).collect()
    }

    /// A call for many blocks moves in many steps what as many calls for one block move, not a whole section now and then.
    #[test]
    fn moves_are_in_proportion_to_the_blocks_placed() {
        let one = moves_of_calls(1);
        assert!(one.iter().all(|&moves| moves <= 512), "{:?}", one.iter().max());
        let of_a_block = one.iter().sum::<u64>() as f64 / one.len() as f64;
        for placed in [128, 512] {
            let moves = moves_of_calls(placed);
            let due = of_a_block * placed as f64;
            let mean = moves.iter().sum::<u64>() as f64 / moves.len() as f64;
            let most = moves.iter().copied().max().unwrap() as f64;
            assert!((mean / due - 1.0).abs() < 0.1, "{placed}: {mean} moves a call, not {due}");
            assert!(most < 4.0 * due, "{placed}: {most} moves in a call, {due} due");
        }
    }

    /// Sections are nearly full of valid blocks, so a write that places some tens of blocks pays for many moves.
    #[test]
    fn no_call_moves_more_than_a_section() {
        let e = Experiment {
            zones: 512,
            file_blocks: Some(512 * 512 * 95 / 100),
            blocks_per_zone: 512,
            ..Experiment::named("E7").unwrap()
        };
        let most = moves_on(e, 16, 3).into_iter().max().unwrap();
        assert!(most <= 512, "{most} moves");
    }
}
