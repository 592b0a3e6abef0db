//! NAT: the address of each node, free nids, and writing the changes at a checkpoint.
//!
//! Lookup goes through four layers, newest first: changes since the boundary, changes that the checkpoint in progress
//! writes, the summary journal of the last checkpoint, NAT blocks. A nid freed since the last checkpoint stays in one
//! of the first two layers as an empty entry, so it is not reused before the next one.
use crate::block::{SharedBlock, shared};
use crate::clock_cache::{ClockCache, Step};
use crate::error::{Error, Result};
use crate::health::{Health, invariant};
use crate::lock::{Mutex, rank};
use crate::meta::Device;
use foldhash::HashMap;
use segno_format::bits::msb;
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::{NAT_JOURNAL_MAX, RawNatBlock, RawNatEntry, RawNatJournalEntry, nat_index};
use segno_format::summary::Journal;
use segno_format::{Block, BlockAddr, Corrupt, Geometry, Ino, Nid, Structure};
use segno_layout::{NatChanges, flip, nat_entries};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Limit of the cached NAT blocks (4 KiB each).
pub const BLOCKS_CACHED_MAX: usize = if cfg!(test) { 8 } else { 2048 };
/// Free nids collected per scan.
const FREE_NIDS_WANTED: usize = 455;

/// The address of a node, with its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatEntry {
    pub ino: Ino,
    /// `NULL`: free. `NEW`: in use, never written.
    pub addr: BlockAddr,
    pub version: u8,
    /// Whether the last checkpoint has an address for this nid.
    pub in_checkpoint: bool,
}

impl NatEntry {
    fn committed(raw: &RawNatEntry) -> Self {
        let addr = raw.addr();
        Self { ino: raw.owner(), addr, version: raw.version, in_checkpoint: addr != BlockAddr::NULL }
    }
    fn raw(&self) -> RawNatEntry {
        RawNatEntry::new(self.version, self.ino, self.addr)
    }
}

/// Node address table.
pub struct Nat {
    geo: Geometry,
    dev: Arc<Device>,
    health: Arc<Health>,
    inner: Mutex<Inner, { rank::NAT }>,
}

struct Inner {
    changed: HashMap<Nid, NatEntry>,
    /// Changes that the checkpoint in progress writes; only that checkpoint modifies the map.
    frozen: Arc<HashMap<Nid, NatEntry>>,
    /// Changes that take effect once it is durable.
    pending: Option<Pending>,
    journal: BTreeMap<Nid, RawNatEntry>,
    blocks: ClockCache<u32, Box<Block>>,
    bitmap: Vec<u8>,
    free: VecDeque<Nid>,
    /// Next NAT block to scan for free nids.
    scan: u32,
    /// Incremented when block copies are switched, so that a read that raced with it is not cached.
    flushes: u64,
}

struct Pending {
    journal: BTreeMap<Nid, RawNatEntry>,
    bitmap: Vec<u8>,
    /// Blocks written; those beyond the limit of the cache without their content.
    blocks: Vec<(u32, Option<SharedBlock>)>,
}

/// State of a node before the checkpoint in progress placed it.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    pub before: BlockAddr,
    /// Whether the live node still is the one that the checkpoint writes; if not, it was freed since.
    pub live: bool,
}

/// State of the NAT that a checkpoint stores outside the NAT blocks.
pub struct NatFlush {
    pub journal: Vec<RawNatJournalEntry>,
    pub bitmap: Vec<u8>,
    pub next_free_nid: Nid,
    /// NAT blocks written.
    pub blocks: u64,
}

impl Nat {
    /// Loads the NAT of a checkpoint.
    pub fn load(
        geo: Geometry,
        dev: Arc<Device>,
        health: Arc<Health>,
        bitmap: Vec<u8>,
        journal: &Journal<RawNatJournalEntry>,
        next_free_nid: Nid,
    ) -> Result<Self> {
        let inner = Inner {
            changed: HashMap::default(),
            frozen: Arc::default(),
            pending: None,
            journal: nat_entries(journal, &geo)?,
            blocks: ClockCache::default(),
            bitmap,
            free: VecDeque::new(),
            scan: (next_free_nid.0 / NAT_PER_BLOCK).min(geo.nat_blocks().saturating_sub(1)),
            flushes: 0,
        };
        Ok(Self { geo, dev, health, inner: Mutex::new(inner) })
    }

    /// The entry of a nid.
    pub fn get(&self, nid: Nid) -> Result<NatEntry> {
        self.with_entry(nid, |inner| Ok(inner.lookup(nid)))
    }

    /// What `look` finds under the lock; until it does, the block with the entry of `nid` is read.
    fn with_entry<R>(&self, nid: Nid, look: impl Fn(&mut Inner) -> Result<Option<R>>) -> Result<R> {
        if !self.geo.nid_ok(nid) {
            let max = self.geo.max_nid();
            let why = "nid out of range";
            return Err(Corrupt::nid(Structure::NatBlock, nid.0, why, nid.0.into(), max.into()).into());
        }
        loop {
            let flushes = {
                let mut inner = self.inner.lock();
                if let Some(found) = look(&mut inner)? {
                    return Ok(found);
                }
                inner.flushes
            };
            self.load_block(nat_index(nid).0, flushes)?;
        }
    }

    /// The entry of a nid if it is available without I/O.
    pub fn get_cached(&self, nid: Nid) -> Option<NatEntry> {
        self.inner.lock().lookup(nid)
    }

    /// Changes with every checkpoint. Within one epoch an address is not reused for another node.
    pub fn epoch(&self) -> u64 {
        self.inner.lock().flushes
    }

    /// Reads NAT block `b` into the cache. The lock is not held during the read.
    fn load_block(&self, b: u32, flushes: u64) -> Result<()> {
        let addr = {
            let inner = self.inner.lock();
            self.geo.nat_addr(b, msb::test(&inner.bitmap, b as usize))
        };
        let block = self.dev.read(addr)?;
        let mut inner = self.inner.lock();
        if inner.flushes == flushes {
            inner.cache(b, shared(block));
        }
        Ok(())
    }

    /// Allocates a free nid for a node of inode `owner`, or for a new inode if `owner` is `None`.
    pub fn alloc(&self, owner: Option<Ino>) -> Result<Nid> {
        // Each NAT block is read and searched at most once.
        for _ in 0..u64::from(self.geo.nat_blocks()) * 2 + 2 {
            let (b, flushes) = {
                let mut inner = self.inner.lock();
                if let Some(nid) = inner.free.pop_front() {
                    let known = inner.changed.contains_key(&nid) || inner.frozen.contains_key(&nid);
                    invariant!(
                        self.health,
                        !known,
                        "an allocated nid is in use, or was freed since the checkpoint"
                    );
                    let entry = NatEntry {
                        ino: owner.unwrap_or(nid.as_ino()),
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

    /// Frees a nid and returns the address of its node. The nid is not reused before the next checkpoint.
    pub fn free(&self, nid: Nid) -> Result<BlockAddr> {
        let addr = self.change(nid, |old| {
            let version = old.version.wrapping_add(1);
            Some(NatEntry { addr: BlockAddr::NULL, version, ..old })
        })?;
        invariant!(self.health, addr != BlockAddr::NULL, "a node is freed twice");
        Ok(addr)
    }

    /// Sets the new address of a written node. Returns the old one; `NULL` if the nid was freed meanwhile, which it
    /// stays.
    pub fn moved(&self, nid: Nid, addr: BlockAddr) -> Result<BlockAddr> {
        self.change(nid, |old| (old.addr != BlockAddr::NULL).then_some(NatEntry { addr, ..old }))
    }

    /// Sets the address of a node in the checkpoint in progress.
    pub fn place(&self, nid: Nid, addr: BlockAddr) -> Result<Placed> {
        self.with_entry(nid, |inner| {
            let Some(old) = inner.at_boundary(nid) else { return Ok(None) };
            invariant!(self.health, old.addr != BlockAddr::NULL, "a checkpoint places an unknown node");
            let live = !inner.changed.contains_key(&nid);
            Arc::make_mut(&mut inner.frozen).insert(nid, NatEntry { addr, ..old });
            Ok(Some(Placed { before: old.addr, live }))
        })
    }

    /// Fixes the changes that the next checkpoint writes. The gate is closed.
    pub fn freeze(&self) {
        let mut inner = self.inner.lock();
        let ended = inner.frozen.is_empty() && inner.pending.is_none();
        invariant!(self.health, ended, "NAT changes are frozen before the last checkpoint ended", else return);
        inner.frozen = Arc::new(std::mem::take(&mut inner.changed));
    }

    /// Replaces an entry if `f` returns a new one, and returns its old address.
    fn change(&self, nid: Nid, f: impl Fn(NatEntry) -> Option<NatEntry>) -> Result<BlockAddr> {
        // The entry's block may have been evicted.
        self.with_entry(nid, |inner| {
            let Some(old) = inner.lookup(nid) else { return Ok(None) };
            if let Some(new) = f(old) {
                inner.changed.insert(nid, new);
            }
            Ok(Some(old.addr))
        })
    }

    /// Marks the number of an inode that recovery makes as in use, so that it is not allocated.
    pub fn mark_used(&self, ino: Ino) {
        let nid = ino.nid();
        let mut inner = self.inner.lock();
        inner.free.retain(|&n| n != nid);
        let entry = NatEntry { ino, addr: BlockAddr::NEW, version: 0, in_checkpoint: false };
        inner.changed.insert(nid, entry);
    }

    #[cfg(test)]
    pub fn cached_blocks(&self) -> usize {
        self.inner.lock().blocks.len()
    }

    /// Entries changed since the last checkpoint.
    pub fn changed(&self) -> usize {
        self.inner.lock().changed.len()
    }

    /// Writes the frozen changes: small sets to the summary journal, the others to the alternate copies of their
    /// blocks. At unmount the summary journal is emptied too, as nat_bits require.
    pub fn flush(&self, unmount: bool) -> Result<NatFlush> {
        let (frozen, journal, mut bitmap) = {
            let inner = self.inner.lock();
            (inner.frozen.clone(), inner.journal.clone(), inner.bitmap.clone())
        };
        let room = if unmount { 0 } else { NAT_JOURNAL_MAX };
        let changed = frozen.iter().map(|(&nid, e)| (nid, e.raw()));
        let NatChanges { journal, blocks } = NatChanges::place(changed, journal, room, &self.geo);
        let stored = blocks.iter().map(|(_, set)| set.len()).sum::<usize>() + journal.len();
        invariant!(self.health, stored >= frozen.len(), "a NAT change is in neither journal nor block");
        invariant!(self.health, journal.len() <= NAT_JOURNAL_MAX, "the NAT journal exceeds its capacity");
        let blocks = self.write_blocks(&blocks, &mut bitmap)?;
        let mut inner = self.inner.lock();
        let flush = NatFlush {
            journal: journal.iter().map(|(&nid, &entry)| RawNatJournalEntry::new(nid, entry)).collect(),
            bitmap: bitmap.clone(),
            next_free_nid: inner.next_free(&self.geo),
            blocks: blocks.len() as u64,
        };
        inner.pending = Some(Pending { journal, bitmap, blocks });
        Ok(flush)
    }

    /// Writes changed blocks to the copies the bitmap does not select, and flips their bits.
    fn write_blocks(
        &self,
        sets: &[(u32, Vec<(Nid, RawNatEntry)>)],
        bitmap: &mut [u8],
    ) -> Result<Vec<(u32, Option<SharedBlock>)>> {
        let mut new = Vec::with_capacity(sets.len());
        for part in sets.chunks(BLOCKS_CACHED_MAX / 2) {
            let written = self.write_some_blocks(part, bitmap)?;
            let keep = new.is_empty();
            new.extend(written.into_iter().map(|(b, block)| (b, keep.then_some(block))));
        }
        Ok(new)
    }

    /// Writes as many blocks as may be in memory at a time.
    fn write_some_blocks(
        &self,
        sets: &[(u32, Vec<(Nid, RawNatEntry)>)],
        bitmap: &mut [u8],
    ) -> Result<Vec<(u32, SharedBlock)>> {
        let mut out: Vec<(BlockAddr, SharedBlock)> = Vec::with_capacity(sets.len());
        let mut new = Vec::with_capacity(sets.len());
        for (b, set) in sets {
            let cached = self.inner.lock().blocks.get(*b).cloned();
            let mut block = match cached {
                Some(block) => block,
                None => shared(self.dev.read(self.geo.nat_addr(*b, msb::test(bitmap, *b as usize)))?),
            };
            let raw: &mut RawNatBlock = Arc::make_mut(&mut block).view_mut();
            for &(nid, entry) in set {
                let stored = raw.entries.get_mut(nat_index(nid).1).map(|e| *e = entry);
                self.health.present(stored, "a NAT entry is beyond its block")?;
            }
            new.push((*b, block.clone()));
            out.push((self.geo.nat_addr(*b, flip(bitmap, *b)), block));
        }
        self.dev.write_scattered(&mut out)?;
        Ok(new)
    }

    /// Called once the checkpoint that [`Nat::flush`] was for is durable.
    pub fn committed(&self) {
        let frozen = self.inner.lock().frozen.clone();
        let is_free = |e: &NatEntry| e.addr == BlockAddr::NULL;
        let mut freed: Vec<Nid> = frozen.iter().filter(|(_, e)| is_free(e)).map(|(&n, _)| n).collect();
        freed.sort_unstable();
        let mut inner = self.inner.lock();
        inner.flushes += 1;
        let pending = inner.pending.take();
        invariant!(self.health, pending.is_some(), "a checkpoint ends without having written the NAT", else return);
        if let Some(pending) = pending {
            inner.journal = pending.journal;
            inner.bitmap = pending.bitmap;
            for (b, block) in pending.blocks {
                match block {
                    Some(block) => inner.cache(b, block),
                    None => drop(inner.blocks.remove(b)),
                }
            }
        }
        inner.frozen = Arc::default();
        if inner.free.len() < FREE_NIDS_WANTED {
            let unchanged: Vec<Nid> =
                freed.into_iter().filter(|n| !inner.changed.contains_key(n)).take(FREE_NIDS_WANTED).collect();
            inner.free.extend(unchanged);
        }
    }
}

impl Inner {
    fn lookup(&self, nid: Nid) -> Option<NatEntry> {
        self.changed.get(&nid).copied().or_else(|| self.at_boundary(nid))
    }

    /// The entry as of the checkpoint in progress, or of the last one if none is in progress.
    fn at_boundary(&self, nid: Nid) -> Option<NatEntry> {
        if let Some(e) = self.frozen.get(&nid) {
            return Some(*e);
        }
        if let Some(e) = self.journal.get(&nid) {
            return Some(NatEntry::committed(e));
        }
        let (b, i) = nat_index(nid);
        let raw: &RawNatBlock = self.blocks.get(b)?.view();
        raw.entries.get(i).map(NatEntry::committed)
    }

    /// Caches a NAT block as of the last checkpoint; evicts others if the cache is full.
    fn cache(&mut self, b: u32, block: SharedBlock) {
        let over = (self.blocks.len() + 1).saturating_sub(BLOCKS_CACHED_MAX);
        // May take two rounds, as the first may find every block used.
        let step = Step { looks: if over > 0 { usize::MAX } else { 0 }, removals: over };
        self.blocks.evict(step, |_| true, drop);
        self.blocks.insert(b, block);
    }

    /// Scans the next NAT block for free nids, or returns the number of the block to read first.
    fn refill(&mut self, geo: &Geometry) -> Option<u32> {
        let b = self.scan;
        if !self.blocks.contains(b) {
            return Some(b);
        }
        self.scan = if b + 1 >= geo.nat_blocks() { 0 } else { b + 1 };
        for i in 0..NAT_PER_BLOCK {
            let nid = Nid(b * NAT_PER_BLOCK + i);
            let free = nid > Nid::ROOT
                && !self.changed.contains_key(&nid)
                && !self.frozen.contains_key(&nid)
                && self.lookup(nid).is_some_and(|e| e.addr == BlockAddr::NULL);
            if free {
                self.free.push_back(nid);
            }
        }
        None
    }

    fn next_free(&self, geo: &Geometry) -> Nid {
        self.free.front().copied().unwrap_or(Nid((self.scan * NAT_PER_BLOCK).clamp(4, geo.max_nid() - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::test_health;
    use crate::meta::test_geometry;
    use segno_device::MemDevice;
    use segno_format::summary::JOURNAL_BYTES;

    #[test]
    fn a_nid_is_given_out_once() {
        for freed in [false, true] {
            let (geo, health) = (test_geometry(), test_health());
            let dev = Arc::new(Device::new(Arc::new(MemDevice::new(25_600)), geo));
            let (bitmap, journal) = (vec![0; geo.nat_bitmap_bytes()], Journal::decode(&[0; JOURNAL_BYTES]));
            let nat = Nat::load(geo, dev, health.clone(), bitmap, &journal, Nid(4)).unwrap();
            let nid = nat.alloc(None).unwrap();
            if freed {
                nat.free(nid).unwrap();
                nat.freeze();
            }
            assert!(!health.is_stopped());
            nat.inner.lock().free.push_front(nid);
            let again = nat.alloc(None);
            let why = "an allocated nid is in use, or was freed since the checkpoint";
            assert!(matches!(again, Err(Error::Invariant(found)) if found == why), "{again:?}");
            assert!(health.is_stopped());
        }
    }
}
