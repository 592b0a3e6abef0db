//! The storage of a volume, as callers name it.
use crate::args::VolumePath;
use segno::{Device, Error};
use std::path::Path;

/// Paths of the devices of a volume, the one with the superblock first, and of its external journal.
pub(crate) struct Storage {
    devices: Vec<VolumePath>,
    journal: Option<VolumePath>,
}

impl Storage {
    pub(crate) fn new(first: VolumePath, further: Vec<VolumePath>, journal: Option<VolumePath>) -> Self {
        Self { devices: std::iter::once(first).chain(further).collect(), journal }
    }

    /// The volume's device.
    pub(crate) fn open(&self, writable: bool) -> Result<Device, Error> {
        open(&self.devices, writable)
    }

    /// That of the journal, if there is one.
    pub(crate) fn open_journal(&self, writable: bool) -> Result<Option<Device>, Error> {
        self.journal.as_ref().map(|path| open(&[path], writable)).transpose()
    }
}

fn open(paths: &[impl AsRef<Path>], writable: bool) -> Result<Device, Error> {
    match writable {
        true => Device::open_several(paths),
        false => Device::open_several_read_only(paths),
    }
}
