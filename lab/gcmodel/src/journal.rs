//! NAT and SIT blocks that a checkpoint writes: entries that fit into the summary journals need no block write.

/// Changed entries by block, and the entries that the summary journal holds.
#[derive(Clone, Debug)]
pub struct Journal {
    per_block: u32,
    room: usize,
    held: Vec<u32>,
}

impl Journal {
    #[must_use]
    pub fn new(per_block: u32, room: usize) -> Self {
        Self { per_block, room, held: Vec::new() }
    }

    /// Blocks written for these changed entries. If they do not all fit, the entries in the journal are written as well, and
    /// the blocks with the fewest changes go to the journal.
    pub fn flush(&mut self, changed: &mut [u32]) -> u64 {
        changed.sort_unstable();
        let mut all = std::mem::take(&mut self.held);
        all.extend(changed.iter());
        all.sort_unstable();
        all.dedup();
        if all.len() <= self.room {
            self.held = all;
            return 0;
        }
        let mut sets: Vec<&[u32]> = all.chunk_by(|a, b| a / self.per_block == b / self.per_block).collect();
        sets.sort_by_key(|s| s.len());
        let mut written = 0;
        for set in sets {
            if self.held.len() + set.len() <= self.room {
                self.held.extend(set);
            } else {
                written += 1;
            }
        }
        written
    }
}
