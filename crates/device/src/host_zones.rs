//! The zones of a host block device.
use crate::ioctl::{self, RawZone};
use crate::zone::{Zone, ZoneCondition, ZoneKind, ZoneLimits};
use segno_format::BLOCK_SIZE;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The kernel counts in sectors of 512 bytes.
const SECTORS_PER_BLOCK: u64 = BLOCK_SIZE as u64 / 512;
/// Flag of a zone report that includes capacities.
const HAS_CAPACITY: u32 = 1;

/// Properties that do not change while the device is open.
#[derive(Debug)]
pub(crate) struct HostZones {
    device_blocks: u64,
    zone_blocks: u64,
    limits: ZoneLimits,
}

impl HostZones {
    /// `None` if the block device has no zones.
    pub(crate) fn of(file: &File, device_blocks: u64) -> io::Result<Option<Self>> {
        let sectors = u64::from(ioctl::zone_sectors(file)?);
        if sectors == 0 {
            return Ok(None);
        }
        if !sectors.is_multiple_of(SECTORS_PER_BLOCK) {
            return Err(invalid(format!("its zones have {sectors} sectors, which is no multiple of 4 KiB")));
        }
        let limit = |name| limit(file, name);
        let limits = ZoneLimits { open: limit("max_open_zones")?, active: limit("max_active_zones")? };
        Ok(Some(Self { device_blocks, zone_blocks: sectors / SECTORS_PER_BLOCK, limits }))
    }

    pub(crate) fn limits(&self) -> ZoneLimits {
        self.limits
    }

    pub(crate) fn all(&self, file: &File) -> io::Result<Vec<Zone>> {
        self.between(file, 0, self.device_blocks)
    }

    /// The zones of a range of blocks, by as many reports as needed; may include some after the range.
    fn between(&self, file: &File, start: u64, end: u64) -> io::Result<Vec<Zone>> {
        let (mut zones, mut at) = (Vec::new(), start);
        while at < end.min(self.device_blocks) {
            let (raw, flags) = ioctl::report_zones(file, at.saturating_mul(SECTORS_PER_BLOCK))?;
            for raw in &raw {
                zones.push(zone_of(raw, flags & HAS_CAPACITY != 0)?);
            }
            let next = zones.last().map_or(0, |z: &Zone| z.start.saturating_add(z.blocks));
            if next <= at {
                return Err(invalid(format!("its report of zones ends at block {at}")));
            }
            at = next;
        }
        Ok(zones)
    }

    pub(crate) fn reset(&self, file: &File, start: u64) -> io::Result<()> {
        ioctl::reset_zones(file, self.sectors_of(start))
    }

    pub(crate) fn finish(&self, file: &File, start: u64) -> io::Result<()> {
        ioctl::finish_zones(file, self.sectors_of(start))
    }

    /// Resets the sequential zones inside a range, one command each; conventional zones are skipped.
    pub(crate) fn reset_within(&self, file: &File, addr: u64, count: u64) -> io::Result<()> {
        let first = addr.next_multiple_of(self.zone_blocks);
        let end = addr.saturating_add(count);
        let zones = self.between(file, first, end)?;
        let written = |z: &&Zone| z.kind == ZoneKind::Sequential && z.condition != ZoneCondition::Empty;
        let inside = |z: &&Zone| z.start.saturating_add(z.blocks) <= end;
        zones.iter().filter(written).filter(inside).try_for_each(|z| self.reset(file, z.start))
    }

    /// First sector and number of sectors of a zone; the last one may be smaller.
    fn sectors_of(&self, start: u64) -> [u64; 2] {
        let blocks = self.zone_blocks.min(self.device_blocks.saturating_sub(start));
        [start.saturating_mul(SECTORS_PER_BLOCK), blocks.saturating_mul(SECTORS_PER_BLOCK)]
    }
}

/// Constants from `linux/blkzoned.h`. A zone that need not be written in order counts as conventional.
fn zone_of(raw: &RawZone, has_capacity: bool) -> io::Result<Zone> {
    let kind = if raw.kind == 2 { ZoneKind::Sequential } else { ZoneKind::Conventional };
    let condition = match raw.condition {
        0 => ZoneCondition::NoPointer,
        1 => ZoneCondition::Empty,
        2 => ZoneCondition::ImplicitOpen,
        3 => ZoneCondition::ExplicitOpen,
        4 => ZoneCondition::Closed,
        13 => ZoneCondition::ReadOnly,
        14 => ZoneCondition::Full,
        15 => ZoneCondition::Offline,
        other => return Err(invalid(format!("a zone at sector {} has condition {other}", raw.start))),
    };
    let start = raw.start / SECTORS_PER_BLOCK;
    let capacity = (if has_capacity { raw.capacity } else { raw.len }) / SECTORS_PER_BLOCK;
    let pointer = match condition {
        _ if kind == ZoneKind::Conventional => start,
        // These have no valid write pointer and accept no writes.
        ZoneCondition::Full | ZoneCondition::ReadOnly | ZoneCondition::Offline => {
            start.saturating_add(capacity)
        }
        _ => raw.pointer.div_ceil(SECTORS_PER_BLOCK),
    };
    Ok(Zone { start, blocks: raw.len / SECTORS_PER_BLOCK, capacity, pointer, kind, condition })
}

/// A limit from sysfs; 0 if the kernel does not report one.
fn limit(file: &File, name: &str) -> io::Result<u32> {
    let device = file.metadata()?.rdev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    match std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/{name}")) {
        Ok(text) => text.trim().parse().map_err(|_| invalid(format!("its {name} is {text:?}"))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(e),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(kind: u8, condition: u8, pointer: u64) -> RawZone {
        RawZone { start: 8192, len: 8192, pointer, kind, condition, capacity: 6144, ..RawZone::default() }
    }

    #[test]
    fn the_kernels_words_for_zones() {
        let zone = |kind, condition, pointer| zone_of(&raw(kind, condition, pointer), true).unwrap();
        let open = zone(2, 2, 8192 + 80);
        assert_eq!((open.start, open.blocks, open.capacity, open.pointer), (1024, 1024, 768, 1034));
        assert_eq!((open.kind, open.condition), (ZoneKind::Sequential, ZoneCondition::ImplicitOpen));
        for condition in [13, 14, 15] {
            assert_eq!(zone(2, condition, u64::MAX).pointer, 1024 + 768);
        }
        assert_eq!(zone(1, 0, u64::MAX).pointer, 1024);
        assert_eq!(zone(3, 4, 8192 + 80).kind, ZoneKind::Conventional);
        assert_eq!(zone_of(&raw(2, 1, 8192), false).unwrap().capacity, 1024);
        // Another program wrote less than a block, so no block-aligned write can follow.
        assert_eq!(zone(2, 4, 8192 + 81).pointer, 1035);
        assert!(zone_of(&raw(2, 5, 8192), true).is_err());
    }
}
