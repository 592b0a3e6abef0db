//! The native module of the Python package `segnofs`: volumes and files by path, for `python/segnofs`, which adds file objects,
//! walks and copies. Every call that may wait releases the interpreter lock.
#![warn(unreachable_pub, clippy::indexing_slicing)]

mod args;
mod error;
mod file;
mod formatting;
mod image;
mod metadata;
mod slot;
mod volume;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::error::CorruptError;
    #[pymodule_export]
    use super::file::File;
    #[pymodule_export]
    use super::formatting::{check, mkfs};
    #[pymodule_export]
    use super::image::{build, extract};
    #[pymodule_export]
    use super::volume::{Visits, Volume};
}
