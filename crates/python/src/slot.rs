//! A volume that Python may close while other threads use it.
use crate::error::{closed, os_error};
use parking_lot::RwLock;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use segno::{Error, Volume};
use std::process;

const EBUSY: i32 = 16;

/// An open volume, until it is closed.
pub(crate) struct Slot {
    volume: RwLock<Option<Volume>>,
    /// The process that opened it. A child made by fork(2) has neither the threads nor the locks of the volume, and must not
    /// write it.
    pid: u32,
}

impl Slot {
    pub(crate) fn new(volume: Volume) -> Self {
        Self { volume: RwLock::new(Some(volume)), pid: process::id() }
    }

    /// Fails in a child of the process that opened the volume.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        if self.pid == process::id() {
            return Ok(());
        }
        let why = "the volume belongs to the parent process: open it again in this one";
        Err(PyOSError::new_err((EBUSY, why)))
    }

    /// Runs `f` on the open volume without the interpreter lock.
    pub(crate) fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Volume) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        self.check_process()?;
        let done = py.detach(|| {
            let volume = self.volume.read();
            volume.as_ref().map(|v| v.catch_panic(|| f(v)))
        });
        done.ok_or_else(|| closed("volume"))?.map_err(|e| os_error(&e))
    }

    /// Closes the volume, after calls of other threads; does nothing if it is closed.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        let closed = py.detach(|| {
            let volume = self.volume.write().take();
            volume.map_or(Ok(()), |v| segno::catch_panic(|| v.close()))
        });
        closed.map_err(|e| os_error(&e))
    }

    /// Drops a handle of the volume, but not in a child of the process that opened it. The last one unmounts, which may wait for a thread
    /// that calls a file object.
    pub(crate) fn release<T: Send>(&self, handle: T) {
        match self.pid == process::id() {
            true => Python::attach(|py| py.detach(|| drop(handle))),
            false => std::mem::forget(handle),
        }
    }

    pub(crate) fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.check_process()?;
        Ok(py.detach(|| self.volume.read().is_none()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let volume = self.volume.get_mut().take();
        self.release(volume);
    }
}
