//! Objects on local disk that the store does not have yet: a file each, with the bytes of the object.
use crate::local::private_dir::PrivateDir;
use crate::wire::names::{Name, ObjectId};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::spawn_blocking;

/// Prefix of the names of incomplete files.
const INCOMPLETE: &str = "new-";

/// Storage for objects that wait for the store.
pub(crate) trait Spool: Send + Sync {
    /// Stores an object. It is durable on return; a power cut before that leaves it complete or absent.
    fn put(&self, id: ObjectId, bytes: Bytes) -> BoxFuture<'_, io::Result<()>>;

    /// Reads an object, or a part of it up to its end; `None` if it does not exist.
    fn read(&self, id: ObjectId, range: Option<Range<u64>>) -> BoxFuture<'_, io::Result<Option<Bytes>>>;

    /// Removes an object. After a power cut it may exist again.
    fn remove(&self, id: ObjectId) -> BoxFuture<'_, io::Result<()>>;

    /// All objects.
    fn list(&self) -> BoxFuture<'_, io::Result<Vec<ObjectId>>>;
}

/// A directory with a file for each object.
pub(crate) struct Directory(Arc<Files>);

struct Files {
    dir: PrivateDir,
    temporary: AtomicU64,
    /// Number of changes of names, and how many of them are durable. `None` after a failed flush: a later one
    /// could succeed without the changes that it lost.
    changed: AtomicU64,
    synced: Mutex<Option<u64>>,
}

impl Directory {
    /// Opens a directory, and removes incomplete files.
    pub(crate) fn open(dir: PrivateDir) -> io::Result<Self> {
        for name in dir.names()?.iter().filter(|name| name.starts_with(INCOMPLETE)) {
            dir.remove(name)?;
        }
        Ok(Self(Arc::new(Files {
            dir,
            temporary: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            synced: Mutex::new(Some(0)),
        })))
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'_, io::Result<T>> {
        let files = self.0.clone();
        Box::pin(async move { spawn_blocking(move || work(&files)).await.map_err(io::Error::other)? })
    }
}

impl Spool for Directory {
    fn put(&self, id: ObjectId, bytes: Bytes) -> BoxFuture<'_, io::Result<()>> {
        self.run(move |files| files.put(id, &bytes))
    }

    fn read(&self, id: ObjectId, range: Option<Range<u64>>) -> BoxFuture<'_, io::Result<Option<Bytes>>> {
        self.run(move |files| match files.read(id, range) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        })
    }

    fn remove(&self, id: ObjectId) -> BoxFuture<'_, io::Result<()>> {
        self.run(move |files| files.dir.remove(&place(id)))
    }

    fn list(&self) -> BoxFuture<'_, io::Result<Vec<ObjectId>>> {
        self.run(Files::list)
    }
}

/// The object that a file holds.
fn object(file: &str) -> Option<ObjectId> {
    match Name::parse(&file.replace('-', "/")) {
        Some(Name::Object(id)) => Some(id),
        _ => None,
    }
}

/// The name of its file.
fn place(id: ObjectId) -> String {
    Name::Object(id).to_string().replace('/', "-")
}

impl Files {
    fn list(&self) -> io::Result<Vec<ObjectId>> {
        Ok(self.dir.names()?.iter().filter_map(|name| object(name)).collect())
    }

    fn put(&self, id: ObjectId, bytes: &[u8]) -> io::Result<()> {
        let number = self.temporary.fetch_add(1, Ordering::Relaxed);
        let incomplete = format!("{INCOMPLETE}{number}");
        let done = self.store(&incomplete, &place(id), bytes);
        if done.is_err() {
            // The error of the write is the one to report; the next mount removes what is incomplete.
            let _removed_at_the_next_mount = self.dir.remove(&incomplete);
        }
        done
    }

    fn store(&self, incomplete: &str, place: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.dir.create(incomplete)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()?;
        self.dir.rename(incomplete, place)?;
        self.sync()
    }

    /// Makes changed names durable. One flush serves all waiting callers.
    fn sync(&self) -> io::Result<()> {
        let own = self.changed.fetch_add(1, Ordering::SeqCst) + 1;
        let mut synced = self.synced.lock();
        let before =
            synced.take().ok_or_else(|| io::Error::other("an earlier flush of the directory failed"))?;
        let upto = if before < own {
            let upto = self.changed.load(Ordering::SeqCst);
            self.dir.sync()?;
            upto
        } else {
            before
        };
        *synced = Some(upto);
        Ok(())
    }

    fn read(&self, id: ObjectId, range: Option<Range<u64>>) -> io::Result<Bytes> {
        let file = self.dir.file(&place(id), OFlags::RDONLY)?;
        let end = file.metadata()?.len();
        if end > Name::Object(id).bytes_max() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than it can be"));
        }
        let range = range.map_or(0..end, |r| r.start..r.end.min(end));
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        file.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Epoch, LogPlace};
    use std::fs;

    fn open(dir: &std::path::Path) -> Directory {
        Directory::open(PrivateDir::open(dir).unwrap()).unwrap()
    }

    #[test]
    fn objects_are_kept_in_files_and_incomplete_ones_removed() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (a, b) = (ObjectId::Data { epoch: Epoch::new(1), number: 2 }, ObjectId::Log(LogPlace::of(1, 3)));
        runtime.block_on(async {
            let spool = open(dir.path());
            spool.put(a, Bytes::from_static(b"0123456789")).await.unwrap();
            spool.put(b, Bytes::from_static(b"log")).await.unwrap();
            fs::write(dir.path().join("new-7"), b"half").unwrap();
            let spool = open(dir.path());
            let mut all = spool.list().await.unwrap();
            all.sort_unstable();
            assert_eq!(all, [a, b]);
            assert_eq!(spool.read(a, Some(2..5)).await.unwrap().unwrap(), "234");
            assert_eq!(spool.read(a, Some(8..50)).await.unwrap().unwrap(), "89");
            assert_eq!(spool.read(b, None).await.unwrap().unwrap(), "log");
            spool.remove(a).await.unwrap();
            assert_eq!(spool.read(a, None).await.unwrap(), None);
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
