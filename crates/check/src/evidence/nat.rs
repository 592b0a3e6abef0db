//! The NAT: place and owner of every node, read from its blocks as entries are asked for.
use crate::CheckError;
use crate::evidence::{Pack, Reader};
use crate::report::{Kind, Sink};
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::{NAT_JOURNAL_MAX, RawNatBlock, RawNatEntry, RawNatJournal, nat_index};
use segno_format::{BlockAddr, Corrupt, Geometry, Nid, Structure};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, PoisonError};

/// A block and its number.
type Kept = (u32, Box<RawNatBlock>);

/// Where nodes are, as of a checkpoint.
pub(crate) struct Nat<'a> {
    reader: Reader<'a>,
    /// Where each block is.
    places: Vec<BlockAddr>,
    journal: BTreeMap<u32, RawNatEntry>,
    /// Blocks that were read, each in the place that its number gives.
    kept: Mutex<Vec<Option<Kept>>>,
    /// Why a block could not be read, so that its entries seemed to be free.
    failed: Mutex<Option<CheckError>>,
}

impl<'a> Nat<'a> {
    /// Keeps up to `most` blocks.
    pub(crate) fn new(
        reader: Reader<'a>,
        geo: &Geometry,
        pack: &Pack,
        journal: &RawNatJournal,
        most: usize,
        sink: &mut Sink,
    ) -> Self {
        let places: Vec<_> = (0..geo.nat_blocks()).map(|b| geo.nat_addr(b, pack.nat_copy(b))).collect();
        let mut kept = Vec::new();
        kept.resize_with(places.len().min(most), || None);
        let journal = journaled(geo, journal, pack, sink);
        Self { reader, places, journal, kept: Mutex::new(kept), failed: Mutex::new(None) }
    }

    /// Reads all blocks and passes on all entries in use from the root on, in the order of their nids. Returns how many have an
    /// address in each block as stored, journal aside: what nat_bits describe.
    pub(crate) fn scan(&self, mut each: impl FnMut(Nid, RawNatEntry)) -> Result<Vec<u16>, CheckError> {
        let mut stored_in_use = vec![0; self.places.len()];
        let place = |b: u32| self.places.get(b as usize).copied().unwrap_or(BlockAddr::NULL);
        let mut in_use = |nid: u32, entry: RawNatEntry| {
            if is_in_use(Nid(nid), &entry) {
                each(Nid(nid), entry);
            }
        };
        let mut journal = self.journal.iter().peekable();
        self.reader.scan(self.places.len() as u32, place, |b, block| {
            let block: &RawNatBlock = block.view();
            if let Some(n) = stored_in_use.get_mut(b as usize) {
                // A block has fewer than 2^16.
                *n = block.entries.iter().filter(|e| e.addr() != BlockAddr::NULL).count() as u16;
            }
            let first = b.saturating_mul(NAT_PER_BLOCK);
            while let Some((&nid, &entry)) = journal.next_if(|(nid, _)| **nid < first) {
                in_use(nid, entry);
            }
            for (nid, &stored) in (first..).zip(&block.entries) {
                let newer = journal.next_if(|(changed, _)| **changed == nid);
                in_use(nid, newer.map_or(stored, |(_, &entry)| entry));
            }
        })?;
        journal.for_each(|(&nid, &entry)| in_use(nid, entry));
        Ok(stored_in_use)
    }

    /// Entry of any nid; zeros out of range.
    pub(crate) fn entry(&self, nid: Nid) -> RawNatEntry {
        self.journal.get(&nid.0).copied().or_else(|| self.stored(nid)).unwrap_or_default()
    }

    /// Entry of a nid whose block has an address; `None` when it is free or out of range.
    pub(crate) fn get(&self, nid: Nid) -> Option<RawNatEntry> {
        Some(self.entry(nid)).filter(|e| is_in_use(nid, e))
    }

    /// Fails if a block could not be read when one of its entries was asked for.
    pub(crate) fn was_read(&self) -> Result<(), CheckError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn stored(&self, nid: Nid) -> Option<RawNatEntry> {
        let (b, i) = nat_index(nid);
        let place = *self.places.get(b as usize)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = (b as usize).checked_rem(kept.len())?;
        let slot = kept.get_mut(slot)?;
        if slot.as_ref().is_none_or(|(number, _)| *number != b) {
            match self.reader.block(place) {
                Ok(block) => *slot = Some((b, Box::new(*block.view()))),
                Err(e) => {
                    *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                    return None;
                }
            }
        }
        slot.as_ref()?.1.entries.get(i).copied()
    }
}

fn is_in_use(nid: Nid, entry: &RawNatEntry) -> bool {
    nid.0 >= Nid::ROOT.0 && entry.addr() != BlockAddr::NULL
}

/// The entries of the journal, by nid.
fn journaled(
    geo: &Geometry,
    journal: &RawNatJournal,
    pack: &Pack,
    sink: &mut Sink,
) -> BTreeMap<u32, RawNatEntry> {
    let mut entries = BTreeMap::new();
    let count = usize::from(journal.count.get());
    let bad = |why, found: u64, expected: u64| {
        let at = pack.addr(pack.cp().cp_pack_start_sum.get());
        Corrupt::block(Structure::NatJournal, at, why, found, expected)
    };
    if count > NAT_JOURNAL_MAX {
        sink.add(Kind::NatJournal, bad("number of entries", count as u64, NAT_JOURNAL_MAX as u64));
        return entries;
    }
    for e in journal.entries.iter().take(count) {
        let nid = Nid(e.nid.get());
        if nid.0 < Nid::ROOT.0 || nid.0 >= geo.max_nid() {
            sink.add(Kind::NatJournal, bad("nid out of range", nid.0.into(), geo.max_nid().into()));
            continue;
        }
        match entries.entry(nid.0) {
            Entry::Occupied(_) => sink.add(Kind::NatJournal, bad("second entry for a nid", nid.0.into(), 0)),
            Entry::Vacant(place) => {
                place.insert(e.entry);
            }
        }
    }
    entries
}
