//! Zoned volumes: a section is written from its start, if its zone is empty, and has no holes to fill.
use crate::error::{RepairError, Result};
use crate::volume::Volume;
use segno_check::CheckError;
use segno_device::ZoneKind;
use segno_format::{BlockAddr, Features, SecNo};
use std::collections::BTreeSet;

/// Where new blocks may go.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    /// Whether the volume has zones, so that only whole sections are used.
    pub has_pointers: bool,
    /// Sections whose zone is not empty.
    begun: BTreeSet<SecNo>,
}

impl Zones {
    pub(crate) fn of(vol: &Volume<'_>) -> Result<Self> {
        if !vol.sb.features.contains(Features::BLKZONED) {
            return Ok(Self::default());
        }
        let failed = |source| CheckError::Io { addr: 0, count: 0, source };
        let mut out = Self { has_pointers: true, begun: BTreeSet::new() };
        for zone in vol.device.zones().map_err(failed)?.iter().filter(|z| z.kind == ZoneKind::Sequential) {
            let segment = u32::try_from(zone.start).ok().and_then(|at| vol.geo.seg_of(BlockAddr(at)));
            let Some((segment, _)) = segment else { continue };
            if zone.capacity < zone.blocks {
                return Err(RepairError::refused(
                    "zones that cannot be written to their end are not repaired: `segno rescue` copies the files",
                ));
            }
            if zone.pointer != zone.start {
                out.begun.insert(vol.geo.sec_of(segment));
            }
        }
        Ok(out)
    }

    /// Whether a section can be written from its start.
    pub(crate) fn may_begin(&self, sec: SecNo) -> bool {
        !self.begun.contains(&sec)
    }
}
