//! The device as the engine sees it: block addresses instead of numbers, the engine's errors, bounds of the main area.
use super::Durable;
use crate::error::{Error, Result};
use segno_device::BlockDevice;
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Corrupt, Geometry, Structure};
use std::sync::Arc;

/// Most blocks gathered into one write.
const GATHER_MAX: usize = 256;

/// See the module.
pub struct Device {
    dev: Arc<dyn BlockDevice>,
    geo: Geometry,
    durable: Durable,
}

impl Device {
    pub fn new(dev: Arc<dyn BlockDevice>, geo: Geometry) -> Self {
        Self { dev, geo, durable: Durable::default() }
    }

    /// The device itself, for what is no part of the volume.
    pub fn shared(&self) -> Arc<dyn BlockDevice> {
        self.dev.clone()
    }

    /// The same, borrowed.
    pub fn raw(&self) -> &dyn BlockDevice {
        &*self.dev
    }

    fn error(op: &'static str, at: BlockAddr) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { op, at: at.0.into(), source }
    }

    /// One block from anywhere.
    pub fn read(&self, addr: BlockAddr) -> Result<Block> {
        let mut one = [Block::zeroed()];
        self.read_into(addr, &mut one)?;
        let [block] = one;
        Ok(block)
    }

    /// Consecutive blocks from anywhere.
    pub fn read_into(&self, addr: BlockAddr, into: &mut [Block]) -> Result<()> {
        self.dev.read(addr.0.into(), into).map_err(Self::error("read", addr))
    }

    /// One block that must lie in the main area.
    pub fn read_main(&self, addr: BlockAddr) -> Result<Block> {
        if self.geo.in_main(addr) { self.read(addr) } else { Err(self.outside(addr)) }
    }

    fn outside(&self, addr: BlockAddr) -> Error {
        let (at, end) = (addr.0.into(), self.geo.main_end().into());
        Corrupt::block(Structure::Volume, at, "address outside the main area", at, end).into()
    }

    /// Up to `max` consecutive blocks of one segment, starting with one that must lie in the main area.
    pub fn read_main_run(&self, addr: BlockAddr, max: u32) -> Result<Vec<Block>> {
        let (_, off) = self.geo.seg_of(addr).ok_or_else(|| self.outside(addr))?;
        let mut run = vec![Block::zeroed(); max.min(BLOCKS_PER_SEG - off) as usize];
        self.read_into(addr, &mut run)?;
        Ok(run)
    }

    /// Consecutive blocks.
    pub fn write(&self, addr: BlockAddr, blocks: &[&Block]) -> Result<()> {
        // Noted even if it failed: part of it may have reached the device.
        let written = self.dev.write(addr.0.into(), blocks).map_err(Self::error("write", addr));
        self.durable.note_write();
        written
    }

    /// Consecutive blocks, durable on return.
    pub fn write_fua(&self, addr: BlockAddr, blocks: &[&Block]) -> Result<()> {
        self.dev.write_fua(addr.0.into(), blocks).map_err(Self::error("write", addr))
    }

    /// Blocks for various places, sorted and gathered into as few writes as possible.
    pub fn write_scattered(&self, blocks: &mut [(BlockAddr, Arc<Block>)]) -> Result<()> {
        blocks.sort_by_key(|(a, _)| *a);
        for run in blocks.chunk_by(|(a, _), (b, _)| b.0 == a.0 + 1) {
            for part in run.chunks(GATHER_MAX) {
                let Some((start, _)) = part.first() else { continue };
                let refs: Vec<&Block> = part.iter().map(|(_, b)| &**b).collect();
                self.write(*start, &refs)?;
            }
        }
        Ok(())
    }

    /// Makes all earlier writes durable. Costs nothing if they are; callers at the same time share one flush.
    pub fn flush(&self) -> Result<()> {
        self.durable.make(|| self.dev.flush().map_err(Self::error("flush", BlockAddr(0))))
    }

    /// Announces durable writes to blocks that hold nothing of value.
    pub fn prepare(&self, addr: BlockAddr, count: u32) -> Result<()> {
        self.dev.prepare(addr.0.into(), count.into()).map_err(Self::error("prepare", addr))
    }

    /// Tells the device that blocks hold nothing of value.
    pub fn discard(&self, addr: BlockAddr, count: u32) -> Result<()> {
        self.dev.discard(addr.0.into(), count.into()).map_err(Self::error("discard", addr))
    }
}
