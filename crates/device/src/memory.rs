//! A sparse device in memory, with copy-on-write snapshots. A block that repeats one word is stored as that
//! word, so that experiments with such file data fit in memory at full scale.
use crate::{BlockDevice, bounds};
use parking_lot::RwLock;
use segno_format::{BLOCK_SIZE, Block};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of one block, shared between devices, snapshots and logs until written.
type SharedBlock = Arc<[u8; BLOCK_SIZE]>;

/// Blocks in a chunk: the first write to a chunk after a snapshot copies its pointers.
const CHUNK: u64 = 64;
/// Number of locks; consecutive chunks use different ones.
const SHARDS: u64 = 16;

/// The content of a block.
#[derive(Clone, Debug)]
enum Slot {
    /// These bytes repeated; initially zeros.
    Word([u8; WORD]),
    Bytes(SharedBlock),
}

const WORD: usize = 16;
const _: () = assert!(size_of::<Slot>() == 24);
const ZEROS: Slot = Slot::Word([0; WORD]);

impl Slot {
    fn read(&self, into: &mut [u8; BLOCK_SIZE]) {
        match self {
            Self::Word(word) => into.as_chunks_mut::<WORD>().0.fill(*word),
            Self::Bytes(bytes) => *into = **bytes,
        }
    }

    fn write(&mut self, bytes: &[u8; BLOCK_SIZE]) {
        match (bytes.first_chunk::<WORD>(), &mut *self) {
            // A block that equals itself one word on repeats its first word.
            (Some(first), _) if bytes.get(WORD..) == bytes.get(..BLOCK_SIZE - WORD) => {
                *self = Self::Word(*first)
            }
            (_, Self::Bytes(shared)) => match Arc::get_mut(shared) {
                Some(own) => *own = *bytes,
                None => *shared = Arc::new(*bytes),
            },
            _ => *self = Self::Bytes(Arc::new(*bytes)),
        }
    }
}

/// A run of blocks.
type Chunk = [Slot; CHUNK as usize];
/// The non-empty chunks of one shard.
type Chunks = HashMap<u64, Arc<Chunk>>;

/// A device in memory. It uses memory for non-zero blocks only, whatever its size.
#[derive(Debug)]
pub struct MemDevice {
    block_count: u64,
    shards: Box<[RwLock<Arc<Chunks>>]>,
}

/// The contents of a [`MemDevice`] at one moment. Taking, cloning and opening one copies no blocks.
#[derive(Clone, Debug)]
pub struct Snapshot {
    block_count: u64,
    shards: Box<[Arc<Chunks>]>,
}

impl Snapshot {
    /// Number of 4 KiB blocks.
    #[must_use]
    pub fn block_count(&self) -> u64 {
        self.block_count
    }
}

impl MemDevice {
    /// A device of zeros.
    #[must_use]
    pub fn new(block_count: u64) -> Self {
        Self { block_count, shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }

    /// The current contents. Concurrent writes may be included in part.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shards = self.shards.iter().map(|s| Arc::clone(&s.read())).collect();
        Snapshot { block_count: self.block_count, shards }
    }

    /// A new device with the snapshot's contents.
    #[must_use]
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        let shards = snapshot.shards.iter().map(|s| RwLock::new(Arc::clone(s))).collect();
        Self { block_count: snapshot.block_count, shards }
    }

    /// Addresses of the blocks that are not all zeros, ascending.
    #[must_use]
    pub fn filled(&self) -> Vec<u64> {
        let mut filled = Vec::new();
        for shard in &self.shards {
            for (&chunk, slots) in shard.read().iter() {
                let all = (chunk.saturating_mul(CHUNK)..).zip(slots.iter());
                filled.extend(
                    all.filter(|(_, slot)| !matches!(slot, Slot::Word(word) if *word == [0; WORD]))
                        .map(|(addr, _)| addr),
                );
            }
        }
        filled.sort_unstable();
        filled
    }

    fn shard(&self, chunk: u64) -> Option<&RwLock<Arc<Chunks>>> {
        self.shards.get((chunk % SHARDS) as usize)
    }

    /// Calls `change` on each chunk that the blocks lie in, with the part of the chunk and of the blocks.
    fn update(&self, addr: u64, count: u64, mut change: impl FnMut(&mut [Slot], Range<usize>)) {
        for run in runs(addr, count) {
            let Some(shard) = self.shard(run.chunk) else { continue };
            let mut shard = shard.write();
            let chunk = Arc::make_mut(&mut shard)
                .entry(run.chunk)
                .or_insert_with(|| Arc::new([const { ZEROS }; CHUNK as usize]));
            change(Arc::make_mut(chunk).get_mut(run.within).unwrap_or_default(), run.of_whole);
        }
    }

    /// Writes a block without copying it: the device shares it until the block is written again.
    pub fn write_shared(&self, addr: u64, block: &Arc<[u8; BLOCK_SIZE]>) -> io::Result<()> {
        bounds::check(self.block_count, addr, 1)?;
        self.update(addr, 1, |slots, _| slots.fill(Slot::Bytes(Arc::clone(block))));
        Ok(())
    }

    /// Removes entire chunks; the cost is bounded by the number of chunks stored, not by the range.
    fn remove_chunks(&self, chunks: Range<u64>) {
        let held: u64 = self.shards.iter().map(|s| s.read().len() as u64).sum();
        if chunks.end.saturating_sub(chunks.start) <= held {
            for chunk in chunks {
                if let Some(shard) = self.shard(chunk).filter(|s| s.read().contains_key(&chunk)) {
                    Arc::make_mut(&mut shard.write()).remove(&chunk);
                }
            }
        } else {
            for shard in &self.shards {
                if shard.read().keys().any(|c| chunks.contains(c)) {
                    Arc::make_mut(&mut shard.write()).retain(|c, _| !chunks.contains(c));
                }
            }
        }
    }
}

impl BlockDevice for MemDevice {
    fn block_count(&self) -> u64 {
        self.block_count
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        bounds::check(self.block_count, addr, into.len() as u64)?;
        for run in runs(addr, into.len() as u64) {
            let into = into.get_mut(run.of_whole).unwrap_or_default();
            let shard = self.shard(run.chunk).map(RwLock::read);
            match shard.as_ref().and_then(|s| s.get(&run.chunk)).and_then(|c| c.get(run.within)) {
                Some(slots) => {
                    for (block, slot) in into.iter_mut().zip(slots) {
                        slot.read(&mut block.0);
                    }
                }
                None => into.iter_mut().for_each(|b| b.0.fill(0)),
            }
        }
        Ok(())
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        bounds::check(self.block_count, addr, blocks.len() as u64)?;
        self.update(addr, blocks.len() as u64, |slots, part| {
            for (slot, block) in slots.iter_mut().zip(blocks.get(part).unwrap_or_default()) {
                slot.write(&block.0);
            }
        });
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        bounds::check(self.block_count, addr, count)?;
        let end = addr.saturating_add(count);
        let whole = addr.div_ceil(CHUNK)..end / CHUNK;
        if whole.is_empty() {
            self.update(addr, count, |slots, _| slots.fill(ZEROS));
        } else {
            let (head_end, tail) = (whole.start.saturating_mul(CHUNK), whole.end.saturating_mul(CHUNK));
            self.update(addr, head_end.saturating_sub(addr), |slots, _| slots.fill(ZEROS));
            self.update(tail, end.saturating_sub(tail), |slots, _| slots.fill(ZEROS));
            self.remove_chunks(whole);
        }
        Ok(())
    }

    fn next_data(&self, addr: u64) -> u64 {
        let chunk = addr / CHUNK;
        if self.shard(chunk).is_some_and(|s| s.read().contains_key(&chunk)) {
            return addr;
        }
        let after = |s: &RwLock<Arc<Chunks>>| s.read().keys().copied().filter(|&c| c > chunk).min();
        let next = self.shards.iter().filter_map(after).min();
        next.map_or(self.block_count.max(addr), |c| c.saturating_mul(CHUNK))
    }

    fn read_only(&self) -> bool {
        false
    }
}

/// A run of blocks inside one chunk.
struct Run {
    chunk: u64,
    /// Which blocks of the chunk.
    within: Range<usize>,
    /// Which blocks of the whole access.
    of_whole: Range<usize>,
}

/// Splits an access at chunk boundaries.
fn runs(addr: u64, count: u64) -> impl Iterator<Item = Run> {
    let end = addr.saturating_add(count);
    let mut at = addr;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let chunk = at / CHUNK;
        let run_end = chunk.saturating_add(1).saturating_mul(CHUNK).min(end);
        let first = (at % CHUNK) as usize;
        let len = run_end.saturating_sub(at) as usize;
        let of_whole = (at.saturating_sub(addr)) as usize;
        at = run_end;
        Some(Run { chunk, within: first..first + len, of_whole: of_whole..of_whole + len })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fill: u8) -> Block {
        Block([fill; BLOCK_SIZE])
    }

    fn first_byte(device: &MemDevice, addr: u64) -> u8 {
        let mut back = [Block::zeroed()];
        device.read(addr, &mut back).unwrap();
        back[0].0[0]
    }

    #[test]
    fn a_huge_sparse_device_costs_what_is_written() {
        let blocks = 1 << 30;
        let device = MemDevice::new(blocks);
        for addr in [0, 63, 64, blocks - 1] {
            device.write(addr, &[&block(7)]).unwrap();
            assert_eq!(first_byte(&device, addr), 7);
        }
        assert_eq!(first_byte(&device, blocks - 2), 0);
        assert_eq!(device.filled(), [0, 63, 64, blocks - 1]);
        device.discard(1, blocks - 2).unwrap();
        assert_eq!([0, 63, 64, blocks - 1].map(|addr| first_byte(&device, addr)), [7, 0, 0, 7]);
        let held: usize = device.shards.iter().map(|s| s.read().len()).sum();
        assert!(held <= 2, "{held} chunks are left");
    }

    #[test]
    fn a_repeated_word_takes_no_block() {
        let device = MemDevice::new(64);
        let held = |d: &MemDevice| {
            let chunks = d.snapshot().shards[0].clone();
            chunks[&0].iter().filter(|s| matches!(s, Slot::Bytes(_))).count()
        };
        let mut mixed = block(7);
        mixed.0[4095] = 8;
        let word: Vec<u8> = (100..100 + WORD as u8).collect();
        let repeated = Block(word.repeat(BLOCK_SIZE / WORD).try_into().unwrap());
        for (content, blocks) in [
            (block(1), 0),
            (mixed.clone(), 1),
            (block(0), 0),
            (mixed.clone(), 1),
            (mixed, 1),
            (repeated, 0),
            (block(9), 0),
        ] {
            device.write(3, &[&content]).unwrap();
            let mut back = [Block::zeroed()];
            device.read(3, &mut back).unwrap();
            assert_eq!(back[0].0, content.0);
            assert_eq!(held(&device), blocks);
        }
    }
}
