//! Location of a journal: consecutive blocks of a device, or a whole device.
use crate::error::{Error, Result};
use segno_device::{BlockDevice, Operation, Overlay, Zone, ZoneKind};
use segno_format::Block;
use std::sync::Arc;

/// Consecutive blocks of a device, counted from 0.
#[derive(Clone)]
pub struct Area {
    dev: Arc<dyn BlockDevice>,
    start: u64,
    blocks: u64,
}

impl Area {
    /// A whole device or side file.
    #[must_use]
    pub fn whole(dev: Arc<dyn BlockDevice>) -> Self {
        let blocks = dev.block_count();
        Self { dev, start: 0, blocks }
    }

    /// The gap between a volume of `volume_blocks` and the end of its device, from a multiple of 2 MiB on.
    /// Linux and f2fs-tools do not use it. `None` if there is no gap, or if it has zones that must be written
    /// in order.
    #[must_use]
    pub fn tail(dev: Arc<dyn BlockDevice>, volume_blocks: u64) -> Option<Self> {
        let start = volume_blocks.checked_next_multiple_of(segno_format::BLOCKS_PER_SEG.into())?;
        let blocks = dev.block_count().checked_sub(start).filter(|&n| n > 0)?;
        let in_order = |zone: &Zone| zone.kind == ZoneKind::Sequential && zone.start + zone.blocks > start;
        let overwritten = !dev.zones().ok()?.iter().any(in_order);
        overwritten.then_some(Self { dev, start, blocks })
    }

    /// Its first blocks, up to `most`.
    #[must_use]
    pub fn first(self, most: u64) -> Self {
        Self { blocks: self.blocks.min(most), ..self }
    }

    /// Its blocks after the first `blocks`.
    #[must_use]
    pub fn after(self, blocks: u64) -> Self {
        let skipped = blocks.min(self.blocks);
        Self { start: self.start + skipped, blocks: self.blocks - skipped, ..self }
    }

    /// The same blocks, with writes kept in memory.
    #[must_use]
    pub fn in_memory(&self) -> Self {
        Self { dev: Arc::new(Overlay::new(self.dev.clone())), ..*self }
    }

    /// Its first block on the device.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether it is a whole device or file.
    pub(crate) fn is_whole(&self) -> bool {
        self.start == 0
    }

    /// Whether it may have holes that get their storage when they are written.
    pub(crate) fn may_have_holes(&self) -> bool {
        let host = self.dev.host_storage().ok().flatten();
        host.is_some_and(|host| host.allocated < self.dev.block_count())
    }

    /// The first block from `at` on that may not be zero, or the end.
    pub(crate) fn next_data(&self, at: u64) -> u64 {
        if at >= self.blocks {
            return self.blocks;
        }
        self.dev.next_data(self.start + at).saturating_sub(self.start).min(self.blocks)
    }

    pub(crate) fn read(&self, at: u64, into: &mut [Block]) -> Result<()> {
        self.dev.read(self.start + at, into).map_err(Error::io(Operation::Read, at))
    }

    pub(crate) fn write(&self, at: u64, blocks: &[&Block]) -> Result<()> {
        self.dev.write(self.start + at, blocks).map_err(Error::io(Operation::Write, at))
    }

    pub(crate) fn flush(&self) -> Result<()> {
        self.dev.flush().map_err(Error::io(Operation::Flush, 0))
    }
}

impl std::fmt::Debug for Area {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Area({} blocks from {})", self.blocks, self.start)
    }
}
