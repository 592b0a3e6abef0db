//! Application writes and the page cache.
use crate::source::{Op, Source};
use crate::volume::{Full, Model};

/// Dirty pages at which the layout of small files writes all back.
pub const LAYOUT_DIRTY: u64 = 1024;

/// Issues application writes and writes back dirty pages.
#[derive(Debug)]
pub struct Driver {
    source: Source,
    cursor: u32,
    /// Dirty pages at which writeback starts and stops.
    high: u64,
    low: u64,
}

impl Driver {
    pub fn new(model: &Model, seed: u64) -> Self {
        let low = model.e.dirty_limit();
        Self { source: Source::new(&model.e, seed), cursor: 0, high: low, low }
    }

    /// One application write, or a file's replacement.
    pub fn step(&mut self, model: &mut Model) -> Result<(), Full> {
        let (op, along) = self.source.step();
        self.apply(model, op)?;
        along.map_or(Ok(()), |op| self.apply(model, op))?;
        match model.e.fsync_every {
            Some(_) => Ok(()),
            None => self.write_back(model, self.high, self.low),
        }
    }

    fn apply(&mut self, model: &mut Model, op: Op) -> Result<(), Full> {
        match op {
            Op::Write(page) => write(model, page),
            Op::Create { file, blocks } => create(model, file, blocks)?,
            Op::Delete(file) => delete(model, file),
            Op::Fsync => self.fsync(model)?,
        }
        Ok(())
    }

    /// Once more than `high` pages are dirty, writes pages back in ascending cyclic order until `low` are left.
    fn write_back(&mut self, model: &mut Model, high: u64, low: u64) -> Result<(), Full> {
        if model.dirty.len <= high {
            return Ok(());
        }
        while model.dirty.len > low {
            let Some(page) = model.dirty.next(self.cursor).or_else(|| model.dirty.next(0)) else { break };
            self.cursor = page + 1;
            if page as usize + 1 >= model.place.len() {
                self.cursor = 0;
            }
            model.dirty.remove(page);
            model.write_user(page)?;
            model.balance()?;
        }
        Ok(())
    }

    fn fsync(&mut self, model: &mut Model) -> Result<(), Full> {
        self.cursor = 0;
        self.write_back(model, 0, 0)?;
        model.dirty_nodes.add(0);
        if !model.has_room_for_chain() {
            return model.write_checkpoint();
        }
        model.logged = (model.logged + model.dirty_nodes.len).min(model.node_place.len() as u64);
        model.flush_nodes()?;
        model.balance()
    }

    /// Writes the file, or all files, in order.
    pub fn lay_out(&mut self, model: &mut Model) -> Result<(), Full> {
        while let Some(op) = self.source.layout() {
            if let Op::Write(page) = op {
                model.write_user(page)?;
                model.balance()?;
            } else {
                self.apply(model, op)?;
                self.write_back(model, LAYOUT_DIRTY, 0)?;
            }
        }
        self.write_back(model, 0, 0)?;
        (0..model.node_place.len() as u32).for_each(|n| {
            model.dirty_nodes.add(n);
        });
        model.write_checkpoint()
    }
}

fn write(model: &mut Model, page: u32) {
    model.counts.app_writes += 1;
    if !model.dirty.add(page) {
        model.counts.coalesced += 1;
    }
    // The file's times change now, its addresses when the page is written back.
    model.dirty_nodes.add(model.inode_of(page));
}

fn create(model: &mut Model, file: u32, blocks: u32) -> Result<(), Full> {
    model.dirty_nodes.add(file);
    let dent = model.dent_of(file);
    model.dirty_dents.add(dent);
    let first = model.e.pages_of(file).start;
    (first..first + blocks).for_each(|page| write(model, page));
    model.balance()
}

fn delete(model: &mut Model, file: u32) {
    model.e.pages_of(file).for_each(|page| model.trim(page));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::rounds::Loop;

    /// As in Linux: the write changes the times, writeback the addresses.
    #[test]
    fn a_write_makes_the_inode_dirty_before_writeback_does() {
        let mut model = Model::new(Experiment::named("E8").unwrap(), "greedy", Loop::Paced).unwrap();
        write(&mut model, 4 * 7 + 1);
        assert!(model.dirty_nodes.has(7) && model.dirty_nodes.len == 1);
    }
}
