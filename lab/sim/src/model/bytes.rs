//! The contents of a file: a size, and the non-zero blocks.
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
const LEN: usize = 4096;
/// One block's bytes.
pub type Page = Arc<[u8; LEN]>;

/// A block of a hole.
pub const ZEROS: [u8; LEN] = [0; LEN];

/// Bytes beyond the size are zero, so equal contents are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    size: u64,
    blocks: BTreeMap<u64, Page>,
}

impl Bytes {
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes of a block; zeros in a hole.
    #[must_use]
    pub fn block(&self, index: u64) -> &[u8; LEN] {
        self.blocks.get(&index).map_or(&ZEROS, |p| p)
    }

    /// Numbers of the blocks that are not all zeros.
    pub fn indices(&self) -> impl Iterator<Item = u64> {
        self.blocks.keys().copied()
    }

    /// Bytes of the file; short at its end.
    #[must_use]
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(len as u64));
        let mut out = Vec::new();
        for (index, part) in blocks_of(offset..end) {
            out.extend_from_slice(self.block(index).get(part).unwrap_or_default());
        }
        out
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset.saturating_add(data.len() as u64);
        let mut rest = data;
        for (index, part) in blocks_of(offset..end) {
            let (now, later) = rest.split_at(part.len());
            match now.first_chunk() {
                Some(&ZEROS) => drop(self.blocks.remove(&index)),
                Some(whole) => drop(self.blocks.insert(index, Arc::new(*whole))),
                None => {
                    self.edit(index, |block| block.get_mut(part).unwrap_or_default().copy_from_slice(now));
                }
            }
            rest = later;
        }
        if !data.is_empty() {
            self.size = self.size.max(end);
        }
    }

    /// Zeroes a range; the size does not change.
    pub fn zero(&mut self, range: Range<u64>) {
        let touched: Vec<u64> =
            self.blocks.range(range.start / BLOCK..range.end.div_ceil(BLOCK)).map(|(&i, _)| i).collect();
        for index in touched {
            let within = |pos: u64| pos.saturating_sub(index * BLOCK).min(BLOCK) as usize;
            let part = within(range.start)..within(range.end);
            self.edit(index, |block| block.get_mut(part).unwrap_or_default().fill(0));
        }
    }

    pub fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.zero(size..self.size);
        }
        self.size = size;
    }

    /// Removes whole blocks; later blocks move down.
    pub fn collapse(&mut self, range: Range<u64>) {
        let (start, end) = (range.start / BLOCK, range.end / BLOCK);
        self.move_blocks(|i| match i {
            i if i < start => Some(i),
            i if i < end => None,
            i => Some(i - (end - start)),
        });
        self.size -= range.end - range.start;
    }

    /// Inserts a hole of whole blocks.
    pub fn insert(&mut self, range: Range<u64>) {
        let (start, end) = (range.start / BLOCK, range.end / BLOCK);
        self.move_blocks(|i| Some(if i < start { i } else { i + (end - start) }));
        self.size += range.end - range.start;
    }

    fn move_blocks(&mut self, to: impl Fn(u64) -> Option<u64>) {
        let old = std::mem::take(&mut self.blocks);
        self.blocks = old.into_iter().filter_map(|(i, page)| Some((to(i)?, page))).collect();
    }

    fn edit(&mut self, index: u64, change: impl FnOnce(&mut [u8; LEN])) {
        let mut block = *self.block(index);
        change(&mut block);
        if block == ZEROS {
            self.blocks.remove(&index);
        } else {
            self.blocks.insert(index, Arc::new(block));
        }
    }
}

/// The blocks a range touches, each with the part of it that lies in the range.
fn blocks_of(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = range.end;
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let index = at / BLOCK;
        let stop = end.min((index + 1) * BLOCK);
        let part = (at - index * BLOCK) as usize..(stop - index * BLOCK) as usize;
        at = stop;
        Some((index, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_vector() {
        let mut rng = segno_testkit::Rng::new(5);
        let (mut bytes, mut plain) = (Bytes::default(), Vec::<u8>::new());
        for step in 0..2000u32 {
            let (a, b) = (rng.below(20_000) as usize, rng.below(9000) as usize);
            let block = BLOCK as usize;
            let (at, len) = (a / block * block, (b / block + 1) * block);
            match rng.below(6) {
                0 | 1 => {
                    let data = vec![step as u8; b];
                    bytes.write(a as u64, &data);
                    if b > 0 {
                        plain.resize(plain.len().max(a + b), 0);
                        plain[a..a + b].copy_from_slice(&data);
                    }
                }
                2 => {
                    bytes.set_size(a as u64);
                    plain.resize(a, 0);
                }
                3 => {
                    bytes.zero(a as u64..(a + b) as u64);
                    let end = plain.len().min(a + b);
                    plain.get_mut(a..end).unwrap_or_default().fill(0);
                }
                4 if at + len < plain.len() => {
                    bytes.collapse(at as u64..(at + len) as u64);
                    plain.drain(at..at + len);
                }
                5 if at < plain.len() => {
                    bytes.insert(at as u64..(at + len) as u64);
                    plain.splice(at..at, vec![0; len]);
                }
                _ => {}
            }
            assert_eq!(bytes.size(), plain.len() as u64, "step {step}");
            assert!(bytes.read(0, plain.len() + 5) == plain, "step {step}");
            assert!(bytes.blocks.values().all(|p| **p != ZEROS), "step {step}");
        }
    }
}
