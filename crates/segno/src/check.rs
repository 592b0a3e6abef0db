//! Checking a volume.
use crate::device::Device;
use crate::error::{Cause, Error, Result};
use segno_check::{Progress, Report};
use segno_device::DeviceError;

/// How to check a volume.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions(pub(crate) segno_check::CheckOptions);

impl CheckOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of problems that the report describes, 1000 by default; the rest are only counted.
    #[must_use]
    pub fn max_problems(mut self, max: usize) -> Self {
        self.0.max_problems = max;
        self
    }

    /// Whether to read the content of compressed files, too; off by default.
    #[must_use]
    pub fn data(mut self, data: bool) -> Self {
        self.0.data = data;
        self
    }
}

/// Checks a volume that is not open, and changes nothing. Damage is no error but is described in the report.
///
/// The checker shares no code with the part of Segno that writes volumes.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// let device = segno::Device::in_memory(64 << 20);
/// segno::format(&device, &segno::FormatOptions::new())?;
/// let report = segno::check(&device)?;
/// assert!(report.is_clean(), "{:?}", report.problems);
/// # Ok(())
/// # }
/// ```
pub fn check(device: &Device) -> Result<Report> {
    check_with(device, &CheckOptions::new(), |_| ())
}

/// Checks a volume like [`check()`]; `progress` is called at the start of each pass and while it runs.
pub fn check_with(
    device: &Device,
    options: &CheckOptions,
    mut progress: impl FnMut(Progress),
) -> Result<Report> {
    let mut run = || {
        let _claim = device.claim()?;
        device.require_superblock(DeviceError::is_foreign)?;
        Ok::<_, Cause>(segno_check::check(&**device.storage(), &options.0, &mut progress)?)
    };
    run().map_err(|e| Error::new("check", device.path(), e))
}
