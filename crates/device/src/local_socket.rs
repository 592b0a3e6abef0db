//! Sockets that servers of this host listen on. Only the user of the server may connect.
use rustix::fs::{FileType, Mode, fchmod, lstat, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Listens at a path, whatever the umask is. Up to `waiting` connections wait. An existing socket is replaced
/// if no program listens on it.
pub fn listen_locally(path: &Path, waiting: i32) -> io::Result<UnixListener> {
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
    listen(&listener, waiting)?;
    Ok(listener.into())
}

fn socket_of(kind: SocketType) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
}

/// Fails unless the path is a socket without a listener. A connection would be served as a client's, so the
/// attempt is made with a type of socket that a listener refuses.
fn check_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    let other = |what| Err(io::Error::new(io::ErrorKind::AddrInUse, what));
    if FileType::from_raw_mode(lstat(path)?.st_mode) != FileType::Socket {
        return other("there is a file that is no socket: choose another name, or remove it");
    }
    match connect(&socket_of(SocketType::DGRAM)?, address) {
        Err(Errno::CONNREFUSED) => Ok(()),
        Err(Errno::ACCESS) => other("the socket belongs to another user"),
        _ => other("another program listens on this socket: choose another name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let refusal = || listen_locally(&path, 1).unwrap_err().to_string();
        let first = listen_locally(&path, 1).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert!(refusal().contains("another program listens"));
        // The attempt has not used up the connection of the first.
        first.set_nonblocking(true).unwrap();
        assert_eq!(first.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        drop(listen_locally(&path, 1).unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "text").unwrap();
        assert!(refusal().contains("no socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    }
}
