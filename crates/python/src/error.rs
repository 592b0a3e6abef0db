//! Errors as Python exceptions: `OSError` chooses the subclass by errno.
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use std::error::Error;
use std::ffi::OsString;

pyo3::create_exception!(
    segnofs,
    CorruptError,
    PyOSError,
    "The volume is damaged. The message names the structure and where it is; segnofs.check() finds all damage."
);

/// What Linux calls a structure that needs cleaning.
const EUCLEAN: i32 = 117;

/// The exception for an error; the path becomes its `filename`.
pub(crate) fn os_error(e: &segno::Error) -> PyErr {
    // The reason alone, as the exception shows the path.
    let why = e.source().map_or_else(|| e.to_string(), ToString::to_string);
    let path: Option<OsString> = e.path().map(|p| p.as_os_str().to_owned());
    match e.errno() {
        EUCLEAN => CorruptError::new_err((EUCLEAN, why, path)),
        errno => PyOSError::new_err((errno, why, path)),
    }
}

/// As a closed file of Python answers.
pub(crate) fn closed(what: &str) -> PyErr {
    PyValueError::new_err(format!("I/O operation on closed {what}"))
}
