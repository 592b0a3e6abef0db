//! A cache on local disk: its options, and its parts for a mount.
use crate::cachedir::CacheDir;
use crate::core::Planted;
use crate::disk::Disk;
use crate::records::CacheOf;
use crate::remote::Remote;
use crate::shelf::Shelf;
use crate::{Result, StoreError, recover, tail};
use std::path::PathBuf;
use std::sync::Arc;

/// Smallest cache; an object has up to 8 MiB.
const BYTES_MIN: u64 = 64 << 20;

/// A cache on local disk.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Its directory, which is made if it does not exist.
    pub dir: PathBuf,
    /// Bytes that it may take.
    pub bytes: u64,
    /// Acknowledge what is there, and upload it afterwards.
    pub writeback: bool,
}

/// The cache of a mount.
pub(crate) struct Local {
    pub shelf: Arc<dyn Shelf>,
    pub of: CacheOf,
    pub writeback: bool,
    /// Bytes that may wait for the store.
    pub limit: u64,
    /// Blocks that were read.
    pub disk: Option<Arc<Disk>>,
    /// Keeps other mounts out.
    pub _dir: Option<CacheDir>,
}

impl Local {
    /// Opens the cache of the volume in a store.
    pub(crate) async fn open(options: &CacheOptions, remote: &Remote) -> Result<Self> {
        let volume = recover::volume(remote).await?.id;
        let dir = CacheDir::open(&options.dir, &volume)?;
        let bytes = options.bytes.max(BYTES_MIN);
        // With write-back, half is for what waits and half for what was read.
        let limit = bytes / 2;
        let kept = if options.writeback { bytes - limit } else { bytes };
        let disk = Disk::open(&options.dir, kept, volume).map_err(|e| dir.failed(&e))?;
        Ok(Self {
            shelf: Arc::new(dir.tail()?),
            of: CacheOf { id: dir.id, path: options.dir.display().to_string() },
            writeback: options.writeback,
            limit,
            disk: Some(Arc::new(disk)),
            _dir: Some(dir),
        })
    }

    /// Uploads what an earlier mount left; a reader only sees that there is nothing.
    pub(crate) async fn settle(&self, remote: &Remote, read_only: bool, planted: Planted) -> Result<()> {
        let dir = &self.of.path;
        if !read_only {
            return tail::upload(remote, &*self.shelf, dir, planted).await;
        }
        match self.shelf.list().await {
            Ok(tail) if tail.is_empty() => Ok(()),
            Ok(_) => Err(StoreError::TailUnread { dir: dir.clone() }),
            Err(e) => Err(StoreError::Cache { dir: dir.clone(), why: e.to_string() }),
        }
    }
}
