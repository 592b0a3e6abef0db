//! The socket that a monitor connects to. Only the user of the server may.
use rustix::fs::{FileType, Mode, fchmod, lstat, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, shutdown,
    socket_with,
};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A listening socket, removed when the value is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: OwnedFd,
    path: PathBuf,
    /// Device and inode number.
    id: (u64, u64),
}

impl Socket {
    /// Listens at a path. A socket there is replaced if no program listens on it.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        let listener = socket_of(SocketType::STREAM)?;
        // Linux gives the file the mode of the socket, so it is never open to others.
        fchmod(&listener, Mode::RUSR | Mode::WUSR)?;
        match bind(&listener, &address) {
            Err(Errno::ADDRINUSE) => {
                check_stale(path, &address)?;
                unlink(path)?;
                bind(&listener, &address)?;
            }
            bound => bound?,
        }
        let found = lstat(path)?;
        let socket = Self { listener, path: path.to_owned(), id: (found.st_dev, found.st_ino) };
        // One monitor is served.
        listen(&socket.listener, 1)?;
        Ok(socket)
    }

    /// The path it is bound to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        Ok(self.listener.try_clone()?.into())
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
            let _removed = unlink(&self.path);
        }
    }
}

fn socket_of(kind: SocketType) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
}

/// Fails unless the path is a socket without a listener. A connection would be served as the monitor's, so the attempt is
/// made with a type of socket that a listener refuses.
fn check_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    let other = |what| Err(io::Error::new(io::ErrorKind::AddrInUse, what));
    if FileType::from_raw_mode(lstat(path)?.st_mode) != FileType::Socket {
        return other("there is a file that is no socket: choose another name, or remove it");
    }
    match connect(&socket_of(SocketType::DGRAM)?, address) {
        Err(Errno::CONNREFUSED) => Ok(()),
        Err(Errno::ACCESS) => other("the socket belongs to another user"),
        _ => other("another program listens on this socket"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let refusal = || Socket::bind(&path).unwrap_err().to_string();

        let first = Socket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert!(refusal().contains("another program listens"));
        // The attempt has not used up the connection of the first.
        first.listener.try_clone().map(UnixListener::from).unwrap().set_nonblocking(true).unwrap();
        assert_eq!(first.listener().unwrap().accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        assert!(!path.exists());

        drop(UnixListener::bind(&path).unwrap());
        drop(Socket::bind(&path).unwrap());
        fs::write(&path, "text").unwrap();
        assert!(refusal().contains("no socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    }

    #[test]
    fn a_replaced_socket_is_left() {
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
