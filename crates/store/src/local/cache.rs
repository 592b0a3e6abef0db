//! A cache on local disk: its options, and its parts for a mount.
use crate::Result;
use crate::fence::owner::CacheId;
use crate::ids::Seq;
use crate::local::cache_dir::CacheDir;
use crate::local::disk::{Disk, Seen};
use crate::local::spool::Spool;
use std::path::PathBuf;
use std::sync::Arc;

/// Smallest cache; an object has up to 8 MiB.
const BYTES_MIN: u64 = 64 << 20;

/// A cache on local disk.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Its directory, which is created if it does not exist.
    pub dir: PathBuf,
    /// Bytes that it may take.
    pub bytes: u64,
    /// Acknowledge writes that are in the cache, and upload them afterwards.
    pub writeback: bool,
}

/// The cache of a mount.
pub(crate) struct Local {
    pub spool: Arc<dyn Spool>,
    pub of: CacheId,
    pub writeback: bool,
    /// Bytes that may wait for the store.
    pub limit: u64,
    /// Blocks that were read.
    pub disk: Option<Arc<Disk>>,
    /// Keeps other mounts out.
    pub _dir: Option<CacheDir>,
}

impl Local {
    /// Opens the cache of a volume.
    pub(crate) fn open(options: &CacheOptions, volume: [u8; 16]) -> Result<Self> {
        let dir = CacheDir::open(&options.dir, &volume)?;
        let bytes = options.bytes.max(BYTES_MIN);
        // With write-back, half is for objects that wait for the store, and half for blocks that were read.
        let limit = bytes / 2;
        let kept = if options.writeback { bytes - limit } else { bytes };
        let disk = Disk::open(&dir.dir, kept, volume).map_err(|e| dir.failed(&e))?;
        Ok(Self {
            spool: Arc::new(dir.spool()?),
            of: CacheId { id: dir.id, path: options.dir.display().to_string() },
            writeback: options.writeback,
            limit,
            disk: Some(Arc::new(disk)),
            _dir: Some(dir),
        })
    }

    /// Keeps the index of the pieces for the next mount, and the last commit that the store has.
    pub(crate) fn save(&self, stored: Option<Seq>) {
        let Some(disk) = &self.disk else { return };
        if let Some((seq, seen)) = stored.zip(disk.seen()) {
            disk.set_seen(Seen { seq, ..seen });
        }
        // Without it the next mount begins with an empty cache.
        let _empty_then = disk.save();
    }
}
