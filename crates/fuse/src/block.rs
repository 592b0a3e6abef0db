//! Mounts of type `fuseblk`. Up to Linux 7.3 the kernel reports sync(2) and syncfs(2) to a server only if the mount has a
//! block device as its source, since 6.18 also for servers on `/dev/fuse`. Later kernels do so for every mount whose
//! server requests it. Mounts by root are therefore of type `fuseblk` where sync(2) needs it.
use crate::init;
use crate::kernel;
use crate::loop_device::LoopDevice;
use crate::mount::{self, Mounted, Request};
use crate::wire::InitFlags;
use derive_more::Display;
use rustix::fd::AsRawFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{FsOpenFlags, fsconfig_create, fsconfig_set_string, fsopen};
use segno_device::ExclusiveOpen;
use std::io;
use std::path::{Path, PathBuf};

/// The first kernel that sends SYNCFS to the server of a `fuseblk` mount.
const SINCE: (u32, u32) = (6, 18);

/// The block device of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// None, for this reason: the mount is of type `fuse`.
    Nothing(String),
    /// The volume is on this block device. The exclusive open of the server passes to the mount.
    Device(PathBuf),
    /// The volume is in this image file.
    Image(PathBuf),
}

impl Default for Backing {
    fn default() -> Self {
        Self::Nothing("no block device was given".into())
    }
}

impl Backing {
    /// Nothing where sync(2) does not need a block device.
    pub(crate) fn where_useful(&self) -> Self {
        match self {
            Self::Nothing(_) => self.clone(),
            _ => is_useful().map_or_else(Self::Nothing, |()| self.clone()),
        }
    }
}

/// The type of a mount and the reason for it.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub enum MountType {
    /// Type `fuseblk`: the kernel sends sync(2) and syncfs(2) to the server.
    #[display("mounted as fuseblk on {}: the kernel reports sync(2)", device.display())]
    Block {
        /// The block device that is the source of the mount.
        device: PathBuf,
    },
    /// Type `fuse`.
    #[display("mounted as fuse: {why}")]
    Plain {
        /// Why the type is not `fuseblk`.
        why: String,
    },
}

/// Mounts as `fuseblk` with this device, otherwise as `fuse`.
pub(crate) fn connect(request: &Request<'_>, backing: &Backing) -> io::Result<(Mounted, MountType)> {
    let done = match backing {
        Backing::Nothing(why) => Err(why.clone()),
        Backing::Device(device) => by_device(request, device).map_err(failed),
        Backing::Image(image) => {
            LoopDevice::attach(image).and_then(|device| by_device(request, &device.path)).map_err(failed)
        }
    };
    match done {
        Ok(done) => Ok(done),
        Err(why) => Ok((mount::connect(request)?, MountType::Plain { why })),
    }
}

fn failed(e: io::Error) -> String {
    format!("mounting as fuseblk failed: {e}")
}

/// Releases the exclusive open of a device to a mount that takes it, and takes it again if the mount did not.
pub(crate) fn hand_over(
    exclusive: Option<&ExclusiveOpen>,
    connect: impl FnOnce() -> io::Result<(Mounted, MountType)>,
) -> io::Result<(Mounted, MountType)> {
    exclusive.iter().for_each(|exclusive| exclusive.release());
    let done = connect();
    if !matches!(done, Ok((_, MountType::Block { .. }))) {
        exclusive.map_or(Ok(()), ExclusiveOpen::retake).map_err(io::Error::other)?;
    }
    done
}

/// Whether sync(2) needs `fuseblk` on this kernel; otherwise the reason why not.
pub(crate) fn is_useful() -> Result<(), String> {
    if kernel::version() < Some(SINCE) {
        let (major, minor) = SINCE;
        return Err(format!(
            "Linux {} does not report sync(2) to servers; {major}.{minor} does",
            kernel::release()
        ));
    }
    match offers_syncfs() {
        Ok(true) => Err("the kernel reports sync(2) on every mount".into()),
        // If the test fails, the mount itself will fail or report why.
        Ok(false) | Err(_) => Ok(()),
    }
}

fn by_device(request: &Request<'_>, device: &Path) -> io::Result<(Mounted, MountType)> {
    let mounted = mount::by_syscall(request, mount::Kind::Block(device))?;
    Ok((mounted, MountType::Block { device: device.to_owned() }))
}

/// Whether the kernel offers SYNCFS on mounts of type `fuse`, as found on a connection that is not attached to a directory.
fn offers_syncfs() -> io::Result<bool> {
    let dev = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let unmounted = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let fd = dev.as_raw_fd().to_string();
    for (name, value) in [("fd", fd.as_str()), ("rootmode", "40000"), ("user_id", "0"), ("group_id", "0")] {
        fsconfig_set_string(&unmounted, name, value)?;
    }
    fsconfig_create(&unmounted)?;
    Ok(init::receive(&dev)?.flags.contains(InitFlags::HAS_SYNCFS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offer_is_read_from_a_detached_connection() {
        match offers_syncfs() {
            // Older kernels do not offer it.
            Ok(offered) => assert!(!offered || kernel::version() >= Some((7, 0))),
            Err(e) => eprintln!("NOT TESTED: no FUSE connection possible here: {e}"),
        }
    }
}
