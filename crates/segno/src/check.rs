//! Checking a volume.
use crate::device::Device;
use crate::error::{Cause, Error, Result};
pub use segno_check::CheckOptions;
use segno_check::{Progress, Report};
use segno_device::DeviceError;

/// Checks a volume that is not open, and changes nothing. Damage is no error but is described in the report.
///
/// The checker shares no code with the part of Segno that writes volumes.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// let device = segno::Device::in_memory(64 << 20);
/// segno::format(&device, &segno::FormatOptions::default())?;
/// let report = segno::check(&device)?;
/// assert!(report.is_clean(), "{:?}", report.problems);
/// # Ok(())
/// # }
/// ```
pub fn check(device: &Device) -> Result<Report> {
    check_with(device, &CheckOptions::default(), |_| ())
}

/// Checks a volume like [`check()`]; `progress` is called at the start of each pass and while it runs.
pub fn check_with(
    device: &Device,
    options: &CheckOptions,
    mut progress: impl FnMut(Progress),
) -> Result<Report> {
    let mut run = || {
        let _lock = device.lock_range()?;
        device.require_superblock(DeviceError::is_foreign)?;
        Ok::<_, Cause>(segno_check::check(&**device.storage(), options, &mut progress)?)
    };
    run().map_err(|e| Error::new("check", device.path(), e))
}
