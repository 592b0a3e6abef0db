//! The NAT read from its blocks as entries are asked for, so that it takes little memory.
use super::{NodeTable, addresses, is_in_use, journaled};
use crate::CheckError;
use crate::evidence::{Reader, Tables};
use crate::report::Sink;
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::{RawNatBlock, RawNatEntry, nat_index};
use segno_format::{BlockAddr, Nid};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Blocks kept: 256 KiB.
const SLOTS: usize = 64;

pub(crate) struct PagedNat<'a> {
    reader: Reader<'a>,
    /// Where each block is.
    places: Vec<BlockAddr>,
    journal: HashMap<u32, RawNatEntry>,
    /// Recently read blocks, each in the place its number gives.
    kept: Mutex<Vec<Option<Kept>>>,
    failed: AtomicBool,
}

struct Kept {
    number: u32,
    block: Box<RawNatBlock>,
}

impl<'a> PagedNat<'a> {
    pub(crate) fn new(tables: &Tables<'a>, sink: &mut Sink) -> Self {
        let Tables { reader, geo, pack, .. } = tables;
        let mut kept = Vec::new();
        kept.resize_with(SLOTS, || None);
        Self {
            reader: *reader,
            places: (0..geo.nat_blocks()).map(|b| geo.nat_addr(b, pack.nat_copy(b))).collect(),
            journal: journaled(geo, &tables.summaries.nat_journal, pack, sink),
            kept: Mutex::new(kept),
            failed: AtomicBool::new(false),
        }
    }

    /// Reads all blocks and passes on all entries in use, those of the journal last. Returns how many each block has as stored.
    pub(crate) fn scan(&self, mut each: impl FnMut(Nid, RawNatEntry)) -> Result<Vec<u16>, CheckError> {
        let mut stored_in_use = vec![0; self.places.len()];
        let place = |b: u32| self.places.get(b as usize).copied().unwrap_or(BlockAddr::NULL);
        let mut in_use = |nid: Nid, entry: RawNatEntry| {
            if is_in_use(nid, &entry) {
                each(nid, entry);
            }
        };
        self.reader.scan(self.places.len() as u32, place, |b, block| {
            let block: &RawNatBlock = block.view();
            if let Some(n) = stored_in_use.get_mut(b as usize) {
                *n = addresses(block);
            }
            for (nid, entry) in (b.saturating_mul(NAT_PER_BLOCK)..).zip(&block.entries) {
                if !self.journal.contains_key(&nid) {
                    in_use(Nid(nid), *entry);
                }
            }
        })?;
        self.journal.iter().for_each(|(&nid, &entry)| in_use(Nid(nid), entry));
        Ok(stored_in_use)
    }

    /// Whether a block could not be read, so that entries seemed to be free.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn stored(&self, nid: Nid) -> Option<RawNatEntry> {
        let (b, i) = nat_index(nid);
        let place = *self.places.get(b as usize)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = kept.get_mut(b as usize % SLOTS)?;
        if slot.as_ref().is_none_or(|kept| kept.number != b) {
            match self.reader.block(place) {
                Ok(block) => *slot = Some(Kept { number: b, block: Box::new(*block.view()) }),
                Err(_) => {
                    self.failed.store(true, Ordering::Relaxed);
                    return None;
                }
            }
        }
        slot.as_ref()?.block.entries.get(i).copied()
    }
}

impl NodeTable for PagedNat<'_> {
    fn entry(&self, nid: Nid) -> RawNatEntry {
        self.journal.get(&nid.0).copied().or_else(|| self.stored(nid)).unwrap_or_default()
    }
}
