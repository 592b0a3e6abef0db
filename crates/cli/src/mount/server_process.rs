//! The process that serves a mount. On an object store nothing local is locked, so its end shows that the volume is closed.
use crate::image;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use segno_fuse::SERVER_XATTR;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A server that could be found.
pub struct ServerProcess {
    pub pid: u32,
    fd: OwnedFd,
}

impl ServerProcess {
    /// The server of a mount; `None` if it does not respond or is in another PID namespace.
    pub fn of(dir: &Path) -> Option<Self> {
        let said = String::from_utf8(image::answer(dir, SERVER_XATTR).ok()?).ok()?;
        let (pid, namespace) = said.split_once(' ')?;
        if std::fs::read_link("/proc/self/ns/pid").ok()?.as_os_str() != namespace {
            return None;
        }
        let pid: i32 = pid.parse().ok()?;
        let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid: pid.unsigned_abs(), fd })
    }

    /// Whether it is gone.
    pub fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_no_server_serves_has_none() {
        assert!(ServerProcess::of(Path::new("/")).is_none());
    }
}
