//! Making a volume.
use crate::device::Device;
use crate::error::{Cause, Error, Result};
use segno_mkfs::Member;
pub use segno_mkfs::MkfsOptions as FormatOptions;
use std::sync::Arc;

/// Formats a volume on a device, which has to be empty unless the options force it. A format that is cut off leaves the old
/// contents, the new volume, or a device that every reader names as being formatted.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// let device = segno::Device::in_memory(64 << 20);
/// let options = segno::FormatOptions { label: "scratch".into(), ..Default::default() };
/// segno::format(&device, &options)?;
/// assert_eq!(segno::Volume::open(&device)?.label(), "scratch");
/// # Ok(())
/// # }
/// ```
pub fn format(device: &Device, options: &FormatOptions) -> Result<()> {
    format_locked(device, options).map_err(|e| Error::new("format", device.path(), e))
}

fn format_locked(device: &Device, options: &FormatOptions) -> Result<(), Cause> {
    let _lock = device.lock_range()?;
    let path = device.path().map_or_else(|| "the device".to_owned(), |p| p.display().to_string());
    let member = Member { device: Arc::clone(device.storage()), path, zeroed: false };
    segno_mkfs::format(&[member], options)?;
    device.forget_unnamed();
    Ok(())
}
