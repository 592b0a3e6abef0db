//! Blocks that the walk needs soon, read together in order of their addresses.
use crate::CheckError;
use crate::evidence::{Reader, runs};
use segno_format::{Block, BlockAddr};
use std::collections::HashMap;

/// Blocks kept: 1 MiB.
pub(crate) const LIMIT: usize = 256;
/// Longest gap of unwanted blocks that a read may span. The requested blocks are scattered, so larger
/// gaps would mostly waste bandwidth.
const GAP: u32 = 4;

pub(crate) struct Ahead<'v> {
    reader: Reader<'v>,
    kept: HashMap<BlockAddr, Box<Block>>,
}

impl<'v> Ahead<'v> {
    pub(crate) fn new(reader: Reader<'v>) -> Self {
        Self { reader, kept: HashMap::new() }
    }

    /// Reads blocks that will be needed, up to the limit. A single block is not read ahead.
    pub(crate) fn want(&mut self, addrs: impl IntoIterator<Item = BlockAddr>) {
        let mut addrs: Vec<_> = addrs.into_iter().filter(|a| !self.kept.contains_key(a)).collect();
        if addrs.len() < 2 {
            return;
        }
        addrs.truncate(LIMIT);
        self.keep(read(self.reader, addrs));
    }

    /// Keeps blocks that were read.
    pub(crate) fn keep(&mut self, blocks: Vec<(BlockAddr, Box<Block>)>) {
        if self.kept.len().saturating_add(blocks.len()) > LIMIT {
            self.kept.clear();
        }
        self.kept.extend(blocks);
    }

    /// A block that was read ahead.
    pub(crate) fn peek(&self, addr: BlockAddr) -> Option<&Block> {
        self.kept.get(&addr).map(Box::as_ref)
    }

    /// Any block; one that was read ahead is not kept any longer.
    pub(crate) fn block(&mut self, addr: BlockAddr) -> Result<Block, CheckError> {
        match self.kept.remove(&addr) {
            Some(block) => Ok(*block),
            None => self.reader.block(addr),
        }
    }
}

/// Reads blocks in address order and skips unreadable ones.
pub(crate) fn read(reader: Reader<'_>, mut addrs: Vec<BlockAddr>) -> Vec<(BlockAddr, Box<Block>)> {
    addrs.sort_unstable();
    addrs.dedup();
    let mut found = Vec::with_capacity(addrs.len());
    let mut runs = runs::join(addrs.iter().copied(), GAP);
    let mut left = addrs.iter().copied().peekable();
    runs::read(
        reader,
        runs::IN_FLIGHT,
        || runs.next(),
        |run, blocks| {
            while left.next_if(|a| *a < run.start).is_some() {}
            while let Some(addr) = left.next_if(|a| *a < run.end()) {
                if let Some(block) = blocks.get((addr.0 - run.start.0) as usize) {
                    found.push((addr, Box::new(block.clone())));
                }
            }
        },
    );
    found
}
