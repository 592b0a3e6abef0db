//! Making volumes.
use crate::args::VolumePath;
use crate::error::os_error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use segno::{Device, Features, FormatOptions};

/// Formats a volume. With `size`, a sparse image file of `size` bytes is created, which must not exist;
/// without, the file or block device must exist, and `force` overwrites its contents. Features have the names
/// of `mkfs.f2fs -O`.
#[pyfunction]
#[pyo3(signature = (path, size = None, *, label = "", features = Vec::new(), uuid = None, root_owner = (0, 0), force = false))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn mkfs(
    py: Python<'_>,
    path: VolumePath,
    size: Option<u64>,
    label: &str,
    features: Vec<String>,
    uuid: Option<[u8; 16]>,
    root_owner: (u32, u32),
    force: bool,
) -> PyResult<()> {
    let mut bits = Features::empty();
    for name in &features {
        bits |= Features::from_mkfs_name(name)
            .ok_or_else(|| PyValueError::new_err(format!("unknown feature {name:?}")))?;
    }
    let options = FormatOptions {
        label: label.to_owned(),
        features: bits,
        uuid,
        root_owner,
        force,
        ..FormatOptions::default()
    };
    let make = || {
        let device = match size {
            Some(bytes) => Device::create(&path, bytes),
            None => Device::open(&path),
        };
        segno::format(&device?, &options)
    };
    py.detach(|| segno::catch_panic(make)).map_err(|e| os_error(&e))
}
