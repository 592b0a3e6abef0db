//! The NAT as of a checkpoint, block by block: each block may be lost.
use crate::reader::read_volume_block;
use crate::{Pack, Reader, Summaries};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use segno_format::nat::{RawNatEntry, nat_block_entries};
use segno_format::{BlockAddr, Geometry, Nid};

/// State of a nid in the NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatState {
    /// It has this entry.
    Used(RawNatEntry),
    /// It is free; the entry keeps the version.
    Free(RawNatEntry),
    /// The NAT block with the entry is lost: it cannot be read, or [`Nat::judge`] rejected it.
    Unknown,
}

/// The NAT. Blocks of zeros take no memory.
pub struct Nat {
    blocks: Vec<Slot>,
    per_block: u32,
    journal: BTreeMap<u32, RawNatEntry>,
}

enum Slot {
    Lost,
    Zero,
    Block(Box<[RawNatEntry]>),
}

impl Nat {
    /// Reads the copies that a pack selects.
    pub fn load<R: Reader + ?Sized>(
        reader: &R,
        geo: &Geometry,
        pack: &Pack,
        summaries: &Summaries,
    ) -> Result<Self, R::Error> {
        // If a nid has two entries, the first counts, as in Linux.
        let journal = summaries.nat_journal().iter().rev().map(|e| (e.nid.get(), e.entry)).collect();
        let mut blocks = Vec::new();
        for b in 0..geo.nat_blocks().min(reader.end()) {
            blocks.push(match read_volume_block(reader, geo, geo.nat_addr(b, pack.nat_copy(b)))? {
                None => Slot::Lost,
                Some(block) if block.is_zero() => Slot::Zero,
                Some(block) => Slot::Block(nat_block_entries(block.as_ref()).into()),
            });
        }
        Ok(Self { blocks, per_block: geo.nat_per_block(), journal })
    }

    /// Discards implausible blocks: blocks with more failing than passing entries, and all blocks of zeros if
    /// no other block passes or the first one is lost. `fits` returns whether an entry in use leads to its
    /// node.
    pub fn judge(&mut self, fits: impl Fn(Nid, &RawNatEntry) -> bool) {
        let mut any = false;
        for (b, slot) in (0u32..).zip(&mut self.blocks) {
            let Slot::Block(block) = slot else { continue };
            let first = b.saturating_mul(self.per_block);
            let used =
                (first..).zip(block.iter()).filter(|(nid, e)| *nid >= Nid::ROOT.0 && e.addr().is_real());
            let (good, bad) = used.fold((0, 0), |(good, bad), (nid, e)| match fits(Nid(nid), e) {
                true => (good + 1, bad),
                false => (good, bad + 1),
            });
            any |= good > bad;
            if bad > good {
                *slot = Slot::Lost;
            }
        }
        // The root is in the first block, so a volume has at least that one.
        let first_lost = !matches!(self.blocks.first(), Some(Slot::Block(_)));
        if !any || first_lost {
            self.blocks.iter_mut().filter(|s| matches!(s, Slot::Zero)).for_each(|s| *s = Slot::Lost);
        }
    }

    fn slot(&self, nid: u32) -> Option<&Slot> {
        self.blocks.get((nid / self.per_block) as usize)
    }

    /// Returns the state of a nid.
    #[must_use]
    pub fn get(&self, nid: Nid) -> NatState {
        let i = (nid.0 % self.per_block) as usize;
        let entry = match (self.journal.get(&nid.0), self.slot(nid.0)) {
            (Some(entry), _) => *entry,
            (None, Some(Slot::Block(block))) => block.get(i).copied().unwrap_or_default(),
            (None, Some(Slot::Zero)) => RawNatEntry::default(),
            (None, Some(Slot::Lost) | None) => return NatState::Unknown,
        };
        match entry.addr() {
            BlockAddr::NULL => NatState::Free(entry),
            _ => NatState::Used(entry),
        }
    }

    /// Entry of any nid; zeros if it is unknown.
    #[must_use]
    pub fn entry(&self, nid: Nid) -> RawNatEntry {
        match self.get(nid) {
            NatState::Used(entry) | NatState::Free(entry) => entry,
            NatState::Unknown => RawNatEntry::default(),
        }
    }

    /// Entry of a nid in use, from the root inode on.
    #[must_use]
    pub fn used(&self, nid: Nid) -> Option<RawNatEntry> {
        Some(self.entry(nid)).filter(|e| nid.0 >= Nid::ROOT.0 && e.addr() != BlockAddr::NULL)
    }

    /// All nids in use from the root on, with their entries.
    pub fn in_use(&self) -> impl Iterator<Item = (Nid, RawNatEntry)> + '_ {
        let stored = (0u32..).zip(&self.blocks).filter(|(_, slot)| matches!(slot, Slot::Block(_)));
        let stored = stored.flat_map(|(b, _)| {
            let first = b.saturating_mul(self.per_block);
            first..first.saturating_add(self.per_block)
        });
        let is_stored = |nid: u32| matches!(self.slot(nid), Some(Slot::Block(_)));
        let end = (self.blocks.len() as u32).saturating_mul(self.per_block);
        let journal = self.journal.keys().copied().filter(move |nid| *nid < end && !is_stored(*nid));
        let all = stored.chain(journal).map(Nid);
        all.filter_map(|nid| Some((nid, self.used(nid)?)))
    }

    /// Whether all blocks are lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.blocks.iter().all(|s| matches!(s, Slot::Lost))
    }

    /// Whether an entry is in the journal.
    #[must_use]
    pub fn in_journal(&self, nid: Nid) -> bool {
        self.journal.contains_key(&nid.0)
    }
}
