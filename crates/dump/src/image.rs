//! A volume whose structures are read.
use crate::select::{DumpError, What, scan_all};
use segno_device::BlockDevice;
use segno_layout::{Packs, Superblocks, certain};
use segno_rescue::Volume;
use std::sync::Arc;

/// A volume whose structures are shown.
pub struct Image<'a> {
    pub(crate) device: &'a Arc<dyn BlockDevice>,
    pub(crate) superblocks: Superblocks,
    pub(crate) volume: Volume<'a>,
    pub(crate) packs: Option<Packs>,
}

impl<'a> Image<'a> {
    /// Reads superblocks, packs and tables. For some structures all nodes are searched first.
    pub fn open(device: &'a Arc<dyn BlockDevice>, what: &What) -> Result<Self, DumpError> {
        let volume = match what.needs_scan() {
            true => Volume::find(&**device, scan_all(&**device)?, false),
            false => Volume::unscanned(&**device),
        };
        let superblocks = certain(Superblocks::load(&volume.reader));
        let packs = volume.geo.map(|geo| certain(Packs::load(&volume.reader, &geo)));
        Ok(Self { device, superblocks, volume, packs })
    }

    pub(crate) fn geo(&self) -> Result<&segno_format::Geometry, DumpError> {
        self.volume.geo.as_ref().ok_or(DumpError::Missing("superblock"))
    }
}
