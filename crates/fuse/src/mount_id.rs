//! Which mount of this machine a server serves, and whether the kernel has it read-only.
use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
use segno_device::Mount;
use std::io;
use std::path::{Path, PathBuf};

/// STATX_MNT_ID_UNIQUE: a number that is not used again. Kernels before 6.8 return one that is.
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// A mount. Two mounts of one connection differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MountId {
    id: u64,
    /// Device number of the superblock.
    device: (u32, u32),
}

impl MountId {
    pub(crate) const BYTES: usize = 16;

    /// The mount that is visible at a directory. Sends no request: a server that waits for its own reply cannot be killed.
    pub(crate) fn at(dir: &Path) -> io::Result<Self> {
        let found = statx(CWD, dir, AtFlags::STATX_DONT_SYNC, UNIQUE)?;
        Ok(Self { id: found.stx_mnt_id, device: (found.stx_dev_major, found.stx_dev_minor) })
    }

    /// Where it is now; `None` if it is covered, or not in the namespace of this process any more.
    pub(crate) fn path(self) -> Option<PathBuf> {
        self.mounts().map(|mount| mount.dir).find(|dir| Self::at(dir).is_ok_and(|found| found == self))
    }

    /// All mounts of its superblock.
    fn mounts(self) -> impl Iterator<Item = Mount> {
        let device = self.device_number();
        Mount::all().unwrap_or_default().into_iter().filter(move |mount| mount.device == device)
    }

    pub(crate) fn device(self) -> (u32, u32) {
        self.device
    }

    pub(crate) fn device_number(self) -> u64 {
        makedev(self.device.0, self.device.1)
    }

    /// Whether `mount -o remount,ro` has made the superblock read-only. Also true if the mount is no longer
    /// in the namespace of the server.
    pub(crate) fn is_read_only(self) -> bool {
        self.mounts().next().is_none_or(|mount| mount.all_read_only)
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let (id, (major, minor)) = (self.id.to_le_bytes(), self.device);
        let device = u64::from(major) << 32 | u64::from(minor);
        let mut bytes = [0; Self::BYTES];
        bytes.iter_mut().zip(id.into_iter().chain(device.to_le_bytes())).for_each(|(to, from)| *to = from);
        bytes
    }

    /// The reverse of [`Self::to_bytes`]; `None` for any other number of bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, device) = bytes.split_first_chunk()?;
        let device = u64::from_le_bytes(device.try_into().ok()?);
        Some(Self { id: u64::from_le_bytes(*id), device: ((device >> 32) as u32, device as u32) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_the_same_after_it_was_sent() {
        let mount = MountId { id: 0x1_0203_0405_0607, device: (259, 0xffff_ffff) };
        assert_eq!(MountId::from_bytes(&mount.to_bytes()), Some(mount));
        for len in [0, 8, 15, 17] {
            assert_eq!(MountId::from_bytes(&[1; 17][..len]), None);
        }
        let proc = MountId::at(Path::new("/proc")).unwrap();
        assert_eq!(proc.path().as_deref(), Some(Path::new("/proc")));
        let root = MountId::at(Path::new("/")).unwrap();
        assert!(
            root == MountId::at(Path::new("/")).unwrap() && root != MountId::at(Path::new("/proc")).unwrap()
        );
    }
}
