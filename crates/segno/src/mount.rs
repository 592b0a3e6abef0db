//! The mounted volume that all handles share.
use crate::device::{Device, RangeLock};
use crate::error::Cause;
use crate::mount_options::MountOptions;
use parking_lot::Mutex;
use segno_engine::{Background, Volume};
use std::sync::Arc;

/// Unmounts when the last handle is dropped.
pub(crate) struct Mount {
    pub(crate) engine: Arc<Volume>,
    /// Held by a write to the end of a file, so that appends through several handles do not overlap.
    pub(crate) append: Mutex<()>,
    /// Taken when the volume is unmounted.
    background: Mutex<Option<Background>>,
    /// Released after the volume is unmounted: its device, and the device of an external journal.
    _locks: (RangeLock, Option<RangeLock>),
}

impl Mount {
    pub(crate) fn open(device: &Device, options: &MountOptions) -> Result<Arc<Self>, Cause> {
        let volume_lock = device.lock_range()?;
        device.require_superblock(|_| true)?;
        let (options, journal) = options.engine(device)?;
        let engine = Volume::mount(Arc::clone(device.storage()), options)?;
        let background = Background::start(&engine)?;
        Ok(Arc::new(Self {
            engine,
            append: Mutex::new(()),
            background: Mutex::new(Some(background)),
            _locks: (volume_lock, journal),
        }))
    }

    /// Writes everything and marks the volume as unmounted; only the first call does so, and others wait for it.
    pub(crate) fn unmount(&self) -> Result<(), segno_engine::Error> {
        let mut background = self.background.lock();
        let Some(running) = background.take() else { return Ok(()) };
        drop(running);
        if self.engine.is_stopped() {
            return Err(segno_engine::Error::Stopped);
        }
        self.engine.unmount()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // State that a panic interrupted is not written: the volume stays as after a power cut, which it survives.
        if !std::thread::panicking() {
            let _nobody_to_report_to = self.unmount();
        }
    }
}
