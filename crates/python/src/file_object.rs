//! File objects of Python as streams.
use crate::args::Buffer;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// An object with `seek`, and `read` or `readinto`; one that is written to also has `write`. Nothing else may use it meanwhile.
pub(crate) struct FileObject(Py<PyAny>);

impl FileObject {
    /// None of an object that is a path.
    pub(crate) fn of(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let path = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
        let reads = !path && (given.hasattr("read")? || given.hasattr("readinto")?);
        Ok((reads && given.hasattr("seek")?).then(|| Self(given.clone().unbind())))
    }

    /// The same object.
    pub(crate) fn again(&self) -> Self {
        Python::attach(|py| Self(self.0.clone_ref(py)))
    }

    fn call<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> io::Result<T> {
        Python::attach(|py| call(self.0.bind(py)).map_err(|e| failure(py, &e)))
    }
}

/// Keeps the errno of an `OSError`.
fn failure(py: Python<'_>, e: &PyErr) -> io::Error {
    let errno = e.value(py).getattr("errno").ok().filter(|_| e.is_instance_of::<PyOSError>(py));
    match errno.and_then(|errno| errno.extract::<i32>().ok()) {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other(e.to_string()),
    }
}

impl Read for FileObject {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.call(|object| {
            let (bytes, count) = match object.hasattr("read")? {
                true => (object.call_method1("read", (into.len(),))?, None),
                false => {
                    let space = PyByteArray::new(object.py(), into).into_any();
                    let count: usize = object.call_method1("readinto", (&space,))?.extract()?;
                    (space, Some(count))
                }
            };
            let bytes = Buffer::readable(&bytes)?;
            let read = bytes.bytes().get(..count.unwrap_or(bytes.bytes().len()));
            let (from, to) =
                read.and_then(|from| Some((from, into.get_mut(..from.len())?))).ok_or_else(|| {
                    PyOSError::new_err("the file object returned more bytes than it was asked for")
                })?;
            to.copy_from_slice(from);
            Ok(from.len())
        })
    }
}

impl Write for FileObject {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.call(|object| {
            let count: Option<usize> =
                object.call_method1("write", (PyBytes::new(object.py(), from),))?.extract()?;
            let count = count.unwrap_or(from.len());
            Ok(count.min(from.len()))
        })
    }

    /// Flushes the object, and makes durable what a descriptor of it has.
    fn flush(&mut self) -> io::Result<()> {
        self.call(|object| {
            if object.hasattr("flush")? {
                object.call_method0("flush")?;
            }
            // Objects without a descriptor raise.
            match object.call_method0("fileno") {
                Ok(descriptor) => object.py().import("os")?.call_method1("fsync", (descriptor,)).map(drop),
                Err(_) => Ok(()),
            }
        })
    }
}

impl Seek for FileObject {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (offset, whence) = match to {
            SeekFrom::Start(offset) => (i128::from(offset), 0),
            SeekFrom::Current(offset) => (offset.into(), 1),
            SeekFrom::End(offset) => (offset.into(), 2),
        };
        self.call(|object| match object.call_method1("seek", (offset, whence))? {
            none if none.is_none() => object.call_method0("tell")?.extract(),
            position => position.extract(),
        })
    }
}
