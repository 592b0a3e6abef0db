//! Which mount of this machine a server serves, and whether the kernel has it read-only.
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fs;
use std::io;
use std::path::Path;

/// STATX_MNT_ID_UNIQUE: a number that is not used again. Kernels before 6.8 return one that is.
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
const MOUNTINFO: &str = "/proc/self/mountinfo";

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

    pub(crate) fn device(self) -> (u32, u32) {
        self.device
    }

    /// Whether `mount -o remount,ro` has made the superblock read-only. So it is taken to be if the mount is not in the
    /// namespace of the server any more.
    pub(crate) fn is_read_only(self) -> bool {
        let mounts = fs::read(MOUNTINFO).unwrap_or_default();
        superblock_is_read_only(&String::from_utf8_lossy(&mounts), self.device).unwrap_or(true)
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

/// In /proc/self/mountinfo all mounts of a device share one superblock. Its options are in the last field; the sixth field has
/// the options of the mount.
fn superblock_is_read_only(mountinfo: &str, (major, minor): (u32, u32)) -> Option<bool> {
    let device = format!("{major}:{minor}");
    let mount = mountinfo.lines().find(|line| line.split(' ').nth(2) == Some(&device))?;
    let (_, filesystem) = mount.split_once(" - ")?;
    Some(filesystem.split(' ').nth(2)?.split(',').any(|option| option == "ro"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_superblock_is_told_from_a_read_only_bind_mount() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
                      90 22 0:51 / /a\\040b rw,noatime shared:2 master:3 - fuse.segno /x ro,user_id=0\n\
                      91 22 0:52 / /bind ro,noatime - fuse.segno /y rw,user_id=0,allow_other\n";
        let found = |device| superblock_is_read_only(mounts, device);
        assert_eq!(
            [(8, 1), (0, 51), (0, 52), (0, 5), (0, 520)].map(found),
            [Some(false), Some(true), Some(false), None, None]
        );
        for broken in ["", "90 22 0:51 / /a rw", "90 22 0:51 / /a rw - fuse.segno"] {
            assert_eq!(superblock_is_read_only(broken, (0, 51)), None, "{broken}");
        }
    }

    #[test]
    fn a_mount_is_the_same_after_it_was_sent() {
        let mount = MountId { id: 0x1_0203_0405_0607, device: (259, 0xffff_ffff) };
        assert_eq!(MountId::from_bytes(&mount.to_bytes()), Some(mount));
        for len in [0, 8, 15, 17] {
            assert_eq!(MountId::from_bytes(&[1; 17][..len]), None);
        }
        let root = MountId::at(Path::new("/")).unwrap();
        assert!(
            root == MountId::at(Path::new("/")).unwrap() && root != MountId::at(Path::new("/proc")).unwrap()
        );
    }
}
