//! A file whose ranges are collapsed and inserted while another one is overwritten.
use segno_engine::lab::Probe;
use segno_engine::{FallocMode, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use segno_testkit::Rng;
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks of the file: all slots are in its inode.
const BLOCKS: u64 = 300;
/// Longest range.
const LONGEST: u64 = 8;

/// The file, and the value of each of its blocks.
pub struct Moving {
    ino: Ino,
    holds: Vec<u32>,
    next: u32,
}

impl Moving {
    pub fn new(v: &Volume, ino: Ino) -> Result<Self, String> {
        let mut moving = Self { ino, holds: vec![0; BLOCKS as usize], next: 1 };
        (0..BLOCKS).try_for_each(|at| moving.write(v, at))?;
        Ok(moving)
    }

    /// Moves ranges until `stop` is set.
    pub fn run(mut self, v: &Volume, seed: u64, stop: &AtomicBool) -> Result<Self, String> {
        let mut rng = Rng::new(!seed);
        while !stop.load(Ordering::Relaxed) {
            let len = rng.between(1, LONGEST);
            let (from, to) = (rng.below(BLOCKS - LONGEST), rng.below(BLOCKS - LONGEST));
            self.fallocate(v, FallocMode::CollapseRange, from, len)?;
            self.holds.drain(from as usize..(from + len) as usize);
            self.fallocate(v, FallocMode::InsertRange, to, len)?;
            for at in to..to + len {
                self.holds.insert(at as usize, 0);
                self.write(v, at)?;
            }
        }
        Ok(self)
    }

    /// Reads the file on a mounted volume.
    pub fn judge(&self, v: &Volume) -> Result<(), String> {
        for (at, &value) in (0..).zip(&self.holds) {
            let mut found = [0; 4];
            v.read(self.ino, at * BLOCK_SIZE as u64, &mut found)
                .map_err(|e| format!("moved block {at}: {e}"))?;
            let found = u32::from_le_bytes(found);
            if found != value {
                return Err(format!("block {at} of the file whose ranges move holds {found}, not {value}"));
            }
        }
        Ok(())
    }

    fn fallocate(&self, v: &Volume, mode: FallocMode, at: u64, len: u64) -> Result<(), String> {
        let size = BLOCK_SIZE as u64;
        let done = v.fallocate(self.ino, mode, at * size, len * size);
        done.map_err(|e| format!("{mode:?} of {len} blocks at {at}: {e}; {:?}", Probe(v).space_figures()))
    }

    fn write(&mut self, v: &Volume, at: u64) -> Result<(), String> {
        let mut block = [0; BLOCK_SIZE];
        for (byte, value) in block.iter_mut().zip(self.next.to_le_bytes()) {
            *byte = value;
        }
        let done = v.write(self.ino, at * BLOCK_SIZE as u64, &block);
        done.map_err(|e| format!("block {at} of the file whose ranges move: {e}"))?;
        if let Some(holds) = self.holds.get_mut(at as usize) {
            *holds = self.next;
        }
        self.next += 1;
        Ok(())
    }
}
