//! Zones of the volume that must be written in order, and how they show which implementation wrote to them.
//!
//! A canary cannot be left unwritten in such a zone. So the first write of a log after its canary, and the
//! first write into an empty zone, begin with a *stamp*: a block that only mounts with this journal write.
//! Other implementations write without the stamp, or elsewhere, as Linux does if a zone's write pointer is
//! not at the position of the log.
use crate::error::{Error, Result};
use crate::record::{Mapping, data_crc};
use crate::superblock::Canary;
use segno_device::{BlockDevice, Operation, Zone, ZoneKind};
use segno_format::{Block, BlockAddr};

const MAGIC: &[u8; 8] = b"SEGNOZON";

/// The sequential zones of a volume, ascending.
pub(crate) struct Zones(Vec<Zone>);

/// The block that shows that a zone was written with this journal.
pub(crate) fn stamp(journal: &[u8; 16]) -> Block {
    let mut block = Block::zeroed();
    let fields = MAGIC.iter().chain(journal);
    block.0.iter_mut().zip(fields).for_each(|(to, from)| *to = *from);
    block
}

impl Zones {
    pub(crate) fn of(data: &dyn BlockDevice) -> Result<Self> {
        let zones = data.zones().map_err(Error::io(Operation::ReadZones, 0))?;
        Ok(Self(zones.into_iter().filter(|zone| zone.kind == ZoneKind::Sequential).collect()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn containing(&self, at: u64) -> Option<&Zone> {
        let after = self.0.partition_point(|zone| zone.start <= at);
        self.0.get(after.checked_sub(1)?).filter(|zone| at - zone.start < zone.blocks)
    }

    /// Whether a canary is unchanged, or only mounts with this journal have written there. The last block of
    /// a zone always passes, as every implementation continues the log there.
    pub(crate) fn is_kept(&self, canary: &Canary, data: &dyn BlockDevice) -> Result<bool> {
        let at = u64::from(canary.addr.0);
        match self.containing(at) {
            Some(zone) if zone.pointer <= at => Ok(zone.pointer == at),
            Some(zone) if at + 1 == zone.start + zone.capacity => Ok(true),
            _ => Ok(read(data, canary.addr)? == canary.crc),
        }
    }

    /// The first partly written zone that has neither a canary nor the stamp of this journal. Mounts with a
    /// journal leave no such zone: they finish the ones that they find.
    pub(crate) fn without_stamp(
        &self,
        canaries: &[Canary],
        journal: &[u8; 16],
        data: &dyn BlockDevice,
    ) -> Result<Option<BlockAddr>> {
        let wanted = data_crc(&stamp(journal));
        let has_canary =
            |zone: &Zone| canaries.iter().any(|c| self.containing(c.addr.0.into()) == Some(zone));
        let is_partly = |zone: &Zone| zone.pointer > zone.start && zone.pointer < zone.start + zone.capacity;
        for zone in self.0.iter().filter(|zone| is_partly(zone) && !has_canary(zone)) {
            let first = BlockAddr(u32::try_from(zone.start).unwrap_or(u32::MAX));
            if read(data, first)? != wanted {
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// The first block of a mapping that is not below the write pointer of its zone.
    pub(crate) fn missing(&self, mapping: &Mapping) -> Option<BlockAddr> {
        let of_run = mapping.runs.iter().flat_map(|run| (0..run.count).map(|i| run.addr.offset(i)));
        of_run.into_iter().find(|addr| {
            let at = u64::from(addr.0);
            self.containing(at).is_some_and(|zone| zone.pointer <= at)
        })
    }
}

/// The current checksum of a block.
fn read(data: &dyn BlockDevice, at: BlockAddr) -> Result<u32> {
    Canary::of(data, at).map(|now| now.crc).map_err(Error::io(Operation::ReadCanary, at.0.into()))
}
