//! A cache on local disk: its options, and its parts for a mount.
use crate::cachedir::CacheDir;
use crate::disk::{Disk, Seen};
use crate::notice::Notice;
use crate::records::CacheOf;
use crate::recover::Recovered;
use crate::remote::Remote;
use crate::shelf::Shelf;
use crate::{Result, StoreError, claim, recover, tail};
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
        // With write-back, half is for objects that wait for the store, and half for blocks that were read.
        let limit = bytes / 2;
        let kept = if options.writeback { bytes - limit } else { bytes };
        let disk = Disk::open(&dir.dir, kept, volume).map_err(|e| dir.failed(&e))?;
        Ok(Self {
            shelf: Arc::new(dir.tail()?),
            of: CacheOf { id: dir.id, path: options.dir.display().to_string() },
            writeback: options.writeback,
            limit,
            disk: Some(Arc::new(disk)),
            _dir: Some(dir),
        })
    }

    /// Drops cached blocks if the store was in a later state when they were read, or is another store.
    pub(crate) async fn check_history(&self, remote: &Remote, found: &Recovered) -> Result<()> {
        let Some((disk, seen)) = self.disk.as_ref().and_then(|disk| Some((disk, disk.seen()?))) else {
            return Ok(());
        };
        let is_same = claim::session(remote, seen.epoch).await? == Some(seen.session);
        if !is_same || found.last_of(seen.epoch) < seen.seq {
            let dir = self.of.path.clone();
            remote.notify(&Notice::SetBack { dir, epoch: seen.epoch, commit: seen.seq });
            disk.clear();
        }
        Ok(())
    }

    /// Records the history of the pieces that are kept from now on.
    pub(crate) async fn note_history(&self, remote: &Remote, found: &Recovered) -> Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let (epoch, session) = match found.session {
            Some(session) => (session.epoch, Some(session.id)),
            None => {
                let (next, seq) = found.next;
                let epoch = if seq > 1 { next } else { next.saturating_sub(1) };
                (epoch, claim::session(remote, epoch).await?)
            }
        };
        if let Some(session) = session {
            disk.set_seen(Seen { epoch, session, seq: found.last_of(epoch) });
        }
        Ok(())
    }

    /// Keeps the index of the pieces for the next mount, and the last commit that the store has.
    pub(crate) fn save(&self, stored: Option<u64>) {
        let Some(disk) = &self.disk else { return };
        if let Some((seq, seen)) = stored.zip(disk.seen()) {
            disk.set_seen(Seen { seq, ..seen });
        }
        // Without it the next mount begins with an empty cache.
        let _empty_then = disk.save();
    }

    /// Uploads objects that an earlier mount left. A reader only checks that there are none.
    pub(crate) async fn settle(&self, remote: &Remote, read_only: bool) -> Result<()> {
        let dir = &self.of.path;
        if !read_only {
            return tail::upload(remote, &*self.shelf, dir).await;
        }
        match self.shelf.list().await {
            Ok(tail) if tail.is_empty() => Ok(()),
            Ok(_) => Err(StoreError::TailUnread { dir: dir.clone() }),
            Err(e) => Err(StoreError::Cache { dir: dir.clone(), why: e.to_string() }),
        }
    }
}
