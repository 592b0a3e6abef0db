//! A directory that is made before it is known whether there is something to put into it.
use rustix::fs::Mode;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// The directory; dropping it removes it, if it was made and nothing was put into it.
#[derive(Debug)]
pub struct NewDir(Option<PathBuf>);

impl NewDir {
    /// Makes a directory for its owner alone, unless something of this name exists.
    pub fn create(path: &Path) -> io::Result<Self> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) => Ok(Self(Some(path.to_owned()))),
            Err(Errno::EXIST) => Ok(Self(None)),
            Err(e) => Err(e.into()),
        }
    }

    /// Leaves the directory.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewDir {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Fails if it has entries, which stay.
            let _removed = rustix::fs::rmdir(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_nothing_was_put_into_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new");
        let made = NewDir::create(&path).unwrap();
        assert!(path.is_dir());
        drop(NewDir::create(&path).unwrap());
        assert!(path.is_dir(), "it was there already");
        drop(made);
        assert!(!path.exists());
        NewDir::create(&path).unwrap().keep();
        assert!(path.is_dir());
        std::fs::remove_dir(&path).unwrap();
        let made = NewDir::create(&path).unwrap();
        std::fs::write(path.join("file"), "content").unwrap();
        drop(made);
        assert_eq!(std::fs::read(path.join("file")).unwrap(), b"content");
    }
}
