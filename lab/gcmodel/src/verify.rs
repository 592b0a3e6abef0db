//! Consistency check at the end of a run.
use crate::space::NONE;
use crate::volume::{DENT, Model, NODE};

impl Model {
    /// Checks that each block is at the address recorded for its owner, and that no other block is valid.
    pub fn verify(&self) -> Result<(), String> {
        let mut valid = 0u64;
        let tables = [(&self.place, 0), (&self.node_place, NODE), (&self.dent_place, DENT)];
        for (table, mark) in tables {
            for (i, &addr) in (0u32..).zip(table.iter()).filter(|(_, a)| **a != NONE) {
                if self.owner[addr as usize] != i | mark {
                    return Err(format!(
                        "block {addr} belongs to {:x}, not {:x}",
                        self.owner[addr as usize],
                        i | mark
                    ));
                }
                if !self.space.is_valid(addr) {
                    return Err(format!("block {addr} is in use and not valid"));
                }
                valid += 1;
            }
        }
        let bits: u64 = self.space.valid.iter().map(|w| u64::from(w.count_ones())).sum();
        let secs: u64 = self.space.sec_valid.iter().map(|&n| u64::from(n)).sum();
        let segs: u64 = self.space.seg_valid.iter().map(|&n| u64::from(n)).sum();
        if [bits, secs, segs] != [valid; 3] {
            return Err(format!(
                "{valid} blocks in use; valid: {bits} by bitmap, {secs} by section, {segs} by segment"
            ));
        }
        if ![&self.dirty, &self.dirty_nodes, &self.dirty_dents].iter().all(|set| set.is_sound()) {
            return Err("what is dirty and how much of it differ".into());
        }
        // The section of a log that has filled it may have been freed since.
        for log in self.space.logs.iter().filter(|log| log.next < self.space.per_sec) {
            let pointer = self.space.pointer[log.sec as usize];
            if pointer != log.next {
                return Err(format!("zone {}: write pointer {pointer}, log at {}", log.sec, log.next));
            }
        }
        Ok(())
    }
}
