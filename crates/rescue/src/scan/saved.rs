//! The result of a scan, saved to a file, so that a failing source is read only once.
use super::{BadBlocks, Candidate, Found};
use crate::RescueError;
use segno_device::BlockDevice;
use segno_format::{Block, crc};
use std::path::Path;

const MAGIC: &[u8; 16] = b"segno scan 1\n\0\0\0";
/// Nodes that are compared with the source.
const PROBES: usize = 64;

impl Found {
    /// The bytes to keep, for a volume that starts at byte `offset` of the source.
    #[must_use]
    pub fn to_bytes(&self, blocks: u64, offset: u64) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let head = [blocks, offset, self.base.cast_unsigned(), self.foreign as u64];
        head.iter().for_each(|n| out.extend(n.to_le_bytes()));
        for list in [&self.superblocks, &self.checkpoints] {
            out.extend((list.len() as u64).to_le_bytes());
            list.iter().for_each(|n| out.extend(n.to_le_bytes()));
        }
        out.extend((self.bad.ranges().len() as u64).to_le_bytes());
        self.bad.ranges().iter().flat_map(|r| [r.start, r.end]).for_each(|n| out.extend(n.to_le_bytes()));
        out.extend((self.nodes.len() as u64).to_le_bytes());
        for n in &self.nodes {
            out.extend(n.cp_ver.to_le_bytes());
            let words = [n.addr, n.nid, n.ino, n.flag, n.next, n.ctime, n.generation];
            words.iter().for_each(|n| out.extend(n.to_le_bytes()));
        }
        out.extend(crc(u32::MAX, &out).to_le_bytes());
        out
    }

    /// What [`Found::to_bytes`] kept, with the byte that the volume starts at. `blocks` is the size of the source.
    pub fn from_bytes(bytes: &[u8], blocks: u64, path: &Path) -> Result<(Self, u64), RescueError> {
        let bad = |why| RescueError::BadScan { path: path.to_owned(), why };
        let whole = bytes.split_last_chunk::<4>().filter(|(b, sum)| crc(u32::MAX, b).to_le_bytes() == **sum);
        let body = whole.and_then(|(body, _)| body.strip_prefix(MAGIC));
        let mut from = Fields(body.ok_or_else(|| bad("is no file of an earlier search, or is damaged"))?);
        if from.long() != Some(blocks) {
            return Err(bad("is of a source of another size"));
        }
        from.found().filter(|_| from.0.is_empty()).ok_or_else(|| bad("has impossible numbers"))
    }

    /// Whether some nodes are still in the source; unreadable blocks are not counted.
    #[must_use]
    pub fn is_of(&self, device: &dyn BlockDevice) -> bool {
        let step = self.nodes.len().div_ceil(PROBES).max(1);
        let blocks = u32::try_from(device.block_count()).unwrap_or(u32::MAX);
        let mut one = [Block::zeroed()];
        self.nodes.iter().step_by(step).all(|n| {
            let at = i64::from(n.addr) + self.base;
            let unreadable = device.read(at.cast_unsigned(), &mut one).is_err();
            let [block] = &one;
            let there = Candidate::of(block, at as u32, blocks);
            unreadable || there.map(|there| Candidate { addr: n.addr, ..there }) == Some(*n)
        })
    }
}

/// Numbers from the front of bytes.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn long(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn word(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.long()?;
        (0..count).map(|_| one(self)).collect()
    }

    fn found(&mut self) -> Option<(Found, u64)> {
        let (offset, base, foreign) = (self.long()?, self.long()?.cast_signed(), self.long()?);
        let (superblocks, checkpoints) = (self.list(Self::word)?, self.list(Self::word)?);
        let bad = self.list(|from| Some(from.long()?..from.long()?))?;
        let ascending = bad.iter().all(|r| r.start < r.end) && bad.is_sorted_by(|a, b| a.end <= b.start);
        if !ascending || base.unsigned_abs() > u32::MAX.into() {
            return None;
        }
        let bad = BadBlocks::of(bad);
        let nodes = self.list(Self::node)?;
        let found = Found {
            nodes,
            base,
            superblocks,
            marks: Vec::new(),
            checkpoints,
            bad,
            foreign: foreign as usize,
        };
        Some((found, offset))
    }

    fn node(&mut self) -> Option<Candidate> {
        let cp_ver = self.long()?;
        let (addr, nid, ino, flag) = (self.word()?, self.word()?, self.word()?, self.word()?);
        let (next, ctime, generation) = (self.word()?, self.word()?, self.word()?);
        Some(Candidate { addr, nid, ino, flag, cp_ver, next, ctime, generation, rank: 0, chain: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_comes_back() {
        let node = Candidate {
            addr: 5,
            nid: 6,
            ino: 7,
            flag: 8,
            cp_ver: u64::MAX,
            next: 9,
            ctime: 10,
            generation: 11,
            rank: 0,
            chain: 0,
        };
        let found = Found {
            nodes: vec![node, Candidate { addr: 50, ..node }],
            base: -3,
            superblocks: vec![1],
            marks: Vec::new(),
            checkpoints: vec![512, 1024],
            bad: BadBlocks::of(vec![3..5, 9..10]),
            foreign: 4,
        };
        let (bytes, path) = (found.to_bytes(1000, 512), Path::new("f"));
        let (back, offset) = Found::from_bytes(&bytes, 1000, path).unwrap();
        assert_eq!((format!("{back:?}"), offset), (format!("{found:?}"), 512));
        assert!(Found::from_bytes(&bytes, 1001, path).is_err(), "another size");
        for end in 0..bytes.len() {
            assert!(Found::from_bytes(&bytes[..end], 1000, path).is_err(), "cut at {end}");
        }
        let of = |found: Found| Found::from_bytes(&found.to_bytes(1000, 512), 1000, path);
        assert!(of(Found { base: i64::MIN, ..Found::default() }).is_err(), "base");
        let bad = BadBlocks::of(vec![3..5, 4..9]);
        assert!(of(Found { bad, ..Found::default() }).is_err(), "ranges");
        let mut longer = bytes[..bytes.len() - 4].to_vec();
        longer.push(0);
        longer.extend(crc(u32::MAX, &longer).to_le_bytes());
        assert!(Found::from_bytes(&longer, 1000, path).is_err(), "something follows");
    }
}
