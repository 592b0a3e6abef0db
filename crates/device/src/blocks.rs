//! Reading the structures of a volume from its device.
use crate::BlockDevice;
use segno_format::{Block, BlockAddr};
use std::io;

/// Blocks that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read block {at}")]
pub struct ReadError {
    /// Address of the first.
    pub at: BlockAddr,
    /// Number of blocks requested.
    pub count: usize,
    /// The device's error.
    pub source: io::Error,
}

impl dyn BlockDevice + '_ {
    /// Reads one block.
    pub fn block(&self, at: BlockAddr) -> Result<Block, ReadError> {
        let mut one = [Block::zeroed()];
        self.read(at.0.into(), &mut one).map_err(|source| ReadError { at, count: 1, source })?;
        let [block] = one;
        Ok(block)
    }
}

impl segno_layout::Reader for dyn BlockDevice + '_ {
    type Error = ReadError;

    fn end(&self) -> u32 {
        u32::try_from(self.block_count()).unwrap_or(u32::MAX)
    }

    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>, ReadError> {
        self.block(at).map(Some)
    }

    fn read_blocks(&self, at: BlockAddr, count: u32) -> Result<Vec<Option<Block>>, ReadError> {
        let mut blocks = vec![Block::zeroed(); count as usize];
        let failed = |source| ReadError { at, count: count as usize, source };
        self.read(at.0.into(), &mut blocks).map_err(failed)?;
        Ok(blocks.into_iter().map(Some).collect())
    }
}
