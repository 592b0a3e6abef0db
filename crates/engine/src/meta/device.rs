//! The device as used by the engine: block addresses, the engine's errors, bounds of the main area.
use super::Zones;
use super::durable::{Durable, More, Written};
use super::node_readahead::NodeReadahead;
use crate::block::SharedBlock;
use crate::error::{Error, Result};
use segno_device::{BlockDevice, HostStorage, Operation};
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Corrupt, Geometry, SecNo, Structure};
use std::sync::{Arc, OnceLock};

/// Maximum number of blocks gathered into one write.
const GATHER_MAX: usize = 256;

/// Device of a mounted volume.
pub struct Device {
    /// The device itself, for calls whose errors need no block address. Writes to it are not counted.
    pub raw: Arc<dyn BlockDevice>,
    geo: Geometry,
    pub durable: Durable,
    ahead: NodeReadahead,
    /// Set for a zoned volume.
    zones: Option<Zones>,
    /// Set for a zoned volume with a journal: see [`Self::stamp_zones`].
    stamp: OnceLock<Box<Block>>,
}

impl Device {
    pub fn new(dev: Arc<dyn BlockDevice>, geo: Geometry) -> Self {
        Self {
            raw: dev,
            geo,
            durable: Durable::default(),
            ahead: NodeReadahead::default(),
            zones: None,
            stamp: OnceLock::new(),
        }
    }

    /// Opens the device of a zoned volume.
    pub fn zoned(dev: Arc<dyn BlockDevice>, geo: Geometry) -> Result<Self> {
        let zones = Some(Zones::load(&*dev, &geo)?);
        Ok(Self { zones, ..Self::new(dev, geo) })
    }

    /// Whether sections must be written in order.
    pub fn is_zoned(&self) -> bool {
        self.zones.is_some()
    }

    /// Write pointer of a section; `None` if it may be written in any order.
    pub fn pointer(&self, sec: SecNo) -> Option<u32> {
        self.zones.as_ref()?.pointer(sec)
    }

    /// Whether a block is in a section that must be written in order.
    pub fn is_in_order(&self, at: BlockAddr) -> bool {
        let zones = self.zones.as_ref();
        zones.and_then(|zones| zones.pointer(zones.section_of(at)?)).is_some()
    }

    /// Whether a block is beyond the write pointer of its zone.
    pub fn is_unwritten(&self, at: BlockAddr) -> bool {
        let Some((zones, sec)) = self.zones.as_ref().and_then(|z| Some((z, z.section_of(at)?))) else {
            return false;
        };
        zones.pointer(sec).is_some_and(|p| u64::from(at.0) >= zones.start_of(sec) + u64::from(p))
    }

    /// Sections with a write pointer, and its position.
    pub fn pointers(&self) -> impl Iterator<Item = (SecNo, u32)> + '_ {
        self.zones.iter().flat_map(|z| z.sections().filter_map(|sec| Some((sec, z.pointer(sec)?))))
    }

    /// From now on logs leave out their canaries and the first blocks of sections. In a section that is
    /// written in order `stamp` is written in such a place, together with the blocks that follow it.
    pub fn stamp_zones(&self, stamp: Block) {
        if self.is_zoned() {
            self.stamp.get_or_init(|| Box::new(stamp));
        }
    }

    /// The block to write where logs leave one out.
    pub fn stamp(&self) -> Option<&Block> {
        self.stamp.get().map(|stamp| &**stamp)
    }

    /// The stamp, if a write at this address leaves out the block at the write pointer.
    pub fn stamp_before(&self, addr: BlockAddr) -> Option<&Block> {
        let (zones, stamp) = (self.zones.as_ref()?, self.stamp()?);
        let pointer = zones.pointer(zones.section_of(addr)?)?;
        let start = zones.start_of(zones.section_of(addr)?);
        (u64::from(addr.0) == start + u64::from(pointer) + 1).then_some(stamp)
    }

    /// Resets a section whose content is no longer needed, if it must be before it is rewritten.
    pub fn reset_section(&self, sec: SecNo) -> Result<()> {
        let Some(zones) = self.zones.as_ref().filter(|z| z.pointer(sec).is_some_and(|p| p > 0)) else {
            return Ok(());
        };
        let start = zones.start_of(sec);
        self.raw.reset_zone(start).map_err(Self::error(Operation::ResetZone, start))?;
        zones.set(sec, 0);
        Ok(())
    }

    /// Finishes the zone of a section, which then takes no more writes.
    pub fn finish_section(&self, sec: SecNo) -> Result<()> {
        let Some(zones) = &self.zones else { return Ok(()) };
        let start = zones.start_of(sec);
        self.raw.finish_zone(start).map_err(Self::error(Operation::FinishZone, start))?;
        zones.set(sec, zones.per_sec);
        Ok(())
    }

    fn error(op: Operation, at: impl Into<u64>) -> impl FnOnce(std::io::Error) -> Error {
        let at = at.into();
        move |source| Error::Io { op, at, source }
    }

    /// Reads one block from any area.
    pub fn read(&self, addr: BlockAddr) -> Result<Block> {
        let mut one = [Block::zeroed()];
        self.read_into(addr, &mut one)?;
        let [block] = one;
        Ok(block)
    }

    /// Reads consecutive blocks from any area.
    pub fn read_into(&self, addr: BlockAddr, into: &mut [Block]) -> Result<()> {
        self.raw.read(addr.0.into(), into).map_err(Self::error(Operation::Read, addr.0))
    }

    /// Reads blocks; adjacent ones in one request.
    pub fn read_scattered(&self, addrs: &[BlockAddr]) -> Result<Vec<Block>> {
        let mut blocks = vec![Block::zeroed(); addrs.len()];
        let mut rest = blocks.as_mut_slice();
        for run in addrs.chunk_by(|a, b| a.offset(1) == *b) {
            let (into, later) = rest.split_at_mut(run.len());
            rest = later;
            if let Some(&first) = run.first() {
                self.read_into(first, into)?;
            }
        }
        Ok(blocks)
    }

    /// Reads one block, which must be in the main area.
    pub fn read_main(&self, addr: BlockAddr) -> Result<Block> {
        if self.geo.in_main(addr) { self.read(addr) } else { Err(self.outside(addr)) }
    }

    fn outside(&self, addr: BlockAddr) -> Error {
        let (at, end) = (addr.0.into(), self.geo.main_end().into());
        Corrupt::block(Structure::Volume, at, "address outside the main area", at, end).into()
    }

    /// Reads up to `max` consecutive blocks of one segment; the first must be in the main area. Sequential runs start
    /// read-ahead.
    pub fn read_main_run(&self, addr: BlockAddr, max: u32) -> Result<Vec<Block>> {
        let (_, off) = self.geo.seg_of(addr).ok_or_else(|| self.outside(addr))?;
        let mut run = vec![Block::zeroed(); max.min(BLOCKS_PER_SEG - off) as usize];
        self.read_into(addr, &mut run)?;
        self.ahead.missed(&*self.raw, addr, run.len() as u32, self.geo.main_end());
        Ok(run)
    }

    /// Passes a block that was read ahead to `look`. It is not cached.
    pub fn peek_readahead<R>(&self, addr: BlockAddr, look: impl FnOnce(&Block) -> R) -> Option<R> {
        self.ahead.look(&*self.raw, addr, self.geo.main_end(), look)
    }

    /// Requests read-ahead of consecutive blocks.
    pub fn prefetch(&self, addr: BlockAddr, count: u32) {
        self.raw.prefetch(addr.0.into(), count.into());
    }

    /// Writes consecutive blocks.
    pub fn write(&self, addr: BlockAddr, blocks: &[&Block]) -> Result<()> {
        if let Some(stamp) = self.stamp_before(addr) {
            let (addr, blocks) = (BlockAddr(addr.0 - 1), [&[stamp], blocks].concat());
            return self.note_written(addr, blocks.len(), self.raw.write(addr.0.into(), &blocks));
        }
        self.note_written(addr, blocks.len(), self.raw.write(addr.0.into(), blocks))
    }

    /// Writes blocks that no caller waits for, past the host's page cache, so that flushes of others do not have to
    /// write them.
    fn write_behind(&self, addr: BlockAddr, blocks: &[&Block]) -> Result<()> {
        self.note_written(addr, blocks.len(), self.raw.write_behind(addr.0.into(), blocks))
    }

    /// Recorded even if it failed: part of it may have reached the device.
    fn note_written(&self, addr: BlockAddr, blocks: usize, done: std::io::Result<()>) -> Result<()> {
        self.durable.note_write();
        self.ahead.wrote(addr, blocks);
        if let (Ok(()), Some(zones)) = (&done, &self.zones) {
            zones.wrote(addr, blocks as u32);
        }
        done.map_err(Self::error(Operation::Write, addr.0))
    }

    /// Writes consecutive blocks, durable on return.
    pub fn write_fua(&self, addr: BlockAddr, blocks: &[&Block]) -> Result<()> {
        self.raw.write_fua(addr.0.into(), blocks).map_err(Self::error(Operation::Write, addr.0))
    }

    /// Sorts blocks by address and gathers them into as few writes as possible. Open zones are written first,
    /// then empty zones that become full: the number of open zones is limited, so a log must fill one before
    /// it starts the next.
    pub fn write_scattered(&self, blocks: &mut [(BlockAddr, SharedBlock)]) -> Result<()> {
        blocks.sort_by_key(|(a, _)| *a);
        let Some(zones) = &self.zones else { return self.write_sorted(blocks, Self::write) };
        let of_zones = blocks.chunk_by(|(a, _), (b, _)| zones.section_of(*a) == zones.section_of(*b));
        let mut of_zones: Vec<_> = of_zones.collect();
        of_zones.sort_by_key(|run| run.first().map(|(a, _)| zones.write_order(*a, run.len())));
        of_zones.into_iter().try_for_each(|run| self.write_sorted(run, Self::write))
    }

    /// Like [`Self::write_scattered`], for blocks that no caller waits for. On zoned volumes an
    /// ordinary write, as a zone is written in order.
    pub fn write_scattered_behind(&self, blocks: &mut [(BlockAddr, SharedBlock)]) -> Result<()> {
        if self.is_zoned() {
            return self.write_scattered(blocks);
        }
        blocks.sort_by_key(|(a, _)| *a);
        self.write_sorted(blocks, Self::write_behind)
    }

    fn write_sorted(
        &self,
        blocks: &[(BlockAddr, SharedBlock)],
        write: fn(&Self, BlockAddr, &[&Block]) -> Result<()>,
    ) -> Result<()> {
        for run in blocks.chunk_by(|(a, _), (b, _)| b.0 == a.0 + 1) {
            for part in run.chunks(GATHER_MAX) {
                let Some((start, _)) = part.first() else { continue };
                let refs: Vec<&Block> = part.iter().map(|(_, b)| &***b).collect();
                write(self, *start, &refs)?;
            }
        }
        Ok(())
    }

    /// Makes all earlier writes durable. A no-op if they are; concurrent callers share one flush.
    pub fn flush(&self) -> Result<()> {
        self.durable.make(|| self.issue_flush())
    }

    /// Makes earlier writes durable, for a caller that may wait for others to join.
    pub fn flush_shared(&self, wanted: Written) -> Result<()> {
        self.durable.make_shared(wanted, || self.issue_flush())
    }

    /// Waits until earlier flushes no longer depend on a cache of this host.
    pub fn drain(&self) -> Result<()> {
        self.raw.drain().map_err(Self::error(Operation::Drain, 0u32))
    }

    /// The first flush of a caller that writes a little more and flushes again with [`Self::flush_more`].
    pub fn flush_before_more(&self, wanted: Written) -> Result<Option<More<'_>>> {
        self.durable.make_before_more(wanted, || self.issue_flush()).map(Some)
    }

    pub fn flush_more(&self, more: More<'_>, wanted: Written) -> Result<()> {
        more.make(wanted, || self.issue_flush())
    }

    fn issue_flush(&self) -> Result<()> {
        self.raw.flush().map_err(Self::error(Operation::Flush, 0u32))
    }

    /// Prepares unused blocks for durable writes.
    pub fn prepare(&self, addr: BlockAddr, count: u32) -> Result<()> {
        if self.is_zoned() {
            return Ok(());
        }
        self.raw.prepare(addr.0.into(), count.into()).map_err(Self::error(Operation::Prepare, addr.0))
    }

    /// Storage of the image files; none if every block has storage, or if the host does not report it.
    pub fn host_storage(&self) -> Option<HostStorage> {
        self.raw.host_storage().ok().flatten()
    }
    /// Reports to the device that blocks hold no data.
    pub fn discard(&self, addr: BlockAddr, count: u32) -> Result<()> {
        self.raw.discard(addr.0.into(), count.into()).map_err(Self::error(Operation::Discard, addr.0))
    }
}

impl segno_layout::Reader for Device {
    type Error = Error;

    fn end(&self) -> u32 {
        u32::try_from(self.raw.block_count()).unwrap_or(u32::MAX)
    }

    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>> {
        self.read(at).map(Some)
    }

    fn read_blocks(&self, at: BlockAddr, count: u32) -> Result<Vec<Option<Block>>> {
        let mut blocks = vec![Block::zeroed(); count as usize];
        self.read_into(at, &mut blocks)?;
        Ok(blocks.into_iter().map(Some).collect())
    }
}
