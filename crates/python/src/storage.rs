//! The storage of a volume, as callers name it.
use crate::args::VolumePath;
use crate::file_object::FileObject;
use pyo3::prelude::*;
use segno::{Device, Error};
use std::path::Path;

/// The device with the superblock.
pub(crate) enum First {
    Path(VolumePath),
    Object(FileObject),
}

impl<'py> FromPyObject<'_, 'py> for First {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match FileObject::of(&given)? {
            Some(object) => Ok(Self::Object(object)),
            None => Ok(Self::Path(given.extract()?)),
        }
    }
}

/// The devices of a volume, the one with the superblock first, and its external journal.
pub(crate) struct Storage {
    devices: Devices,
    journal: Option<VolumePath>,
}

enum Devices {
    Paths(Vec<VolumePath>),
    Object(FileObject),
}

impl Storage {
    pub(crate) fn new(first: First, further: Vec<VolumePath>, journal: Option<VolumePath>) -> PyResult<Self> {
        let devices = match first {
            First::Path(path) => Devices::Paths(std::iter::once(path).chain(further).collect()),
            First::Object(object) if further.is_empty() => Devices::Object(object),
            First::Object(_) => {
                let why = "a file object is a volume of one device: name the devices of others by paths";
                return Err(pyo3::exceptions::PyTypeError::new_err(why));
            }
        };
        Ok(Self { devices, journal })
    }

    /// The volume's device.
    pub(crate) fn open(&self, writable: bool) -> Result<Device, Error> {
        match (&self.devices, writable) {
            (Devices::Paths(paths), _) => open(paths, writable),
            (Devices::Object(object), true) => Device::from_stream(object.again()),
            (Devices::Object(object), false) => Device::from_reader(object.again()),
        }
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
