//! Volumes on object stores, if the program is built with them.
#[cfg_attr(not(feature = "store"), path = "absent.rs")]
mod present;

pub use present::{create, left_by, local, open};
#[cfg(feature = "store")]
pub use present::{device, drain, fenced, has_writer, with_left};

use std::path::{Path, PathBuf};

/// Files and directories of this machine that the client of a store uses.
#[derive(Debug, Default)]
pub struct Local {
    pub read: Vec<PathBuf>,
    pub written: Vec<PathBuf>,
    /// It connects to a server.
    pub is_remote: bool,
}

/// What `-o` says of the store.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "store"), allow(dead_code, reason = "only object stores have a use for them"))]
pub struct Settings {
    pub takeover: bool,
    pub unfenced: bool,
    pub insecure: bool,
    /// Seconds.
    pub timeout: u32,
    /// Directory of the cache on local disk.
    pub cache: Option<PathBuf>,
    /// Bytes that it may take.
    pub cache_bytes: u64,
    pub writeback: bool,
    /// Read the volume as what the cache has, and the store has not, would have made it.
    pub with_left: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            takeover: false,
            unfenced: false,
            insecure: false,
            timeout: 300,
            cache: None,
            cache_bytes: 1 << 30,
            writeback: false,
            with_left: false,
        }
    }
}

/// Whether an image is on an object store.
pub fn is_url(image: &Path) -> bool {
    image.to_str().is_some_and(|text| text.starts_with("s3://") || text.starts_with("file://"))
}
