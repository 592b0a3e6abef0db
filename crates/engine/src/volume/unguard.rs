//! Removal of the guard from an unmounted volume.
use super::mount::read_superblock;
use crate::error::Result;
use crate::health::store_copies;
use crate::meta::Device;
use segno_device::BlockDevice;
use std::sync::Arc;

/// Removes the mark of [`MountOptions::guard`](crate::MountOptions::guard) from an unmounted volume, which discards
/// its journal's content. Returns false if there is none.
pub fn unguard(dev: Arc<dyn BlockDevice>) -> Result<bool> {
    let mut sb = read_superblock(&*dev)?;
    if !sb.guarded {
        return Ok(false);
    }
    sb.raw.set_guard(false);
    sb.raw.seal();
    store_copies(&Device::new(dev, sb.geo), &sb.raw).map(|()| true)
}
