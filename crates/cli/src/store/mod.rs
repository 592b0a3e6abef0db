//! Volumes on object stores, if the program is built with them.
#[cfg_attr(not(feature = "store"), path = "absent.rs")]
mod present;

pub use present::{create, local, open, why_not_closed};
#[cfg(feature = "store")]
pub use present::{device, drain, fenced, has_writer, with_spool};

use segno_format::BLOCK_SIZE;
use segno_mkfs::{MkfsOptions, plan};
use std::path::{Path, PathBuf};

/// Segments of the largest zone: 32 MiB. An object is in one zone, so a sequential write to small ones costs more requests.
pub const ZONE_SEGMENTS_MAX: u32 = 16;
/// Share of a volume that files shall have, in percent.
const FILES_PERCENT: u64 = 80;

/// Files and directories of this machine that the client of a store uses.
#[derive(Debug, Default)]
pub struct Local {
    pub read: Vec<PathBuf>,
    pub written: Vec<PathBuf>,
    /// It connects to a server.
    pub is_remote: bool,
}

/// The settings of the store from `-o`.
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
    /// Read the volume with the spooled objects of the cache that the store lacks.
    pub with_spool: bool,
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
            with_spool: false,
        }
    }
}

/// Segments of a zone of a new volume: as many as leave 80 % of its bytes for files, or else one. The reserve for cleaning is
/// counted in zones.
pub fn zone_segments(bytes: u64, mkfs: &MkfsOptions) -> u32 {
    let blocks = bytes / BLOCK_SIZE as u64;
    let leaves_enough = |segs_per_sec: u32| {
        plan(&[blocks], &MkfsOptions { segs_per_sec, secs_per_zone: 1, ..mkfs.clone() })
            .is_ok_and(|layout| layout.reserve.user_block_count * 100 >= blocks * FILES_PERCENT)
    };
    let mut sizes = std::iter::successors(Some(ZONE_SEGMENTS_MAX), |n| (*n > 1).then_some(n / 2));
    sizes.find(|n| leaves_enough(*n)).unwrap_or(1)
}

/// Whether an image is on an object store.
pub fn is_url(image: &Path) -> bool {
    image.to_str().is_some_and(|text| text.starts_with("s3://") || text.starts_with("file://"))
}
