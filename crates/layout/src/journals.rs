//! The journals of the summaries: entries that are newer than the blocks of NAT and SIT, and which changes become such entries.
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use segno_format::nat::{NAT_JOURNAL_MAX, RawNatEntry, RawNatJournal, RawNatJournalEntry, nat_index};
use segno_format::sit::{RawSitEntry, RawSitJournal, RawSitJournalEntry, SIT_JOURNAL_MAX};
use segno_format::{Corrupt, Geometry, Nid, SegNo, Structure};
use zerocopy::FromZeros;
use zerocopy::little_endian::{U16, U32};

/// Entries of a NAT journal. Of two for a nid Linux takes the first.
pub fn nat_entries(journal: &RawNatJournal, geo: &Geometry) -> Result<BTreeMap<Nid, RawNatEntry>, Corrupt> {
    let bad =
        |why, found: u32, expected: u32| journal_damage(Structure::NatJournal, geo, why, found, expected);
    let count = journal.count.get();
    let used = journal.entries.get(..count.into());
    let used = used.ok_or_else(|| bad("entry count", count.into(), NAT_JOURNAL_MAX as u32))?;
    let mut entries = BTreeMap::new();
    for e in used {
        let nid = Nid(e.nid.get());
        if nid == Nid::NONE || nid.0 >= geo.max_nid() {
            return Err(bad("nid", nid.0, geo.max_nid()));
        }
        entries.entry(nid).or_insert(e.entry);
    }
    Ok(entries)
}

/// Entries of a SIT journal. Of two for a segment Linux takes the last.
pub fn sit_entries(journal: &RawSitJournal, geo: &Geometry) -> Result<BTreeMap<SegNo, RawSitEntry>, Corrupt> {
    let bad =
        |why, found: u32, expected: u32| journal_damage(Structure::SitJournal, geo, why, found, expected);
    let count = journal.count.get();
    let used = journal.entries.get(..count.into());
    let used = used.ok_or_else(|| bad("entry count", count.into(), SIT_JOURNAL_MAX as u32))?;
    let mut entries = BTreeMap::new();
    for e in used {
        let seg = e.segno.get();
        if seg >= geo.segment_count_main {
            return Err(bad("segment number", seg, geo.segment_count_main));
        }
        entries.insert(SegNo(seg), e.entry);
    }
    Ok(entries)
}

fn journal_damage(what: Structure, geo: &Geometry, why: &'static str, found: u32, expected: u32) -> Corrupt {
    Corrupt::block(what, geo.cp_blkaddr.into(), why, found.into(), expected.into())
}

/// A NAT journal with these entries; those beyond its capacity are left out, so the caller sees to it that there are none.
#[must_use]
pub fn nat_journal(entries: impl ExactSizeIterator<Item = (Nid, RawNatEntry)>) -> RawNatJournal {
    let mut journal = RawNatJournal::new_zeroed();
    journal.count = U16::new(entries.len().min(NAT_JOURNAL_MAX) as u16);
    for (slot, (nid, entry)) in journal.entries.iter_mut().zip(entries) {
        *slot = RawNatJournalEntry { nid: U32::new(nid.0), entry };
    }
    journal
}

/// A SIT journal with these entries; those beyond its capacity are left out, so the caller sees to it that there are none.
#[must_use]
pub fn sit_journal(entries: impl ExactSizeIterator<Item = (SegNo, RawSitEntry)>) -> RawSitJournal {
    let mut journal = RawSitJournal::new_zeroed();
    journal.count = U16::new(entries.len().min(SIT_JOURNAL_MAX) as u16);
    for (slot, (seg, entry)) in journal.entries.iter_mut().zip(entries) {
        *slot = RawSitJournalEntry { segno: U32::new(seg.0), entry };
    }
    journal
}

/// Where changed NAT entries are stored.
pub struct NatChanges {
    /// All entries of the new journal.
    pub journal: BTreeMap<Nid, RawNatEntry>,
    /// Entries of the blocks that are written, by number of the block, ascending.
    pub blocks: Vec<(u32, Vec<(Nid, RawNatEntry)>)>,
}

impl NatChanges {
    /// As many blocks as fit keep their changes in the journal, those with the fewest first, so that few blocks are written. If all
    /// fit, the journal keeps its entries; else they join the changes of their blocks. `room` is the capacity of the journal.
    #[must_use]
    pub fn place(
        changed: impl Iterator<Item = (Nid, RawNatEntry)>,
        mut journal: BTreeMap<Nid, RawNatEntry>,
        room: usize,
    ) -> Self {
        let mut sets: BTreeMap<u32, Vec<(Nid, RawNatEntry)>> = BTreeMap::new();
        let mut count = 0;
        for (nid, entry) in changed {
            journal.remove(&nid);
            count += 1;
            sets.entry(nat_index(nid).0).or_default().push((nid, entry));
        }
        if journal.len() + count > room {
            for (nid, entry) in core::mem::take(&mut journal) {
                sets.entry(nat_index(nid).0).or_default().push((nid, entry));
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
