//! Reading blocks of the volume, whose first block may be anywhere in the source. A block that cannot be read is a result,
//! not an error.
use segno_device::BlockDevice;
use segno_format::{Block, BlockAddr};
use std::convert::Infallible;

/// The volume within the source.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    device: &'a dyn BlockDevice,
    base: i64,
}

impl<'a> Reader<'a> {
    /// `base` is the block of the source that block 0 of the volume is at; negative if the start is missing.
    #[must_use]
    pub fn new(device: &'a dyn BlockDevice, base: i64) -> Self {
        Self { device, base }
    }

    /// Block of the source that block 0 of the volume is at.
    #[must_use]
    pub fn base(&self) -> i64 {
        self.base
    }

    /// One past the last address of the volume that the source can have.
    #[must_use]
    pub fn end(&self) -> u32 {
        let blocks = i64::try_from(self.device.block_count()).unwrap_or(i64::MAX);
        u32::try_from(blocks.saturating_sub(self.base)).unwrap_or(if self.base > blocks {
            0
        } else {
            u32::MAX
        })
    }

    /// Place of a block in the source.
    fn place(&self, addr: BlockAddr) -> Option<u64> {
        let at = u64::try_from(i64::from(addr.0).checked_add(self.base)?).ok()?;
        (at < self.device.block_count()).then_some(at)
    }

    /// A block; `None` if it lies outside the source or cannot be read.
    #[must_use]
    pub fn block(&self, addr: BlockAddr) -> Option<Block> {
        let mut one = [Block::zeroed()];
        self.device.read(self.place(addr)?, &mut one).ok()?;
        let [block] = one;
        Some(block)
    }

    /// Consecutive blocks, each `None` if it cannot be read.
    #[must_use]
    pub fn blocks(&self, addr: BlockAddr, count: u32) -> Vec<Option<Block>> {
        let mut all = vec![Block::zeroed(); count as usize];
        let whole = self.place(addr).filter(|_| self.place(addr.offset(count.saturating_sub(1))).is_some());
        if whole.is_some_and(|at| self.device.read(at, &mut all).is_ok()) {
            return all.into_iter().map(Some).collect();
        }
        (0..count).map(|i| self.block(addr.offset(i))).collect()
    }
}

impl segno_layout::Reader for Reader<'_> {
    type Error = Infallible;

    fn end(&self) -> u32 {
        Self::end(self)
    }

    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>, Infallible> {
        Ok(self.block(at))
    }

    fn read_blocks(&self, at: BlockAddr, count: u32) -> Result<Vec<Option<Block>>, Infallible> {
        Ok(self.blocks(at, count))
    }
}
