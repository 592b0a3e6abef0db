//! The device as used by the engine: block addresses, the engine's errors, bounds of the main area.
use super::Zones;
use super::durable::{Durable, More, Written};
use super::node_readahead::NodeReadahead;
use crate::error::{Error, Result};
use segno_device::{BlockDevice, HostStorage, Operation};
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Corrupt, Geometry, Structure};
use std::sync::Arc;

/// Maximum number of blocks gathered into one write.
const GATHER_MAX: usize = 256;

/// Device of a mounted volume.
pub struct Device {
    dev: Arc<dyn BlockDevice>,
    geo: Geometry,
    durable: Durable,
    ahead: NodeReadahead,
    /// Set for a zoned volume.
    zones: Option<Zones>,
}

impl Device {
    pub fn new(dev: Arc<dyn BlockDevice>, geo: Geometry) -> Self {
        Self { dev, geo, durable: Durable::default(), ahead: NodeReadahead::default(), zones: None }
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
    pub fn pointer(&self, sec: u32) -> Option<u32> {
        self.zones.as_ref()?.pointer(sec)
    }

    /// Whether a block is beyond the write pointer of its zone.
    pub fn is_unwritten(&self, at: BlockAddr) -> bool {
        let Some((zones, sec)) = self.zones.as_ref().and_then(|z| Some((z, z.section_of(at.0)?))) else {
            return false;
        };
        zones.pointer(sec).is_some_and(|p| u64::from(at.0) >= zones.start_of(sec) + u64::from(p))
    }

    /// Sections with a write pointer, and its position.
    pub fn pointers(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.zones.iter().flat_map(|z| (0..z.sections()).filter_map(|sec| Some((sec, z.pointer(sec)?))))
    }

    /// Resets a section whose content is no longer needed, if it must be before it is rewritten.
    pub fn reset_section(&self, sec: u32) -> Result<()> {
        let Some(zones) = self.zones.as_ref().filter(|z| z.pointer(sec).is_some_and(|p| p > 0)) else {
            return Ok(());
        };
        let start = zones.start_of(sec);
        self.dev.reset_zone(start).map_err(|source| Error::Io {
            op: Operation::ResetZone,
            at: start,
            source,
        })?;
        zones.set(sec, 0);
        Ok(())
    }

    /// Finishes the zone of a section, which then takes no more writes.
    pub fn finish_section(&self, sec: u32) -> Result<()> {
        let Some(zones) = &self.zones else { return Ok(()) };
        let start = zones.start_of(sec);
        self.dev.finish_zone(start).map_err(|source| Error::Io {
            op: Operation::FinishZone,
            at: start,
            source,
        })?;
        zones.set(sec, zones.per_sec());
        Ok(())
    }

    /// The device itself, for areas outside the volume.
    pub fn shared(&self) -> Arc<dyn BlockDevice> {
        self.dev.clone()
    }

    /// The device itself, borrowed.
    pub fn raw(&self) -> &dyn BlockDevice {
        &*self.dev
    }

    fn error(op: Operation, at: BlockAddr) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { op, at: at.0.into(), source }
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
        self.dev.read(addr.0.into(), into).map_err(Self::error(Operation::Read, addr))
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
        self.ahead.missed(&*self.dev, addr, run.len() as u32, self.geo.main_end());
        Ok(run)
    }

    /// Passes a block that was read ahead to `look`. It is not cached.
    pub fn peek_readahead<R>(&self, addr: BlockAddr, look: impl FnOnce(&Block) -> R) -> Option<R> {
        self.ahead.look(&*self.dev, addr, self.geo.main_end(), look)
    }

    /// Requests read-ahead of consecutive blocks.
    pub fn prefetch(&self, addr: BlockAddr, count: u32) {
        self.dev.prefetch(addr.0.into(), count.into());
    }

    /// Writes consecutive blocks.
    pub fn write(&self, addr: BlockAddr, blocks: &[&Block]) -> Result<()> {
        self.note_written(addr, blocks.len(), self.dev.write(addr.0.into(), blocks))
    }

    /// Writes blocks that no caller waits for, past the host's page cache, so that flushes of others do not have to
    /// write them.
    fn write_behind(&self, addr: BlockAddr, blocks: &[&Block]) -> Result<()> {
        self.note_written(addr, blocks.len(), self.dev.write_behind(addr.0.into(), blocks))
    }

    /// Recorded even if it failed: part of it may have reached the device.
    fn note_written(&self, addr: BlockAddr, blocks: usize, done: std::io::Result<()>) -> Result<()> {
        self.durable.note_write();
        self.ahead.wrote(addr, blocks);
        if let (Ok(()), Some(zones)) = (&done, &self.zones) {
            zones.wrote(addr.0, blocks as u32);
        }
        done.map_err(Self::error(Operation::Write, addr))
    }

    /// Writes consecutive blocks, durable on return.
    pub fn write_fua(&self, addr: BlockAddr, blocks: &[&Block]) -> Result<()> {
        self.dev.write_fua(addr.0.into(), blocks).map_err(Self::error(Operation::Write, addr))
    }

    /// Sorts blocks by address and gathers them into as few writes as possible. Open zones are written first, then
    /// those that become full: the number of open zones is limited, so a log must fill one before it starts the next.
    pub fn write_scattered(&self, blocks: &mut [(BlockAddr, Arc<Block>)]) -> Result<()> {
        blocks.sort_by_key(|(a, _)| *a);
        let Some(zones) = &self.zones else { return self.write_sorted(blocks, Self::write) };
        let of_zones = blocks.chunk_by(|(a, _), (b, _)| zones.section_of(a.0) == zones.section_of(b.0));
        let mut of_zones: Vec<_> = of_zones.collect();
        of_zones.sort_by_key(|run| run.first().map(|(a, _)| zones.write_order(a.0, run.len())));
        of_zones.into_iter().try_for_each(|run| self.write_sorted(run, Self::write))
    }

    /// Like [`Self::write_scattered`], for blocks that no caller waits for. On zoned volumes an
    /// ordinary write, as a zone is written in order.
    pub fn write_scattered_behind(&self, blocks: &mut [(BlockAddr, Arc<Block>)]) -> Result<()> {
        if self.is_zoned() {
            return self.write_scattered(blocks);
        }
        blocks.sort_by_key(|(a, _)| *a);
        self.write_sorted(blocks, Self::write_behind)
    }

    fn write_sorted(
        &self,
        blocks: &[(BlockAddr, Arc<Block>)],
        write: fn(&Self, BlockAddr, &[&Block]) -> Result<()>,
    ) -> Result<()> {
        for run in blocks.chunk_by(|(a, _), (b, _)| b.0 == a.0 + 1) {
            for part in run.chunks(GATHER_MAX) {
                let Some((start, _)) = part.first() else { continue };
                let refs: Vec<&Block> = part.iter().map(|(_, b)| &**b).collect();
                write(self, *start, &refs)?;
            }
        }
        Ok(())
    }

    /// Makes all earlier writes durable. A no-op if they are; concurrent callers share one flush.
    pub fn flush(&self) -> Result<()> {
        self.durable.make(|| self.issue_flush())
    }

    /// The writes that have returned, which a later flush has to cover.
    pub fn written(&self) -> Written {
        self.durable.written()
    }

    /// Whether a flush has covered these writes.
    pub fn is_durable(&self, wanted: Written) -> bool {
        self.durable.covers(wanted)
    }

    /// Makes earlier writes durable, for a caller that may wait for others to join.
    pub fn flush_shared(&self, wanted: Written) -> Result<()> {
        self.durable.make_shared(wanted, || self.issue_flush())
    }

    /// Whether a power cut keeps all writes up to one moment, so that none has to wait for others to be durable.
    pub fn keeps_order(&self) -> bool {
        self.dev.keeps_order()
    }

    /// Waits until earlier flushes no longer depend on a cache of this host.
    pub fn drain(&self) -> Result<()> {
        self.dev.drain().map_err(Self::error(Operation::Drain, BlockAddr(0)))
    }

    /// Counters of the device's own.
    pub fn counters(&self) -> Vec<(String, u64)> {
        self.dev.counters()
    }

    /// The first flush of a caller that writes a little more and flushes again with [`Self::flush_more`].
    pub fn flush_before_more(&self, wanted: Written) -> Result<Option<More<'_>>> {
        self.durable.make_before_more(wanted, || self.issue_flush()).map(Some)
    }

    pub fn flush_more(&self, more: More<'_>, wanted: Written) -> Result<()> {
        more.make(wanted, || self.issue_flush())
    }

    fn issue_flush(&self) -> Result<()> {
        self.dev.flush().map_err(Self::error(Operation::Flush, BlockAddr(0)))
    }

    /// Flushes requested, and flushes issued.
    pub fn flushes(&self) -> (u64, u64) {
        self.durable.counts()
    }

    /// Prepares unused blocks for durable writes.
    pub fn prepare(&self, addr: BlockAddr, count: u32) -> Result<()> {
        if self.is_zoned() {
            return Ok(());
        }
        self.dev.prepare(addr.0.into(), count.into()).map_err(Self::error(Operation::Prepare, addr))
    }

    /// Storage of the image files; none if every block has storage, or if the host does not report it.
    pub fn host_storage(&self) -> Option<HostStorage> {
        self.dev.host_storage().ok().flatten()
    }
    /// Whether the volume is in image files that have all of their storage.
    pub fn is_preallocated(&self) -> bool {
        self.dev.is_preallocated()
    }
    /// Reports to the device that blocks hold no data.
    pub fn discard(&self, addr: BlockAddr, count: u32) -> Result<()> {
        self.dev.discard(addr.0.into(), count.into()).map_err(Self::error(Operation::Discard, addr))
    }
}

impl segno_layout::Reader for Device {
    type Error = Error;

    fn end(&self) -> u32 {
        u32::try_from(self.dev.block_count()).unwrap_or(u32::MAX)
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
