//! The directory of a cache on local disk: whose it is, and that one mount uses it.
use crate::claim::{hex, random};
use crate::shelf::Directory;
use crate::{Result, StoreError};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Whose cache it is; a line each for format, volume and identity.
const IDENTITY: &str = "segno-cache";
const FORMAT: &str = "segno cache 1";
const LOCK: &str = "lock";
/// Objects that the store does not have yet.
const TAIL: &str = "tail";

/// A cache directory that this process has locked.
#[derive(Debug)]
pub(crate) struct CacheDir {
    pub path: PathBuf,
    /// A directory that is made again at the same path has another one.
    pub id: [u8; 16],
    _lock: File,
}

impl CacheDir {
    /// Opens the cache of a volume, and makes it if nothing is there.
    pub(crate) fn open(path: &Path, volume: &[u8; 16]) -> Result<Self> {
        let failed = |e: io::Error| StoreError::Cache { dir: path.display().to_string(), why: e.to_string() };
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => sync_dir(path.parent().unwrap_or(path)).map_err(failed)?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(e)),
        }
        if !path.join(IDENTITY).exists() && !is_unused(path).map_err(failed)? {
            return Err(failed(io::Error::other("it is neither empty nor a cache")));
        }
        let lock = File::create(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(failed(io::Error::other("another mount uses it"))),
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        let id = match fs::read_to_string(path.join(IDENTITY)) {
            Ok(text) => {
                let (of, id) =
                    parse(&text).ok_or_else(|| failed(io::Error::other("its identity is damaged")))?;
                if of != *volume {
                    let why = "it belongs to another volume; choose another directory, or delete it if what was written there \
                               last may be lost";
                    return Err(failed(io::Error::other(why)));
                }
                id
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let id = random()?;
                make(path, volume, &id).map_err(failed)?;
                id
            }
            Err(e) => return Err(failed(e)),
        };
        Ok(Self { path: path.to_owned(), id, _lock: lock })
    }

    /// Objects that the store does not have yet.
    pub(crate) fn tail(&self) -> Result<Directory> {
        Directory::open(&self.path.join(TAIL)).map_err(|e| self.failed(&e))
    }

    pub(crate) fn failed(&self, e: &io::Error) -> StoreError {
        StoreError::Cache { dir: self.path.display().to_string(), why: e.to_string() }
    }
}

/// Whether there is nothing but what an interrupted first mount left.
fn is_unused(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name != LOCK && name != TAIL && name != "segno-cache.new" {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes the parts of a cache; the identity last, so that it is whole.
fn make(path: &Path, volume: &[u8; 16], id: &[u8; 16]) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path.join(TAIL)) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let new = path.join("segno-cache.new");
    let mut file = File::create(&new)?;
    writeln!(file, "{FORMAT}\nvolume {}\ncache {}", hex(volume), hex(id))?;
    file.sync_all()?;
    fs::rename(&new, path.join(IDENTITY))?;
    sync_dir(path)
}

fn sync_dir(path: &Path) -> io::Result<()> {
    // The parent of a relative name is empty.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

/// Volume and identity.
fn parse(text: &str) -> Option<([u8; 16], [u8; 16])> {
    let mut lines = text.lines();
    let first = lines.next()?;
    let volume = number(lines.next()?.strip_prefix("volume ")?)?;
    let id = number(lines.next()?.strip_prefix("cache ")?)?;
    (first == FORMAT).then_some((volume, id))
}

fn number(text: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32).map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(path: &Path, volume: u8) -> String {
        CacheDir::open(path, &[volume; 16]).unwrap_err().to_string()
    }

    #[test]
    fn a_cache_belongs_to_a_volume_and_one_mount() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        let first = CacheDir::open(&path, &[1; 16]).unwrap();
        assert!(why(&path, 1).contains("another mount"));
        let id = first.id;
        drop(first);
        assert_eq!(CacheDir::open(&path, &[1; 16]).unwrap().id, id);
        assert!(why(&path, 2).contains("another volume"));
        fs::remove_dir_all(&path).unwrap();
        assert_ne!(CacheDir::open(&path, &[1; 16]).unwrap().id, id);
    }

    #[test]
    fn directories_of_others_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("letter"), b"dear").unwrap();
        assert!(why(dir.path(), 1).contains("neither empty nor a cache"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(why(&dir.path().join("a/b"), 1).contains("No such file"));
        assert!(why(&dir.path().join("letter"), 1).contains("Not a directory"));
    }

    #[test]
    fn a_damaged_identity_is_no_new_cache() {
        let dir = tempfile::tempdir().unwrap();
        drop(CacheDir::open(dir.path(), &[1; 16]).unwrap());
        fs::write(dir.path().join(IDENTITY), b"segno cache 1\nvolume 01").unwrap();
        assert!(why(dir.path(), 1).contains("damaged"));
    }
}
