//! Mounts of type `fuseblk`. Up to Linux 7.3 the kernel reports sync(2) and syncfs(2) to a server only if the mount has a
//! block device as its source, and of those with a `/dev/fuse` server since 6.18; later kernels do it for every mount
//! whose server asks. So root's mounts are of type `fuseblk` where that is what makes sync(2) work.
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

/// Where a mount gets a block device from.
#[derive(Clone, Debug)]
pub enum Backing {
    /// None: the mount is of type `fuse`, for this reason.
    Nothing(String),
    /// The volume is on one block device. The claim is handed over to the mount.
    Device(Arc<Claim>),
    /// The volume is in this image file.
    Image(PathBuf),
}

impl Default for Backing {
    fn default() -> Self {
        Self::Nothing("no block device was given".into())
    }
}

/// The type of a mount, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountType {
    Block { device: PathBuf },
    Plain { why: String },
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

/// Mounts as `fuseblk` where that is of use and can be had, else as `fuse`.
pub fn connect(request: &Request<'_>, backing: &Backing) -> io::Result<(Mounted, MountType)> {
    let possible = match backing {
        Backing::Nothing(why) => Err(why.clone()),
        _ => is_of_use(),
    };
    let why = match possible {
        Ok(()) => match connect_block(request, backing) {
            Ok(done) => return Ok(done),
            Err(e) => format!("no mount of type fuseblk: {e}"),
        },
        Err(why) => why,
    };
    Ok((mount::connect(request)?, MountType::Plain { why }))
}

/// Whether `fuseblk` is what makes sync(2) work on this kernel, or why it is not.
pub fn is_of_use() -> Result<(), String> {
    if kernel::version() < Some(SINCE) {
        let (major, minor) = SINCE;
        return Err(format!(
            "Linux {} reports sync(2) to no server; {major}.{minor} does",
            kernel::release()
        ));
    }
    match offers_syncfs() {
        Ok(true) => Err("the kernel reports sync(2) on every mount".into()),
        // What keeps the question from being asked may keep the mount from being made, which then says so.
        Ok(false) | Err(_) => Ok(()),
    }
}

fn connect_block(request: &Request<'_>, backing: &Backing) -> io::Result<(Mounted, MountType)> {
    match backing {
        Backing::Nothing(why) => Err(io::Error::other(why.clone())),
        Backing::Image(path) => {
            let device = LoopDevice::stand_for(path)?;
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

/// Whether the kernel offers to send SYNCFS on mounts of type `fuse`. A connection that is not mounted anywhere tells.
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
    fn the_offer_is_read_from_a_connection_that_is_mounted_nowhere() {
        match offers_syncfs() {
            // No kernel before made it.
            Ok(offered) => assert!(!offered || kernel::version() >= Some((7, 0))),
            Err(e) => eprintln!("NOT TESTED: no FUSE connection possible here: {e}"),
        }
    }
}
