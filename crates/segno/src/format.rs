//! Making a volume.
use crate::device::Device;
use crate::error::{Cause, Error, Result};
use segno_format::Features;
use segno_mkfs::{Member, MkfsOptions};
use std::sync::Arc;

/// How to format a volume. The defaults are those of `mkfs.f2fs`.
///
/// ```
/// use segno::{Features, FormatOptions};
/// let options = FormatOptions::new().label("backup").features(Features::EXTRA_ATTR | Features::INODE_CRTIME);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct FormatOptions {
    mkfs: MkfsOptions,
}

impl FormatOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Volume label, up to 512 UTF-16 units.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.mkfs.label = label.into();
        self
    }

    /// Volume id; random by default.
    #[must_use]
    pub fn uuid(mut self, uuid: [u8; 16]) -> Self {
        self.mkfs.uuid = Some(uuid);
        self
    }

    /// Features of the format to switch on; none by default.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.mkfs.features = features;
        self
    }

    /// User and group of the root directory; 0 and 0 by default.
    #[must_use]
    pub fn root_owner(mut self, uid: u32, gid: u32) -> Self {
        self.mkfs.root_owner = (uid, gid);
        self
    }

    /// Whether to discard all blocks of the device first; by default only with [`force`](Self::force).
    #[must_use]
    pub fn discard(mut self, discard: bool) -> Self {
        self.mkfs.discard = Some(discard);
        self
    }

    /// Overwrite a device that is not empty; refused by default, with nothing written.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.mkfs.force = force;
        self
    }
}

/// Formats a volume on a device, which has to be empty unless the options force it. A format that is cut off leaves the old
/// contents, the new volume, or a device that every reader names as being formatted.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// let device = segno::Device::in_memory(64 << 20);
/// segno::format(&device, &segno::FormatOptions::new().label("scratch"))?;
/// assert_eq!(segno::Volume::open(&device)?.label(), "scratch");
/// # Ok(())
/// # }
/// ```
pub fn format(device: &Device, options: &FormatOptions) -> Result<()> {
    format_claimed(device, options).map_err(|e| Error::new("format", device.path(), e))
}

fn format_claimed(device: &Device, options: &FormatOptions) -> Result<(), Cause> {
    let _claim = device.claim()?;
    let path = device.path().map_or_else(|| "the device".to_owned(), |p| p.display().to_string());
    let member = Member { device: Arc::clone(device.storage()), path, zeroed: false };
    segno_mkfs::format(&[member], &options.mkfs)?;
    device.forget_unnamed();
    Ok(())
}
