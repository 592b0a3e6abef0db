//! Mounting and unmounting: mount(2) for root, fusermount3 for other users.
use crate::mount_id::MountId;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2, syncfs};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::{MountFlags, UnmountFlags, mount};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};

const FUSERMOUNT: &str = "fusermount3";
/// Flags of mount(2) by name; other options are passed to the file system.
const FLAGS: [(&str, MountFlags, bool); 11] = [
    ("dev", MountFlags::NODEV, false),
    ("nodev", MountFlags::NODEV, true),
    ("suid", MountFlags::NOSUID, false),
    ("nosuid", MountFlags::NOSUID, true),
    ("exec", MountFlags::NOEXEC, false),
    ("noexec", MountFlags::NOEXEC, true),
    ("noatime", MountFlags::NOATIME, true),
    ("sync", MountFlags::SYNCHRONOUS, true),
    ("async", MountFlags::SYNCHRONOUS, false),
    ("dirsync", MountFlags::DIRSYNC, true),
    ("ro", MountFlags::RDONLY, true),
];

/// A mount and its connection.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub dev: OwnedFd,
    pub id: MountId,
}

/// Parameters of a mount.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub dir: &'a Path,
    pub source: &'a str,
    /// Flags and options by name.
    pub options: Vec<String>,
}

/// Mounts. The kernel's first request is then pending on the connection.
pub(crate) fn connect(r: &Request<'_>) -> io::Result<Mounted> {
    if rustix::process::geteuid().is_root() {
        match by_syscall(r, Kind::Plain) {
            // In a container root may need the helper too.
            Err(e) if e.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                return by_helper(r).map_err(|refusal| match refusal.kind() {
                    io::ErrorKind::Other => io::Error::new(e.kind(), refusal),
                    _ => refusal,
                });
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            done => return done,
        }
    }
    by_helper(r)
}

/// Unmounts the mount at `dir`, with `DETACH` even while it is in use. Another process must serve the mount,
/// as the kernel may wait for a reply of the server, and a server that waits for its own reply cannot be
/// killed. A user who may rename a parent directory cannot redirect this to another mount: the directory that
/// contains the mount is held open. (An open directory of the mount itself would keep the mount in use.)
/// fusermount3 unmounts only mounts of its user.
pub(crate) fn unmount(dir: &Path, mount: MountId, how: UnmountFlags) -> io::Result<()> {
    let (Some(above), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(io::Error::other("the root directory is no mount of this program"));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = openat2(CWD, above, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let at = Path::new("/proc/self/fd").join(held.as_raw_fd().to_string()).join(name);
    if MountId::at(&at)? != mount {
        return Err(io::Error::other("another mount is there"));
    }
    match rustix::mount::unmount(&at, how | UnmountFlags::NOFOLLOW) {
        Err(e) if e != Errno::BUSY => helper_unmounts(dir, how),
        done => Ok(done?),
    }
}

/// Unmounts what is mounted at `dir`, for a process that found that its server is dead.
///
/// # Errors
/// The mount is no longer there, or is not the user's.
pub fn detach_dead(dir: &Path) -> io::Result<()> {
    unmount(dir, MountId::at(dir)?, UnmountFlags::DETACH)
}

fn helper_unmounts(dir: &Path, how: UnmountFlags) -> io::Result<()> {
    let detach = how.contains(UnmountFlags::DETACH).then_some("-z");
    let done = Command::new(FUSERMOUNT)
        .arg("-u")
        .args(detach)
        .arg("--")
        .arg(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => io::Error::other(format!(
                "{FUSERMOUNT} cannot be started, as the user has as many processes as `ulimit -u` permits; end one, then \
                 `segno umount {}`",
                dir.display()
            )),
            _ => e,
        })?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    // It prints the message of EBUSY, whose words depend on the C library.
    let is_busy = said.ends_with("busy");
    Err(io::Error::new(if is_busy { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other }, said))
}

/// Makes the kernel send dirty pages of all files, for another process that serves them.
pub(crate) fn write_dirty_pages(dir: &Path) -> io::Result<()> {
    Ok(syncfs(open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)?)
}

/// The file system type for mount(2).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    Plain,
    /// With this block device as source.
    Block(&'a Path),
}

/// Mounts without the helper.
pub(crate) fn by_syscall(r: &Request<'_>, kind: Kind<'_>) -> io::Result<Mounted> {
    let dev = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data = format!("fd={},rootmode=40000,user_id={uid},group_id={gid}", dev.as_raw_fd());
    for option in &r.options {
        match FLAGS.iter().find(|(name, ..)| name == option) {
            Some(&(_, flag, on)) => flags.set(flag, on),
            None => data.extend([",", option]),
        }
    }
    if let Kind::Block(_) = kind {
        // A block size other than the current one would drop the device's page cache.
        data.push_str(",blksize=4096");
    }
    let data = std::ffi::CString::new(data)?;
    match kind {
        Kind::Plain => mount(r.source, r.dir, "fuse", flags, data.as_c_str())?,
        Kind::Block(device) => mount(device, r.dir, "fuseblk", flags, data.as_c_str())?,
    }
    mounted(dev, r)
}

/// The mount that was made.
fn mounted(dev: OwnedFd, r: &Request<'_>) -> io::Result<Mounted> {
    let id = MountId::at(r.dir).inspect_err(|_| {
        // The first error is the one to report.
        let _unmounted = rustix::mount::unmount(r.dir, UnmountFlags::DETACH)
            .or_else(|_| helper_unmounts(r.dir, UnmountFlags::DETACH));
    })?;
    Ok(Mounted { dev, id })
}

/// Mounts with the helper, which sends the connection over a socket.
fn by_helper(r: &Request<'_>) -> io::Result<Mounted> {
    let (theirs, ours) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
    fcntl_setfd(&ours, FdFlags::CLOEXEC)?;
    let mut options = vec![format!("fsname={}", escape(r.source))];
    options.extend(r.options.iter().cloned());
    let child = Command::new(FUSERMOUNT)
        .args(["-o", &options.join(","), "--"])
        .arg(r.dir)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| {
            io::Error::new(e.kind(), format!("{FUSERMOUNT} (package fuse3) cannot be started: {e}"))
        })?;
    drop(theirs);
    let (_, Some(dev)) = receive(&ours, &mut [0])? else {
        let message = child.wait_with_output()?.stderr;
        return Err(io::Error::other(String::from_utf8_lossy(&message).trim().to_owned()));
    };
    fcntl_setfd(&dev, FdFlags::CLOEXEC)?;
    child.wait_with_output()?;
    mounted(dev, r)
}

/// A message and the descriptor that comes with it. No bytes: the other end is closed.
pub(crate) fn receive(socket: impl AsFd, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let n = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(into)], &mut control, flags) {
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
            Ok(message) => break message.bytes,
        }
    };
    let sent = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((n, sent))
}

/// Escapes commas, at which the helper splits its options.
fn escape(option: &str) -> String {
    option.replace('\\', "\\\\").replace(',', "\\,")
}
