//! The NAT: place and owner of every node.
mod paged;

pub(crate) use paged::PagedNat;

use crate::CheckError;
use crate::evidence::{Pack, Reader};
use crate::report::{Kind, Sink};
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::{NAT_JOURNAL_MAX, RawNatBlock, RawNatEntry, RawNatJournal, nat_index};
use segno_format::{BlockAddr, Corrupt, Geometry, Nid, Structure};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use zerocopy::FromZeros;

/// Where nodes are, as of a checkpoint.
pub(crate) trait NodeTable: Sync {
    /// Entry of any nid; zeros out of range.
    fn entry(&self, nid: Nid) -> RawNatEntry;

    /// Entry of a nid whose block has an address; `None` when it is free or out of range.
    fn get(&self, nid: Nid) -> Option<RawNatEntry> {
        Some(self.entry(nid)).filter(|e| is_in_use(nid, e))
    }
}

/// The NAT as of a checkpoint.
pub(crate) struct Nat {
    /// Only blocks with an entry in use.
    blocks: Vec<Option<Box<RawNatBlock>>>,
    /// Entries in use in each block as stored, journal aside: what nat_bits describe.
    pub(crate) stored_in_use: Vec<u16>,
}

impl NodeTable for Nat {
    fn entry(&self, nid: Nid) -> RawNatEntry {
        let (b, i) = nat_index(nid);
        let block = self.blocks.get(b as usize).and_then(|b| b.as_deref());
        block.and_then(|b| b.entries.get(i)).copied().unwrap_or_default()
    }
}

impl Nat {
    pub(crate) fn load(
        reader: &Reader<'_>,
        geo: &Geometry,
        pack: &Pack,
        journal: &RawNatJournal,
        sink: &mut Sink,
    ) -> Result<Self, CheckError> {
        let count = geo.nat_blocks();
        let mut blocks = Vec::new();
        blocks.resize_with(count as usize, || None);
        let mut stored_in_use = vec![0; count as usize];
        reader.scan(
            count,
            |b| geo.nat_addr(b, pack.nat_copy(b)),
            |b, block| {
                let block: &RawNatBlock = block.view();
                if let (Some(slot), Some(n)) = (blocks.get_mut(b as usize), stored_in_use.get_mut(b as usize))
                {
                    *slot = Some(Box::new(*block));
                    *n = addresses(block);
                }
            },
        )?;
        let mut nat = Self { blocks, stored_in_use };
        journaled(geo, journal, pack, sink).into_iter().for_each(|(nid, entry)| nat.put(Nid(nid), entry));
        Ok(nat)
    }

    fn put(&mut self, nid: Nid, entry: RawNatEntry) {
        let (b, i) = nat_index(nid);
        if let Some(slot) = self.blocks.get_mut(b as usize) {
            let block = slot.get_or_insert_with(|| Box::new(RawNatBlock::new_zeroed()));
            if let Some(e) = block.entries.get_mut(i) {
                *e = entry;
            }
        }
    }

    /// All nids in use from the root on, with their entries.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = (Nid, RawNatEntry)> + '_ {
        self.all().filter(|(nid, e)| is_in_use(*nid, e))
    }

    fn all(&self) -> impl Iterator<Item = (Nid, RawNatEntry)> + '_ {
        (0u32..).zip(&self.blocks).filter_map(|(b, block)| Some((b, block.as_deref()?))).flat_map(
            |(b, block)| (b.saturating_mul(NAT_PER_BLOCK)..).map(Nid).zip(block.entries.iter().copied()),
        )
    }
}

fn is_in_use(nid: Nid, entry: &RawNatEntry) -> bool {
    nid.0 >= Nid::ROOT.0 && entry.addr() != BlockAddr::NULL
}

/// Entries of a block that have an address.
fn addresses(block: &RawNatBlock) -> u16 {
    // A block has fewer than 2^16.
    block.entries.iter().filter(|e| e.addr() != BlockAddr::NULL).count() as u16
}

/// The entries of the journal, by nid.
fn journaled(
    geo: &Geometry,
    journal: &RawNatJournal,
    pack: &Pack,
    sink: &mut Sink,
) -> HashMap<u32, RawNatEntry> {
    let mut entries = HashMap::new();
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
