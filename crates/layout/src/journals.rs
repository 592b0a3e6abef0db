//! The journals of the summaries: entries that are newer than the blocks of NAT and SIT, and which changes
//! become such entries.
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use segno_format::nat::{RawNatEntry, RawNatJournalEntry};
use segno_format::sit::{RawSitEntry, RawSitJournalEntry};
use segno_format::summary::Journal;
use segno_format::{Corrupt, Geometry, Nid, SegNo, Structure};

/// Entries of a NAT journal. If a nid has two entries, the first counts, as in Linux.
pub fn nat_entries(
    journal: &Journal<RawNatJournalEntry>,
    geo: &Geometry,
) -> Result<BTreeMap<Nid, RawNatEntry>, Corrupt> {
    let mut entries = BTreeMap::new();
    for e in used(journal, Structure::NatJournal, geo)? {
        let nid = Nid(e.nid.get());
        if nid == Nid::NONE || nid.0 >= geo.max_nid() {
            return Err(damage(Structure::NatJournal, geo, "nid", nid.0, geo.max_nid()));
        }
        entries.entry(nid).or_insert(e.entry);
    }
    Ok(entries)
}

/// Entries of a SIT journal. If a segment has two entries, the last counts, as in Linux.
pub fn sit_entries(
    journal: &Journal<RawSitJournalEntry>,
    geo: &Geometry,
) -> Result<BTreeMap<SegNo, RawSitEntry>, Corrupt> {
    let mut entries = BTreeMap::new();
    for e in used(journal, Structure::SitJournal, geo)? {
        let seg = e.segno.get();
        if seg >= geo.segment_count_main {
            return Err(damage(Structure::SitJournal, geo, "segment number", seg, geo.segment_count_main));
        }
        entries.insert(SegNo(seg), e.entry);
    }
    Ok(entries)
}

fn used<'a, E>(journal: &'a Journal<E>, what: Structure, geo: &Geometry) -> Result<&'a [E], Corrupt> {
    let (count, room) = (journal.count.into(), journal.entries.len() as u32);
    journal.used().ok_or_else(|| damage(what, geo, "entry count", count, room))
}

fn damage(what: Structure, geo: &Geometry, why: &'static str, found: u32, expected: u32) -> Corrupt {
    Corrupt::block(what, geo.cp_blkaddr.into(), why, found.into(), expected.into())
}

/// Where changed NAT entries are stored.
pub struct NatChanges {
    /// All entries of the new journal.
    pub journal: BTreeMap<Nid, RawNatEntry>,
    /// Entries of the blocks that are written, by number of the block, ascending.
    pub blocks: Vec<(u32, Vec<(Nid, RawNatEntry)>)>,
}

impl NatChanges {
    /// Keeps the changes of as many blocks as fit in the journal, those with the fewest changes first, so
    /// that few blocks are written. If all changes fit, the journal keeps its old entries; otherwise these
    /// join the changes of their blocks. `room` is the capacity of the journal.
    #[must_use]
    pub fn place(
        changed: impl Iterator<Item = (Nid, RawNatEntry)>,
        mut journal: BTreeMap<Nid, RawNatEntry>,
        room: usize,
        geo: &Geometry,
    ) -> Self {
        let block_of = |nid: Nid| nid.0 / geo.nat_per_block();
        let mut sets: BTreeMap<u32, Vec<(Nid, RawNatEntry)>> = BTreeMap::new();
        let mut count = 0;
        for (nid, entry) in changed {
            journal.remove(&nid);
            count += 1;
            sets.entry(block_of(nid)).or_default().push((nid, entry));
        }
        if journal.len() + count > room {
            for (nid, entry) in core::mem::take(&mut journal) {
                sets.entry(block_of(nid)).or_default().push((nid, entry));
            }
        }
        let mut by_size: Vec<_> = sets.into_iter().collect();
        by_size.sort_by_key(|(b, set)| (set.len(), *b));
        let mut blocks = Vec::new();
        for (b, set) in by_size {
            if journal.len() + set.len() <= room {
                journal.extend(set);
            } else {
                blocks.push((b, set));
            }
        }
        blocks.sort_by_key(|(b, _)| *b);
        Self { journal, blocks }
    }
}
