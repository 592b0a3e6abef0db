//! Paths and buffers that callers pass.
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A path as `os` takes it: `str` (with surrogate escapes for bytes that are not UTF-8), `bytes` or
/// `os.PathLike`.
pub(crate) struct VolumePath(PathBuf);

impl<'py> FromPyObject<'_, 'py> for VolumePath {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let plain = if given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>() {
            given.to_owned()
        } else {
            given.py().import("os")?.call_method1("fspath", (given,))?
        };
        match plain.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self(OsString::from_vec(bytes.as_bytes().to_vec()).into())),
            Err(_) => Ok(Self(plain.extract::<OsString>()?.into())),
        }
    }
}

impl From<VolumePath> for PathBuf {
    fn from(path: VolumePath) -> Self {
        path.0
    }
}

impl AsRef<Path> for VolumePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<OsStr> for VolumePath {
    fn as_ref(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

/// Memory of a Python object, which stays where it is while this is held.
pub(crate) struct Buffer(PyBuffer<u8>);

impl Buffer {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(object)?;
        match buffer.is_c_contiguous() {
            true => Ok(Self(buffer)),
            false => Err(PyBufferError::new_err("the buffer is not contiguous")),
        }
    }

    /// For reading into.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = Self::of(object)?;
        match buffer.0.readonly() {
            false => Ok(buffer),
            true => Err(PyBufferError::new_err("the buffer cannot be written")),
        }
    }

    /// For writing from.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(object)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self.0.len_bytes() {
            0 => &[],
            // SAFETY: the buffer is contiguous and keeps its memory until it is dropped. Another thread of the interpreter may
            // change the bytes meanwhile, as with any object of `io`: then what is written is undefined, its place is not.
            len => unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), len) },
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self.0.len_bytes() {
            0 => &mut [],
            // SAFETY: as above, and `writable` checked that it may be written.
            len => unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), len) },
        }
    }
}
