//! An entry of a directory on the host, held by a descriptor.
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, getxattr, listxattr, openat, readlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The kind of a file; `Unknown` where a directory does not tell.
pub use rustix::fs::FileType as Kind;

/// Longest list of attribute names, and longest value, in Linux.
const XATTR_MAX: usize = 65_536;
/// Usual lengths are below this one.
const XATTR_USUAL: usize = 512;

/// A file, directory, link or special file. It stays the same, whatever becomes of its name.
#[derive(Debug)]
pub struct Entry {
    /// Of `O_PATH`: it neither reads nor waits.
    file: File,
    meta: Metadata,
}

impl Entry {
    /// The file at a path of the caller, through a symbolic link at its end if `follow`.
    pub fn named(path: &Path, follow: bool) -> io::Result<Self> {
        let flags = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        Self::of(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())?)
    }

    /// The entry of a directory. It is an error if its kind is not the listed one any more.
    pub fn at(dir: impl AsFd, name: &OsStr, listed: Kind) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let entry = Self::of(openat(dir, name, flags, Mode::empty())?)?;
        let now = entry.kind();
        if listed != Kind::Unknown && listed != now {
            let (was, is) = (word(listed), word(now));
            return Err(io::Error::other(format!("it was {was} and is {is}: it changed meanwhile")));
        }
        Ok(entry)
    }

    /// The names in a directory, in its order, with their kinds.
    pub fn list(dir: impl AsFd) -> io::Result<Vec<(OsString, Kind)>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                all.push((OsString::from_vec(name.to_vec()), entry.file_type()));
            }
        }
        Ok(all)
    }

    fn of(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        let meta = file.metadata()?;
        Ok(Self { file, meta })
    }

    /// Its attributes when it was opened.
    #[must_use]
    pub fn meta(&self) -> &Metadata {
        &self.meta
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        FileType::from_raw_mode(self.meta.mode())
    }

    /// Opens a regular file for reading.
    pub fn open(&self) -> io::Result<File> {
        File::open(self.path()).map_err(|e| explain(Errno::from_io_error(&e).unwrap_or(Errno::IO)))
    }

    /// Opens a directory.
    pub fn dir(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(openat(&self.file, ".", flags, Mode::empty())?)
    }

    /// The target of a symbolic link.
    pub fn target(&self) -> io::Result<Vec<u8>> {
        Ok(readlinkat(&self.file, "", Vec::new())?.into_bytes())
    }

    /// Names and values of its extended attributes.
    pub fn xattrs(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let path = self.path();
        let names = match bytes(|into| listxattr(&path, into)) {
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            listed => listed.map_err(explain)?,
        };
        let each = names.split(|&b| b == 0).filter(|name| !name.is_empty()).map(|name| {
            let value = bytes(|into| getxattr(&path, OsStr::from_bytes(name), into)).map_err(explain)?;
            Ok((name.to_vec(), value))
        });
        each.collect()
    }

    /// A path that leads to it, and to nothing else.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(self.file.as_fd())
    }
}

impl AsFd for Entry {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Bytes that a call fills in, few most of the time.
fn bytes(mut fill: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut into = vec![0; XATTR_USUAL];
    let n = match fill(&mut into) {
        Err(Errno::RANGE) => {
            into.resize(XATTR_MAX, 0);
            fill(&mut into)?
        }
        filled => filled?,
    };
    into.truncate(n);
    Ok(into)
}

/// A path that leads to the file of a descriptor.
fn path_of(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// A descriptor has a path unless /proc is missing.
fn explain(e: Errno) -> io::Error {
    match e {
        Errno::NOENT => io::Error::new(io::ErrorKind::NotFound, "/proc is not mounted, and is needed here"),
        e => e.into(),
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::RegularFile => "a regular file",
        Kind::Directory => "a directory",
        Kind::Symlink => "a symbolic link",
        Kind::Fifo => "a FIFO",
        Kind::Socket => "a socket",
        Kind::CharacterDevice => "a character device",
        Kind::BlockDevice => "a block device",
        Kind::Unknown => "a file of unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    /// A user who owns the directory replaces a file by a link to one that only root may read.
    #[test]
    fn an_entry_that_was_replaced_is_an_error_or_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("secret"), "secret").unwrap();
        std::fs::write(path("file"), "own").unwrap();
        let at = Entry::named(dir.path(), true).unwrap().dir().unwrap();
        let mut listed = Entry::list(&at).unwrap();
        listed.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<_> = listed.iter().map(|(name, kind)| (name.to_str().unwrap(), *kind)).collect();
        assert_eq!(names, [("file", Kind::RegularFile), ("secret", Kind::RegularFile)]);
        let held = Entry::at(&at, OsStr::new("file"), Kind::RegularFile).unwrap();
        std::fs::remove_file(path("file")).unwrap();
        symlink("secret", path("file")).unwrap();
        let mut text = String::new();
        held.open().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "own");
        let refused = Entry::at(&at, OsStr::new("file"), Kind::RegularFile).unwrap_err().to_string();
        assert_eq!(refused, "it was a regular file and is a symbolic link: it changed meanwhile");
        let link = Entry::at(&at, OsStr::new("file"), Kind::Unknown).unwrap();
        assert_eq!((link.kind(), link.target().unwrap()), (Kind::Symlink, b"secret".to_vec()));
        assert!(link.open().is_err());
    }
}
