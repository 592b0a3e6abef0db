//! Open files: bytes at positions. `segnofs.RawFile` adds a position.
use crate::args::Buffer;
use crate::error::closed;
use crate::metadata::Stat;
use crate::slot::Slot;
use parking_lot::RwLock;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use segno::{Error, Volume};
use std::sync::Arc;

/// An open regular file.
#[pyclass(module = "segnofs._native", frozen)]
pub(crate) struct File {
    file: RwLock<Option<segno::File>>,
    volume: Arc<Slot>,
}

impl File {
    pub(crate) fn new(file: segno::File, volume: Arc<Slot>) -> Self {
        Self { file: RwLock::new(Some(file)), volume }
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&segno::File) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let done = self.volume.with(py, |_: &Volume| self.file.read().as_ref().map(f).transpose())?;
        done.ok_or_else(|| closed("file"))
    }
}

#[pymethods]
impl File {
    /// Reads into a buffer from an offset; returns the number of bytes, 0 at the end.
    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: u64) -> PyResult<usize> {
        let mut buffer = Buffer::writable(buffer)?;
        self.with(py, |file| file.read_at(buffer.bytes_mut(), offset))
    }

    /// Up to `size` bytes from an offset; fewer at the end.
    fn read<'py>(&self, py: Python<'py>, offset: u64, size: u64) -> PyResult<Bound<'py, PyBytes>> {
        let rest = self.with(py, |file| Ok(file.metadata()?.len().saturating_sub(offset)))?;
        let size = usize::try_from(size.min(rest)).map_or(usize::MAX, |n| n.min(isize::MAX.unsigned_abs()));
        let mut done = 0;
        let bytes = PyBytes::new_with(py, size, |buffer| {
            done = self.with(py, |file| read_full(file, buffer, offset))?;
            Ok(())
        })?;
        if done == size {
            return Ok(bytes);
        }
        // The file was cut meanwhile.
        Ok(PyBytes::new(py, bytes.as_bytes().get(..done).unwrap_or_default()))
    }

    /// Writes a buffer at an offset, or at the end of a file opened to append; returns the number of bytes.
    fn write_from(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: u64) -> PyResult<usize> {
        let buffer = Buffer::readable(buffer)?;
        self.with(py, |file| file.write_at(buffer.bytes(), offset))
    }

    fn stat(&self, py: Python<'_>) -> PyResult<Stat> {
        self.with(py, |file| file.metadata().map(Stat::from))
    }

    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.with(py, |file| file.set_len(size))
    }

    fn sync(&self, py: Python<'_>, data_only: bool) -> PyResult<()> {
        self.with(py, |file| if data_only { file.sync_data() } else { file.sync_all() })
    }

    /// The first offset from the given one on that has data; `None` if no data follows.
    fn seek_data(&self, py: Python<'_>, offset: u64) -> PyResult<Option<u64>> {
        self.with(py, |file| file.seek_data(offset))
    }

    /// The first offset from the given one on that is in a hole, or the end of the file.
    fn seek_hole(&self, py: Python<'_>, offset: u64) -> PyResult<Option<u64>> {
        self.with(py, |file| file.seek_hole(offset))
    }

    fn close(&self, py: Python<'_>) {
        // In a child process the lock may be held by a thread that does not exist there.
        if self.volume.check_process().is_ok() {
            py.detach(|| drop(self.file.write().take()));
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.volume.release(self.file.get_mut().take());
    }
}

/// Reads until the buffer is full or the file ends.
fn read_full(file: &segno::File, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64))? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}
