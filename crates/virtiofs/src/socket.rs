//! The socket that a monitor connects to. Only the user of the server may.
use rustix::fs::{lstat, unlink};
use rustix::net::{Shutdown, shutdown};
use segno_device::listen_locally;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A listening socket. It is removed when the value is dropped, unless its server has dropped the right to; the next one replaces it then.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode number.
    id: (u64, u64),
}

impl Socket {
    /// Listens at a path. A socket there is replaced if no program listens on it.
    pub fn bind(path: &Path) -> io::Result<Self> {
        // One monitor is served.
        let listener = listen_locally(path, 1)?;
        let found = lstat(path)?;
        Ok(Self { listener, path: path.to_owned(), id: (found.st_dev, found.st_ino) })
    }

    /// The path it is bound to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }

    /// Refuses further connections, and ends a wait for one.
    pub(crate) fn refuse(&self) {
        // Fails only if it has been done.
        let _done = shutdown(&self.listener, Shutdown::Both);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another program may have replaced it.
        if lstat(&self.path).is_ok_and(|found| (found.st_dev, found.st_ino) == self.id) {
            // A name that is left is replaced by the next export.
            let _removed = unlink(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_socket_is_removed_with_its_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let first = Socket::bind(&path).unwrap();
        assert!(path.exists() && Socket::bind(&path).is_err());
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn a_replaced_socket_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let first = Socket::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = Socket::bind(&path).unwrap();
        drop(first);
        assert!(path.exists());
        second.refuse();
        assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
