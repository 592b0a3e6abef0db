//! The native module of the Python package `segnofs`: volumes and files by path, for `python/segnofs`, which adds file objects,
//! walks and copies. Every call that may wait releases the interpreter lock.
#![warn(unreachable_pub, clippy::indexing_slicing)]

mod args;
mod checker;
mod error;
mod file;
mod file_object;
mod formatting;
mod image;
mod metadata;
mod slot;
mod storage;
mod volume;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::checker::{check, check_replayed, repair, replay};
    #[pymodule_export]
    use super::error::CorruptError;
    #[pymodule_export]
    use super::file::File;
    #[pymodule_export]
    use super::formatting::mkfs;
    #[pymodule_export]
    use super::image::{build, extract};
    #[pymodule_export]
    use super::volume::{Visits, Volume};
}
