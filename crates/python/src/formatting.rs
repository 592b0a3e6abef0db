//! Making and checking volumes.
use crate::args::{VolumePath, all};
use crate::error::os_error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use segno::{CheckOptions, Device, Features, FormatOptions, Severity};

/// Formats a volume. With `size`, a sparse image file of so many bytes is created, which must not exist; without, the file or
/// block device must exist, and `force` overwrites what it holds. Features have the names of `mkfs.f2fs -O`.
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
    let options = FormatOptions::new().label(label).features(bits).force(force);
    let options = options.root_owner(root_owner.0, root_owner.1);
    let options = if let Some(uuid) = uuid { options.uuid(uuid) } else { options };
    let make = || {
        let device = match size {
            Some(bytes) => Device::create(&path, bytes),
            None => Device::open(&path),
        };
        segno::format(&device?, &options)
    };
    py.detach(|| segno::catch_panic(make)).map_err(|e| os_error(&e))
}

/// Severity, structure and description of a problem.
type Found = (&'static str, String, String);

/// The problems found, up to `max_problems`; numbers of all errors and warnings; whether the check was complete; whether the
/// volume was unmounted cleanly.
#[pyfunction(name = "_check")]
pub(crate) fn check(
    py: Python<'_>,
    path: VolumePath,
    devices: Vec<VolumePath>,
    max_problems: usize,
) -> PyResult<(Vec<Found>, u64, u64, bool, bool)> {
    let options = CheckOptions::new().max_problems(max_problems);
    let paths = all(&path, &devices);
    let run = || segno::check_with(&Device::open_several_read_only(&paths)?, &options, |_| ());
    let report = py.detach(|| segno::catch_panic(run)).map_err(|e| os_error(&e))?;
    let problems = report.problems.iter().map(|p| {
        let severity = if p.severity == Severity::Error { "error" } else { "warning" };
        (severity, p.structure.to_string(), p.to_string())
    });
    let clean = report.summary.clean_unmount;
    Ok((problems.collect(), report.errors, report.warnings, report.complete, clean))
}
