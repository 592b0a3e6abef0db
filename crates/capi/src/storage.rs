//! The storage of a volume, as callers name it.
use crate::args::{optional_path, path, paths};
use crate::error::Failure;
use segno::Device;
use std::ffi::c_char;
use std::iter;
use std::path::Path;

/// Paths of the devices of a volume, the one with the superblock first, and of its external journal.
pub(crate) struct Storage<'a> {
    devices: Vec<&'a Path>,
    journal: Option<&'a Path>,
}

impl<'a> Storage<'a> {
    /// As the options of several functions have them.
    ///
    /// # Safety
    /// As [`path`] and [`paths`] for the further devices.
    pub(crate) unsafe fn named(
        image: *const c_char,
        journal: *const c_char,
        further: *const *const c_char,
    ) -> Result<Self, Failure> {
        // SAFETY: the requirements of this function.
        let (image, journal, further) = unsafe { (path(image)?, optional_path(journal)?, paths(further)?) };
        Ok(Self { devices: iter::once(image).chain(further).collect(), journal })
    }

    /// The volume's device.
    pub(crate) fn open(&self, writable: bool) -> segno::Result<Device> {
        open(&self.devices, writable)
    }

    /// That of the journal, if there is one.
    pub(crate) fn open_journal(&self, writable: bool) -> segno::Result<Option<Device>> {
        self.journal.map(|path| open(&[path], writable)).transpose()
    }
}

fn open(paths: &[&Path], writable: bool) -> segno::Result<Device> {
    match writable {
        true => Device::open_several(paths),
        false => Device::open_several_read_only(paths),
    }
}
