//! Emptying sections.
use crate::counters::Kind;
use crate::rounds::Loop;
use crate::volume::{DENT, Full, Model, NODE};
use segno_clean::policy::Victim;
use segno_clean::{BLOCKS_PER_SEG, Class};

impl Model {
    /// Moves all valid blocks out of sections: in address order as in Linux, or in a batch sorted by owner.
    pub(crate) fn clean(&mut self, victims: &[Victim]) -> Result<(), Full> {
        let mut pages = Vec::new();
        for v in victims {
            self.counts.sections[v.class as usize] += 1;
            self.count_segments(v);
            let found = self.valid_owners(v.sec);
            match v.class {
                Class::Node => self.move_nodes(&found)?,
                Class::Data => pages.extend(found),
            }
        }
        if self.how == Loop::Batch {
            pages.sort_unstable();
        }
        for page in pages {
            if page & DENT != 0 {
                self.move_dent(page & !DENT)?;
                continue;
            }
            self.absorb(page);
            self.move_data(page)?;
        }
        Ok(())
    }

    pub(crate) fn move_nodes(&mut self, nodes: &[u32]) -> Result<(), Full> {
        for &n in nodes {
            if self.lazy_nodes {
                self.defer_node(n & !NODE);
            } else {
                self.write_node(n & !NODE, Kind::MovedNodes)?;
            }
        }
        Ok(())
    }

    pub(crate) fn count_segments(&mut self, v: &Victim) {
        let per = self.space.segs_per_sec;
        let segs = (v.sec * per) as usize..((v.sec + 1) * per) as usize;
        let n = self.space.seg_valid[segs].iter().filter(|&&n| n > 0).count();
        self.counts.segments[v.class as usize] += n as u64;
    }

    pub(crate) fn valid_owners(&self, sec: u32) -> Vec<u32> {
        let per = self.e.blocks_per_zone;
        debug_assert!(per.is_multiple_of(BLOCKS_PER_SEG));
        let first = (sec * per) as usize;
        let mut out = Vec::with_capacity(self.space.sec_valid[sec as usize] as usize);
        for word in first / 64..(first + per as usize) / 64 {
            let mut bits = self.space.valid[word];
            while bits != 0 {
                out.push(self.owner[word * 64 + bits.trailing_zeros() as usize]);
                bits &= bits - 1;
            }
        }
        out
    }
}
