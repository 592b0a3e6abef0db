//! The NAT: place and owner of every node. Its blocks are read when an entry is requested, or once as a
//! whole.
use crate::CheckError;
use crate::evidence::journal::Journal;
use crate::evidence::{Pack, Reader};
use crate::report::{Kind, Sink};
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::{RawNatBlock, RawNatEntry, RawNatJournal, nat_index};
use segno_format::{BlockAddr, Geometry, Nid, Structure};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const JOURNAL: Journal = Journal {
    kind: Kind::NatJournal,
    structure: Structure::NatJournal,
    out_of_range: "nid out of range",
    second: "second entry for a nid",
};

/// Blocks kept while the NAT is read on demand: 256 KiB.
const SLOTS: usize = 64;

/// A block and its number.
type Kept = (u32, Box<RawNatBlock>);

/// Where nodes are, as of a checkpoint.
pub(crate) struct Nat<'a> {
    reader: Reader<'a>,
    /// Where each block is.
    places: Vec<BlockAddr>,
    journal: BTreeMap<u32, RawNatEntry>,
    /// All blocks, once they were read as a whole; none where all is zero.
    all: Option<Vec<Option<Box<RawNatBlock>>>>,
    /// Blocks that were read, each in the place that its number gives.
    kept: Mutex<Vec<Option<Kept>>>,
    /// Why a block could not be read, so that its entries seemed to be free.
    failed: Mutex<Option<CheckError>>,
}

impl<'a> Nat<'a> {
    pub(crate) fn new(
        reader: Reader<'a>,
        geo: &Geometry,
        pack: &Pack,
        journal: &RawNatJournal,
        sink: &mut Sink,
    ) -> Self {
        let places: Vec<_> = (0..geo.nat_blocks()).map(|b| geo.nat_addr(b, pack.nat_copy(b))).collect();
        let mut kept = Vec::new();
        kept.resize_with(places.len().min(SLOTS), || None);
        let entries = journal.entries.iter().map(|e| (e.nid.get(), e.entry));
        let nids = Nid::ROOT.0..geo.max_nid();
        let journal = JOURNAL.entries(entries, journal.count.get(), &nids, pack, sink).into_iter().collect();
        Self { reader, places, journal, all: None, kept: Mutex::new(kept), failed: Mutex::new(None) }
    }

    /// Reads all blocks and keeps them, so that none is read again.
    pub(crate) fn read_all(&mut self) -> Result<(), CheckError> {
        let mut all = Vec::new();
        all.resize_with(self.places.len(), || None);
        self.blocks(|b, block| {
            if let Some(slot) = all.get_mut(b as usize) {
                *slot = Some(Box::new(*block));
            }
        })?;
        self.all = Some(all);
        Ok(())
    }

    /// Passes on all blocks that are not zero, in order.
    fn blocks(&self, mut each: impl FnMut(u32, &RawNatBlock)) -> Result<(), CheckError> {
        if let Some(all) = &self.all {
            let stored = (0..).zip(all).filter_map(|(b, block)| Some((b, block.as_deref()?)));
            stored.for_each(|(b, block)| each(b, block));
            return Ok(());
        }
        let place = |b: u32| self.places.get(b as usize).copied().unwrap_or(BlockAddr::NULL);
        self.reader.scan(self.places.len() as u32, place, |b, block| each(b, block.view()))
    }

    /// Reads all blocks and passes on every entry in use, from the root on, in nid order. Returns the number
    /// of entries with an address in each block as stored, without the journal; nat_bits describe these
    /// numbers.
    pub(crate) fn scan(&self, mut each: impl FnMut(Nid, RawNatEntry)) -> Result<Vec<u16>, CheckError> {
        let mut stored_in_use = vec![0; self.places.len()];
        let mut in_use = |nid: u32, entry: RawNatEntry| {
            if is_in_use(Nid(nid), &entry) {
                each(Nid(nid), entry);
            }
        };
        let mut journal = self.journal.iter().peekable();
        self.blocks(|b, block| {
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

    /// Fails if a block could not be read when one of its entries was requested.
    pub(crate) fn was_read(&self) -> Result<(), CheckError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn stored(&self, nid: Nid) -> Option<RawNatEntry> {
        let (b, i) = nat_index(nid);
        if let Some(all) = &self.all {
            return all.get(b as usize)?.as_ref()?.entries.get(i).copied();
        }
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
