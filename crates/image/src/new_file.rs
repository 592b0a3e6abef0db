//! A file that gets its name when it is complete.
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, linkat, open};
use segno_host::directory_of;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, TempPath};

/// Bytes of the final name that a temporary one has.
const NAME_PREFIX_MAX: usize = 200;

/// A file that has no name in the directory of the final one, or where the host has no such files a temporary
/// one. Dropping it removes it. A killed process leaves nothing in the first case, and in the second what the
/// next run removes.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    place: Place,
    path: PathBuf,
}

#[derive(Debug)]
enum Place {
    /// The path of the descriptor.
    Unnamed(PathBuf),
    Named(TempPath),
}

impl NewFile {
    /// Makes the file in the directory of its final path. It has its permissions from the first byte; the
    /// umask takes its share.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        sweep(path);
        let (file, place) = match unnamed(directory_of(path), mode) {
            Some(made) => made,
            None => named(path, mode)?,
        };
        Ok(Self { file, place, path: path.to_owned() })
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its path until it has its name.
    #[must_use]
    pub fn temporary(&self) -> &Path {
        match &self.place {
            Place::Unnamed(path) => path,
            Place::Named(path) => path,
        }
    }

    /// Releases the lock of a temporary name, before the caller takes another lock of the file.
    pub fn unlock(&self) {
        let _never_locked_without_name = flock(&self.file, FlockOperation::Unlock);
    }

    /// Makes the content durable and gives the file its name. With `force` it replaces an existing file, in one step.
    pub fn finish(self, force: bool) -> io::Result<()> {
        let Self { file, place, path } = self;
        file.sync_all()?;
        match place {
            Place::Unnamed(from) => name(&file, &from, &path, force),
            Place::Named(from) if force => from.persist(&path).map_err(|e| e.error),
            Place::Named(from) => from.persist_noclobber(&path).map_err(|e| e.error),
        }?;
        File::open(directory_of(&path))?.sync_all()
    }
}

/// A file without a name; none if the host's file system has no such files.
fn unnamed(dir: &Path, mode: u32) -> Option<(File, Place)> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(open(dir, flags, Mode::from_raw_mode(mode)).ok()?);
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // Without /proc it could not be named.
    path.exists().then_some((file, Place::Unnamed(path)))
}

/// A file with a temporary name, locked as long as it is in use.
fn named(path: &Path, mode: u32) -> io::Result<(File, Place)> {
    let open = |path: &Path| File::options().read(true).write(true).create_new(true).mode(mode).open(path);
    // Errors have no temporary name.
    let made = Builder::new().prefix(&prefix(path)).make_in(directory_of(path), open)?;
    let (file, temporary) = made.into_parts();
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok((file, Place::Named(temporary)))
}

/// Gives a file its name. An existing one is replaced in one step, by a rename.
fn name(file: &File, from: &Path, path: &Path, force: bool) -> io::Result<()> {
    let link = |to: &Path| linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from);
    match link(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && force => {
            // A file system without locks: then another run may take the name for one that was left.
            let _swept_by_no_other_run = flock(file, FlockOperation::NonBlockingLockExclusive);
            let temporary = Builder::new().prefix(&prefix(path)).make_in(directory_of(path), link)?;
            temporary.into_temp_path().persist(path).map_err(|e| e.error)
        }
        done => done,
    }
}

/// Of all temporary names of a file.
fn prefix(path: &Path) -> OsString {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let start = OsStr::from_bytes(name.get(..NAME_PREFIX_MAX).unwrap_or(name));
    [OsStr::new("."), start, OsStr::new(".segno-")].into_iter().collect()
}

/// Removes files that a killed run left under temporary names of this file. Best effort: they do no harm.
fn sweep(path: &Path) {
    let prefix = prefix(path);
    for entry in std::fs::read_dir(directory_of(path)).into_iter().flatten().flatten() {
        let is_leftover = entry.file_name().as_bytes().starts_with(prefix.as_bytes())
            && File::open(entry.path())
                .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok());
        if is_leftover {
            let _best_effort = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    type Make = fn(&Path) -> (File, Place);

    fn names(dir: &Path) -> Vec<OsString> {
        dir.read_dir().unwrap().map(|e| e.unwrap().file_name()).collect()
    }

    /// Both kinds of places, with the file complete and dropped.
    #[test]
    fn a_new_file_is_there_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, "old").unwrap();
        let make = |place: Make| {
            let (file, place) = place(&path);
            (&file).write_all(b"new").unwrap();
            NewFile { file, place, path: path.clone() }
        };
        let places: [Make; 2] =
            [|path| unnamed(directory_of(path), 0o640).unwrap(), |path| named(path, 0o640).unwrap()];
        for place in places {
            let half = make(place);
            assert_eq!(
                half.file.metadata().unwrap().permissions().mode() & 0o027,
                0,
                "of the owner and his group"
            );
            drop(half);
            assert_eq!(make(place).finish(false).unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert_eq!((std::fs::read(&path).unwrap(), names(dir.path()).len()), (b"old".to_vec(), 1));
            make(place).finish(true).unwrap();
            assert_eq!((std::fs::read(&path).unwrap(), names(dir.path()).len()), (b"new".to_vec(), 1));
            std::fs::write(&path, "old").unwrap();
        }
    }

    #[test]
    fn an_error_names_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let e = NewFile::create(&dir.path().join("none/image"), 0o600).unwrap_err();
        assert_eq!(e.to_string(), "No such file or directory (os error 2)");
    }

    #[test]
    fn the_next_run_removes_the_file_of_a_killed_one_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        for left in [".image.segno-a1b2c3", ".image2.segno-a1b2c3", ".image.segno"] {
            std::fs::write(dir.path().join(left), "part").unwrap();
        }
        let (_in_use, place) = named(&path, 0o600).unwrap();
        let Place::Named(in_use) = place else { panic!("it has a name") };
        NewFile::create(&path, 0o600).unwrap().finish(false).unwrap();
        let mut expected: Vec<OsString> =
            [".image.segno", ".image2.segno-a1b2c3", "image"].map(OsString::from).to_vec();
        expected.push(in_use.file_name().unwrap().to_owned());
        let mut left = names(dir.path());
        left.sort();
        expected.sort();
        assert_eq!(left, expected);
    }
}
