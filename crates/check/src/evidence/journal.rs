//! Entries of NAT and SIT in the summaries of the pack.
use crate::evidence::Pack;
use crate::report::{Kind, Rules, Sink};
use segno_format::{Structure, Unit};
use std::ops::Range;

/// Which journal it is, and how its rules are called.
pub(super) struct Journal {
    pub kind: Kind,
    pub structure: Structure,
    pub out_of_range: &'static str,
    pub second: &'static str,
}

impl Journal {
    /// The first `count` entries with their numbers, without entries that cannot be valid.
    pub(super) fn entries<T>(
        &self,
        all: impl ExactSizeIterator<Item = (u32, T)>,
        count: u16,
        numbers: &Range<u32>,
        pack: &Pack,
        sink: &mut Sink,
    ) -> Vec<(u32, T)> {
        let at = pack.addr(pack.cp().cp_pack_start_sum.get());
        let mut rules = Rules::new(self.kind, self.structure, Unit::Block, at);
        let (count, most) = (usize::from(count), all.len());
        let fits = rules.require(count <= most, "number of entries", count as u64, most as u64);
        let mut entries: Vec<(u32, T)> = Vec::new();
        for (number, entry) in all.take(if fits { count } else { 0 }) {
            let known = entries.iter().any(|(other, _)| *other == number);
            if rules.require(numbers.contains(&number), self.out_of_range, number, numbers.end)
                && rules.require(!known, self.second, number, 0u64)
            {
                entries.push((number, entry));
            }
        }
        sink.add_broken(None, rules);
        entries
    }
}
