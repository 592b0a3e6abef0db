//! NAT: where each node lives, which nids are free, and writing the changes at a checkpoint.
//!
//! Three layers, newest first: changes since the last checkpoint, the journal of the last checkpoint, NAT blocks.
//! A nid freed since the last checkpoint stays in the first layer as an empty entry, so it is not given out again
//! before the next one.
use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::meta::Device;
use crate::planted::{Bug, planted};
use foldhash::HashMap;
use segno_format::bits::msb;
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::{
    NAT_JOURNAL_MAX, RawNatBlock, RawNatEntry, RawNatJournal, RawNatJournalEntry, nat_index,
};
use segno_format::{Block, BlockAddr, Corrupt, Geometry, Ino, Nid, Structure};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use zerocopy::FromZeros;
use zerocopy::little_endian::{U16, U32};

/// Cached NAT blocks at most (4 KiB each); beyond that the cache starts anew.
const BLOCKS_CACHED_MAX: usize = 2048;
/// Free nids looked for at a time.
const FREE_NIDS_WANTED: usize = 455;

/// Where a node lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatEntry {
    pub ino: Ino,
    /// `NULL`: free. `NEW`: in use, never written.
    pub addr: BlockAddr,
    pub version: u8,
    /// Whether the last checkpoint has a place for this nid.
    pub in_checkpoint: bool,
}

impl NatEntry {
    fn committed(raw: &RawNatEntry) -> Self {
        let addr = raw.addr();
        Self { ino: raw.owner(), addr, version: raw.version, in_checkpoint: addr != BlockAddr::NULL }
    }
    fn raw(&self) -> RawNatEntry {
        RawNatEntry { version: self.version, ino: U32::new(self.ino.0), block_addr: U32::new(self.addr.0) }
    }
}

/// See the module.
pub struct Nat {
    geo: Geometry,
    dev: Arc<Device>,
    inner: Mutex<Inner, { rank::NAT }>,
}

struct Inner {
    changed: HashMap<Nid, NatEntry>,
    journal: BTreeMap<Nid, RawNatEntry>,
    blocks: HashMap<u32, Arc<Block>>,
    bitmap: Vec<u8>,
    free: VecDeque<Nid>,
    /// NAT block to look for free nids next.
    scan: u32,
    /// Moves when block copies are switched, so that a read that raced with it is not cached.
    flushes: u64,
}

/// What a checkpoint stores of the NAT besides its blocks.
pub struct NatFlush {
    pub journal: RawNatJournal,
    pub bitmap: Vec<u8>,
    pub next_free_nid: Nid,
}

impl Nat {
    /// The NAT as the checkpoint describes it.
    pub fn load(
        geo: Geometry,
        dev: Arc<Device>,
        bitmap: Vec<u8>,
        journal: &RawNatJournal,
        next_free_nid: Nid,
    ) -> Result<Self> {
        let count = usize::from(journal.count.get());
        let bad = |why, found: usize, max: usize| {
            Corrupt::block(Structure::NatJournal, geo.cp_blkaddr.into(), why, found as u64, max as u64)
        };
        let entries =
            journal.entries.get(..count).ok_or_else(|| bad("entry count", count, NAT_JOURNAL_MAX))?;
        let mut map = BTreeMap::new();
        for e in entries {
            let nid = e.nid.get();
            if nid == 0 || nid >= geo.max_nid() {
                return Err(bad("nid", nid as usize, geo.max_nid() as usize).into());
            }
            map.insert(Nid(nid), e.entry);
        }
        let inner = Inner {
            changed: HashMap::default(),
            journal: map,
            blocks: HashMap::default(),
            bitmap,
            free: VecDeque::new(),
            scan: (next_free_nid.0 / NAT_PER_BLOCK).min(geo.nat_blocks().saturating_sub(1)),
            flushes: 0,
        };
        Ok(Self { geo, dev, inner: Mutex::new(inner) })
    }

    /// The entry of a nid.
    pub fn get(&self, nid: Nid) -> Result<NatEntry> {
        if !self.geo.nid_ok(nid) {
            let max = self.geo.max_nid();
            return Err(Corrupt::nid(
                Structure::NatBlock,
                nid.0,
                "nid out of range",
                nid.0.into(),
                max.into(),
            )
            .into());
        }
        loop {
            let (b, flushes) = {
                let inner = self.inner.lock();
                if let Some(e) = inner.lookup(nid) {
                    return Ok(e);
                }
                (nat_index(nid).0, inner.flushes)
            };
            self.load_block(b, flushes)?;
        }
    }

    /// The entry of a nid if answering needs no I/O.
    pub fn get_cached(&self, nid: Nid) -> Option<NatEntry> {
        self.inner.lock().lookup(nid)
    }

    /// Changes with every checkpoint: only then does an address become free for another node.
    pub fn epoch(&self) -> u64 {
        self.inner.lock().flushes
    }

    /// Reads NAT block `b` into the cache, without the lock held during the read.
    fn load_block(&self, b: u32, flushes: u64) -> Result<()> {
        let addr = {
            let inner = self.inner.lock();
            self.geo.nat_addr(b, msb::test(&inner.bitmap, b as usize))
        };
        let block = self.dev.read(addr)?;
        let mut inner = self.inner.lock();
        if inner.flushes == flushes {
            if inner.blocks.len() >= BLOCKS_CACHED_MAX {
                inner.blocks.clear();
            }
            inner.blocks.entry(b).or_insert_with(|| Arc::new(block));
        }
        Ok(())
    }

    /// Takes a free nid. `owner` is the inode it belongs to; `None` makes it an inode of its own.
    pub fn alloc(&self, owner: Option<Ino>) -> Result<Nid> {
        // Each NAT block is read and searched once at most.
        for _ in 0..u64::from(self.geo.nat_blocks()) * 2 + 2 {
            let (b, flushes) = {
                let mut inner = self.inner.lock();
                if let Some(nid) = inner.free.pop_front() {
                    let entry = NatEntry {
                        ino: owner.unwrap_or(nid),
                        addr: BlockAddr::NEW,
                        version: 0,
                        in_checkpoint: false,
                    };
                    inner.changed.insert(nid, entry);
                    return Ok(nid);
                }
                match inner.refill(&self.geo) {
                    None => continue,
                    Some(b) => (b, inner.flushes),
                }
            };
            self.load_block(b, flushes)?;
        }
        Err(Error::NoSpace)
    }

    /// Frees a nid and returns where its node was. It is not given out again before the next checkpoint.
    pub fn free(&self, nid: Nid) -> Result<BlockAddr> {
        self.change(nid, |old| {
            let version = old.version.wrapping_add(1);
            Some(NatEntry { addr: BlockAddr::NULL, version, ..old })
        })
    }

    /// A node was written to a new place; returns the old one: `NULL` if the nid was freed meanwhile and stays so.
    pub fn moved(&self, nid: Nid, addr: BlockAddr) -> Result<BlockAddr> {
        self.change(nid, |old| (old.addr != BlockAddr::NULL).then_some(NatEntry { addr, ..old }))
    }

    /// Changes an entry, if `f` wants to, and returns its old address.
    fn change(&self, nid: Nid, f: impl Fn(NatEntry) -> Option<NatEntry>) -> Result<BlockAddr> {
        loop {
            self.get(nid)?;
            let mut inner = self.inner.lock();
            // The block that the entry is in may have left the cache.
            let Some(old) = inner.lookup(nid) else { continue };
            if let Some(new) = f(old) {
                inner.changed.insert(nid, new);
            }
            return Ok(old.addr);
        }
    }

    /// Marks a nid that recovery found in use, so that it is not given out.
    pub fn claim(&self, nid: Nid, ino: Ino) {
        let mut inner = self.inner.lock();
        inner.free.retain(|&n| n != nid);
        let entry = NatEntry { ino, addr: BlockAddr::NEW, version: 0, in_checkpoint: false };
        inner.changed.insert(nid, entry);
    }

    /// Entries changed since the last checkpoint.
    pub fn changed(&self) -> usize {
        self.inner.lock().changed.len()
    }

    /// Writes the changes: small sets to the journal, the others to the alternate copies of their blocks. The caller
    /// has the gate closed. At unmount the journal is emptied too, as nat_bits require.
    pub fn flush(&self, unmount: bool) -> Result<NatFlush> {
        let (mut sets, journal) = self.inner.lock().sets();
        let mut kept = journal;
        let room = if unmount { 0 } else { NAT_JOURNAL_MAX };
        if unmount || kept.len() + sets.values().map(Vec::len).sum::<usize>() > room {
            for (nid, raw) in std::mem::take(&mut kept) {
                let set = sets.entry(nat_index(nid).0).or_default();
                if !set.iter().any(|&(n, _)| n == nid) {
                    set.push((nid, raw));
                }
            }
        }
        let mut by_size: Vec<(u32, Vec<(Nid, RawNatEntry)>)> = sets.into_iter().collect();
        by_size.sort_by_key(|(b, set)| (set.len(), *b));
        let mut to_blocks = Vec::new();
        for (b, set) in by_size {
            let new = set.iter().filter(|(n, _)| !kept.contains_key(n)).count();
            if kept.len() + new <= room {
                kept.extend(set);
            } else {
                to_blocks.push((b, set));
            }
        }
        to_blocks.sort_by_key(|&(b, _)| b);
        self.write_blocks(&to_blocks)?;
        let mut inner = self.inner.lock();
        inner.journal = kept;
        Ok(NatFlush {
            journal: inner.raw_journal(),
            bitmap: inner.bitmap.clone(),
            next_free_nid: inner.next_free(&self.geo),
        })
    }

    fn write_blocks(&self, sets: &[(u32, Vec<(Nid, RawNatEntry)>)]) -> Result<()> {
        let mut out: Vec<(BlockAddr, Arc<Block>)> = Vec::with_capacity(sets.len());
        for (b, set) in sets {
            let flushes = self.inner.lock().flushes;
            while !self.inner.lock().blocks.contains_key(b) {
                self.load_block(*b, flushes)?;
            }
            let mut inner = self.inner.lock();
            let Some(cached) = inner.blocks.get_mut(b) else { continue };
            let raw: &mut RawNatBlock = Arc::make_mut(cached).view_mut();
            for &(nid, entry) in set {
                if let Some(e) = raw.entries.get_mut(nat_index(nid).1) {
                    *e = entry;
                }
            }
            let block = cached.clone();
            let second = !msb::test(&inner.bitmap, *b as usize);
            msb::put(&mut inner.bitmap, *b as usize, second);
            out.push((self.geo.nat_addr(*b, second), block));
        }
        self.dev.write_scattered(&mut out)
    }

    /// The checkpoint that [`Nat::flush`] was for is durable.
    pub fn committed(&self) {
        let mut inner = self.inner.lock();
        inner.flushes += 1;
        let mut freed: Vec<Nid> = Vec::new();
        freed.extend(inner.changed.iter().filter(|(_, e)| e.addr == BlockAddr::NULL).map(|(&n, _)| n));
        freed.sort_unstable();
        inner.changed.clear();
        if inner.free.len() < FREE_NIDS_WANTED {
            inner.free.extend(freed.into_iter().take(FREE_NIDS_WANTED));
        }
    }
}

type Sets = BTreeMap<u32, Vec<(Nid, RawNatEntry)>>;

impl Inner {
    fn lookup(&self, nid: Nid) -> Option<NatEntry> {
        if let Some(e) = self.changed.get(&nid) {
            return Some(*e);
        }
        if let Some(e) = self.journal.get(&nid) {
            return Some(NatEntry::committed(e));
        }
        let (b, i) = nat_index(nid);
        let raw: &RawNatBlock = self.blocks.get(&b)?.view();
        raw.entries.get(i).map(NatEntry::committed)
    }

    /// Looks for free nids in the next NAT block, or returns the number of the block that must be read first.
    fn refill(&mut self, geo: &Geometry) -> Option<u32> {
        let b = self.scan;
        if !self.blocks.contains_key(&b) {
            return Some(b);
        }
        self.scan = if b + 1 >= geo.nat_blocks() { 0 } else { b + 1 };
        for i in 0..NAT_PER_BLOCK {
            let nid = Nid(b * NAT_PER_BLOCK + i);
            let free = nid > Nid::ROOT
                && !self.changed.contains_key(&nid)
                && self.lookup(nid).is_some_and(|e| e.addr == BlockAddr::NULL);
            if free {
                self.free.push_back(nid);
            }
        }
        None
    }

    /// Changes grouped by NAT block, and the journal without the entries they replace.
    fn sets(&self) -> (Sets, BTreeMap<Nid, RawNatEntry>) {
        let mut sets = Sets::new();
        let mut journal = self.journal.clone();
        for (&nid, e) in &self.changed {
            journal.remove(&nid);
            sets.entry(nat_index(nid).0).or_default().push((nid, e.raw()));
        }
        (sets, journal)
    }

    fn raw_journal(&self) -> RawNatJournal {
        let mut raw = RawNatJournal::new_zeroed();
        let lost = usize::from(planted(Bug::LostNatEntry));
        raw.count = U16::new(self.journal.len().saturating_sub(lost) as u16);
        for (slot, (&nid, &entry)) in raw.entries.iter_mut().zip(&self.journal) {
            *slot = RawNatJournalEntry { nid: U32::new(nid.0), entry };
        }
        raw
    }

    fn next_free(&self, geo: &Geometry) -> Nid {
        self.free.front().copied().unwrap_or(Nid((self.scan * NAT_PER_BLOCK).clamp(4, geo.max_nid() - 1)))
    }
}
