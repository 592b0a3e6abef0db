//! Giving up a journal that an unmounted volume needs.
use super::Volume;
use super::mount::read_superblock;
use crate::commit::read_pack;
use crate::error::Result;
use crate::health::store_copies;
use crate::meta::Device;
use crate::options::{Discard, MountOptions};
use segno_device::BlockDevice;
use segno_format::checkpoint::RawCheckpoint;
use std::sync::Arc;

/// Removes the marks of [`MountOptions::guard`](crate::MountOptions::guard) and of an external journal from an unmounted volume,
/// which loses the changes that only its journal has. Returns false if there is neither.
pub fn give_up_journal(dev: Arc<dyn BlockDevice>) -> Result<bool> {
    let mut sb = read_superblock(&*dev)?;
    let device = Device::new(dev.clone(), sb.geo);
    if sb.guarded {
        sb.raw.set_guard(false);
        sb.raw.seal();
        store_copies(&device, &sb.raw)?;
    }
    // A volume without a checkpoint needs no journal.
    let pack = read_pack(&device, &sb.geo).ok();
    if !pack.is_some_and(|pack| RawCheckpoint::has_external_journal(&pack.state.header)) {
        return Ok(sb.guarded);
    }
    let options = MountOptions {
        give_up_journal: true,
        background: false,
        discard: Discard::Never,
        ..MountOptions::default()
    };
    Volume::mount(dev, options)?.unmount()?;
    Ok(true)
}
