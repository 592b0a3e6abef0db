//! Read-only mounts: recovery onto an overlay, as the device must not be written.
use super::Volume;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::notice::{Notice, Observer};
use crate::options::{Discard, JournalMode, MountOptions};
use crate::recovery::Pending;
use segno_device::{BlockDevice, Overlay};
use segno_format::BLOCK_SIZE;
use std::sync::Arc;

/// Memory that recovery may use even if the cache is smaller.
const LEAST_BYTES: u64 = 64 << 20;

/// Mounts read-only: with something to replay, an overlay on which it was replayed.
pub(super) fn mount(
    dev: Arc<dyn BlockDevice>,
    opts: MountOptions,
    clock: Arc<dyn Clock>,
) -> Result<Arc<Volume>> {
    let volume = Volume::load(dev.clone(), opts.clone(), clock.clone())?;
    let pending = volume.recovery().pending()?;
    if pending == Pending::Nothing {
        return Ok(volume);
    }
    drop(volume);
    let recovered = recover(dev, pending, &opts, clock.clone())?;
    opts.observer.notify(&Notice::RecoveredInMemory);
    Volume::load(recovered, opts, clock)
}

/// Recovers onto an overlay of the size of the cache and of the journal's content.
fn recover(
    dev: Arc<dyn BlockDevice>,
    pending: Pending,
    opts: &MountOptions,
    clock: Arc<dyn Clock>,
) -> Result<Arc<Overlay>> {
    let journal_bytes = if let Pending::Journal { bytes } = pending { bytes } else { 0 };
    let bytes = LEAST_BYTES.max(opts.cache_bytes as u64).saturating_add(journal_bytes);
    let overlay = Arc::new(Overlay::with_limit(dev, bytes / BLOCK_SIZE as u64));
    let journal = match &opts.journal {
        JournalMode::External(area) => JournalMode::External(area.in_memory()),
        // A journal after the volume is replayed all the same.
        _ => JournalMode::Off,
    };
    let writable = MountOptions {
        read_only: false,
        journal,
        guard: false,
        node_limit: false,
        background: false,
        background_gc: false,
        discard: Discard::Never,
        observer: Observer::default(),
        ..opts.clone()
    };
    let done = Volume::mount_with_clock(overlay.clone(), writable, clock).and_then(|v| v.unmount());
    match done {
        Ok(()) => Ok(overlay),
        Err(_) if overlay.is_exhausted() => Err(Error::RecoveryMemory(bytes >> 20)),
        Err(e) => Err(e),
    }
}
