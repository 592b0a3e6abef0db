//! The directory of a cache on local disk: the volume that it belongs to, and exclusive use by one mount.
use crate::ids::{hex, random};
use crate::local::private_dir::PrivateDir;
use crate::local::spool::Directory;
use crate::{Result, StoreError};
use rustix::fs::OFlags;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File with a line each for format, volume and identity of the cache.
const IDENTITY: &str = "segno-cache";
const NEW_IDENTITY: &str = "segno-cache.new";
const IDENTITY_BYTES_MAX: u64 = 4096;
const FORMAT: &str = "segno cache 1";
const LOCK: &str = "lock";
/// Objects that the store does not have yet.
const SPOOL: &str = "tail";

/// A cache directory that this process has locked.
#[derive(Debug)]
pub(crate) struct CacheDir {
    pub dir: Arc<PrivateDir>,
    path: PathBuf,
    /// Random. A directory that is created again at the same path has another one.
    pub id: [u8; 16],
    _lock: File,
}

impl CacheDir {
    /// Opens the cache of a volume, and creates it if nothing is there.
    pub(crate) fn open(path: &Path, volume: &[u8; 16]) -> Result<Self> {
        let failed = |e: io::Error| StoreError::Cache { dir: path.display().to_string(), why: e.to_string() };
        let refused = |why: &str| failed(io::Error::other(why));
        let dir = PrivateDir::open(path).map_err(failed)?;
        if !is_usable(&dir).map_err(failed)? {
            return Err(refused("it is neither empty nor a cache"));
        }
        let lock = dir.file(LOCK, OFlags::RDWR | OFlags::CREATE).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(refused("another mount uses it")),
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        let id = match dir.read(IDENTITY, IDENTITY_BYTES_MAX) {
            Ok(text) => {
                let found = std::str::from_utf8(&text).ok().and_then(parse);
                let (of, id) = found.ok_or_else(|| refused("its identity is damaged"))?;
                if of != *volume {
                    return Err(refused(
                        "it belongs to another volume; choose another directory, or delete it if what was written there last may \
                         be lost",
                    ));
                }
                id
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let id = random()?;
                make(&dir, volume, &id).map_err(failed)?;
                id
            }
            Err(e) => return Err(failed(e)),
        };
        Ok(Self { dir: Arc::new(dir), path: path.to_owned(), id, _lock: lock })
    }

    /// Objects that the store does not have yet.
    pub(crate) fn spool(&self) -> Result<Directory> {
        self.dir.sub(SPOOL).and_then(Directory::open).map_err(|e| self.failed(&e))
    }

    pub(crate) fn failed(&self, e: &io::Error) -> StoreError {
        StoreError::Cache { dir: self.path.display().to_string(), why: e.to_string() }
    }
}

/// Whether the directory is a cache, or has only files of an interrupted first mount.
fn is_usable(dir: &PrivateDir) -> io::Result<bool> {
    let names = dir.names()?;
    let is_known = |name: &String| [LOCK, SPOOL, NEW_IDENTITY].contains(&name.as_str());
    Ok(names.iter().any(|name| name == IDENTITY) || names.iter().all(is_known))
}

/// Creates the parts of a cache, the identity last, so that a cache with an identity is complete.
fn make(dir: &PrivateDir, volume: &[u8; 16], id: &[u8; 16]) -> io::Result<()> {
    dir.sub(SPOOL)?;
    match dir.remove(NEW_IDENTITY) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = dir.create(NEW_IDENTITY)?;
    writeln!(file, "{FORMAT}\nvolume {}\ncache {}", hex(volume), hex(id))?;
    file.sync_all()?;
    dir.rename(NEW_IDENTITY, IDENTITY)?;
    dir.sync()
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
    use crate::ids::{Epoch, Seq};
    use crate::local::disk::{Disk, Seen};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

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
    /// Every name of a cache, as a link to a file of another user: the target does not change.
    #[test]
    fn no_link_in_a_cache_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        fs::write(&target, b"kept").unwrap();
        for name in [LOCK, SPOOL, IDENTITY, NEW_IDENTITY, "pieces", "index"] {
            let path = dir.path().join(name);
            let is_made = !matches!(name, LOCK | SPOOL | IDENTITY | NEW_IDENTITY);
            if is_made {
                drop(CacheDir::open(&path, &[1; 16]).unwrap());
            } else {
                fs::create_dir(&path).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            }
            symlink(&target, path.join(name)).unwrap();
            let opened = CacheDir::open(&path, &[1; 16]).and_then(|cache| {
                let disk = Disk::open(&cache.dir, 1 << 20, [1; 16]).map_err(|e| cache.failed(&e))?;
                disk.set_seen(Seen { epoch: Epoch::new(1), session: [5; 16], seq: Seq::new(9) });
                disk.save().map_err(|e| cache.failed(&e))
            });
            match name {
                // It is replaced.
                NEW_IDENTITY => opened.unwrap(),
                _ => {
                    let why = opened.unwrap_err().to_string();
                    assert!(why.contains(name) && why.contains(path.to_str().unwrap()), "{name}: {why}");
                }
            }
            assert_eq!(fs::read(&target).unwrap(), b"kept", "{name}");
        }
    }

    #[test]
    fn the_files_of_a_cache_are_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        let cache = CacheDir::open(&path, &[1; 16]).unwrap();
        let disk = Disk::open(&cache.dir, 1 << 20, [1; 16]).unwrap();
        disk.set_seen(Seen { epoch: Epoch::new(1), session: [5; 16], seq: Seq::new(9) });
        disk.save().unwrap();
        let mut modes: Vec<(String, u32)> = fs::read_dir(&path)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
                (entry.file_name().into_string().unwrap(), mode)
            })
            .collect();
        modes.sort();
        let expected =
            [("index", 0o600), (LOCK, 0o600), ("pieces", 0o600), (IDENTITY, 0o600), (SPOOL, 0o700)];
        assert_eq!(modes, expected.map(|(name, mode)| (name.to_owned(), mode)));
    }
}
