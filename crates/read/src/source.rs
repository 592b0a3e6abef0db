//! Sources of a volume's bytes.
use segno_format::{BLOCK_SIZE, Block, BlockAddr};
use segno_layout::Reader;
use zerocopy::IntoBytes;

/// The bytes of a volume.
pub trait ReadAt {
    /// Why reading fails.
    type Error;

    /// Fills a buffer with the bytes from `offset` on, or fails.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Self::Error>;
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    type Error = R::Error;

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), R::Error> {
        (**self).read_at(offset, into)
    }
}

/// A read beyond the end of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len} bytes at byte {offset} are beyond the end of the source")]
pub struct OutOfRange {
    /// First byte.
    pub offset: u64,
    /// Bytes to be read.
    pub len: usize,
}

impl ReadAt for [u8] {
    type Error = OutOfRange;

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let len = into.len();
        let start = usize::try_from(offset).ok();
        let range = start.and_then(|start| Some(start..start.checked_add(len)?));
        let bytes = range.and_then(|range| self.get(range)).ok_or(OutOfRange { offset, len })?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

/// The blocks of a source, whose length only its errors show.
pub(crate) struct Blocks<R>(pub(crate) R);

impl<R: ReadAt> Reader for Blocks<R> {
    type Error = R::Error;

    fn end(&self) -> u32 {
        u32::MAX
    }

    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>, R::Error> {
        let mut block = Block::zeroed();
        self.0.read_at(u64::from(at.0).saturating_mul(BLOCK_SIZE as u64), block.as_mut_bytes())?;
        Ok(Some(block))
    }
}
