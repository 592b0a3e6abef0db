//! Where blocks come from.
use alloc::vec::Vec;
use core::convert::Infallible;
use segno_format::{Block, BlockAddr, Corrupt, Structure};

/// A source of a volume's blocks: a device, what a device would be with changes, or whatever is left of a damaged one.
pub trait Reader {
    /// Why reading ended; a source that leaves out what it cannot read has none.
    type Error;

    /// One past the last address that it can have.
    fn end(&self) -> u32;

    /// A block. `None` is a block that the source leaves out.
    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>, Self::Error>;

    /// Consecutive blocks.
    fn read_blocks(&self, at: BlockAddr, count: u32) -> Result<Vec<Option<Block>>, Self::Error> {
        (0..count).map(|i| self.read_block(at.offset(i))).collect()
    }
}

impl<R: Reader + ?Sized> Reader for &R {
    type Error = R::Error;

    fn end(&self) -> u32 {
        (**self).end()
    }

    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>, R::Error> {
        (**self).read_block(at)
    }

    fn read_blocks(&self, at: BlockAddr, count: u32) -> Result<Vec<Option<Block>>, R::Error> {
        (**self).read_blocks(at, count)
    }
}

/// The damage that a block left out is.
pub(crate) fn left_out(what: Structure, at: BlockAddr) -> Corrupt {
    Corrupt::block(what, at.0.into(), "the block cannot be read", 0, 1)
}

/// What was read from a source that leaves out what it cannot read.
pub fn certain<T>(read: Result<T, Infallible>) -> T {
    let Ok(value) = read;
    value
}
