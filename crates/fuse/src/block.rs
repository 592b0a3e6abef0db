//! Mounts of type `fuseblk`. Up to Linux 7.3 the kernel reports sync(2) and syncfs(2) to a server only if the mount has a
//! block device as its source, since 6.18 also for servers on `/dev/fuse`. Later kernels do so for every mount whose
//! server requests it. Mounts by root are therefore of type `fuseblk` where sync(2) needs it.
use crate::init;
use crate::kernel;
use crate::loop_device::LoopDevice;
use crate::mount::{self, Mounted, Request};
use crate::wire::InitFlags;
use rustix::fd::AsRawFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{FsOpenFlags, fsconfig_create, fsconfig_set_string, fsopen};
use segno_device::Claim;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first kernel that sends SYNCFS to the server of a `fuseblk` mount.
const SINCE: (u32, u32) = (6, 18);

/// The block device behind a mount.
#[derive(Clone, Debug)]
pub enum Backing {
    /// None, for this reason: the mount is of type `fuse`.
    Nothing(String),
    /// The volume is on one block device. The claim passes to the mount.
    Device(Arc<Claim>),
    /// The volume is in this image file.
    Image(PathBuf),
}

impl Default for Backing {
    fn default() -> Self {
        Self::Nothing("no block device was given".into())
    }
}

/// The type of a mount and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountType {
    /// Type `fuseblk`: the kernel sends sync(2) and syncfs(2) to the server.
    Block {
        /// The block device that is the source of the mount.
        device: PathBuf,
    },
    /// Type `fuse`.
    Plain {
        /// Why the type is not `fuseblk`.
        why: String,
    },
}

impl fmt::Display for MountType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block { device } => {
                write!(f, "mounted as fuseblk on {}: the kernel reports sync(2)", device.display())
            }
            Self::Plain { why } => write!(f, "mounted as fuse: {why}"),
        }
    }
}

/// Mounts as `fuseblk` where that is useful and possible, otherwise as `fuse`.
pub(crate) fn connect(request: &Request<'_>, backing: &Backing) -> io::Result<(Mounted, MountType)> {
    let possible = match backing {
        Backing::Nothing(why) => Err(why.clone()),
        _ => is_useful(),
    };
    let why = match possible {
        Ok(()) => match connect_block(request, backing) {
            Ok(done) => return Ok(done),
            Err(e) => format!("mounting as fuseblk failed: {e}"),
        },
        Err(why) => why,
    };
    Ok((mount::connect(request)?, MountType::Plain { why }))
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

fn connect_block(request: &Request<'_>, backing: &Backing) -> io::Result<(Mounted, MountType)> {
    match backing {
        Backing::Nothing(why) => Err(io::Error::other(why.clone())),
        Backing::Image(path) => {
            let device = LoopDevice::attach(path)?;
            by_device(request, &device.path)
        }
        Backing::Device(claim) => {
            claim.release();
            by_device(request, claim.path()).or_else(|e| {
                claim.retake().map_err(io::Error::other)?;
                Err(e)
            })
        }
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
