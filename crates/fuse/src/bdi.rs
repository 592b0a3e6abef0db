//! Limits that the kernel sets for the page cache of a mount: files in sysfs of its backing device information (BDI).
use crate::block::MountType;
use crate::mount_id::MountId;
use std::path::PathBuf;

/// Readahead window: four requests of the maximum size.
const READAHEAD_KIB: &str = "4096";
/// Share of all dirty memory, in percent, that the mount may have when memory for dirty pages is short.
const MAX_RATIO: &str = "20";
/// Limit of dirty bytes for a mount of a small volume. Up to this amount may be lost when the volume becomes
/// full, as write(2) has already accepted it.
pub(crate) const DIRTY_MAX: u64 = 256 << 20;
/// Size below which a volume is small.
const SMALL: u64 = 64 * DIRTY_MAX;

/// Adapts the limits. Needs root; otherwise the defaults stay in force.
///
/// As large requests cost least per byte, the readahead window grows. FUSE mounts have a strict limit for
/// dirty pages, 1 % of the machine's limit, even while memory is plentiful; it protects users from hanging
/// servers of other users. With a writeback cache it is lifted: pages of random writes then wait for their
/// neighbours, which reduces the number of requests to between a quarter and a half. On a small volume the
/// limit stays strict, and grows to [`DIRTY_MAX`].
pub(crate) fn tune(mount: MountId, mount_type: &MountType, writeback: bool, volume_bytes: u64) {
    let bdi = directory(mount, mount_type);
    let set = |name, value: &str| {
        // Only root may set it, and an old kernel lacks some: the default stays.
        let _default_stays = std::fs::write(bdi.join(name), value);
    };
    set("read_ahead_kb", READAHEAD_KIB);
    if writeback && volume_bytes < SMALL {
        set("max_bytes", &DIRTY_MAX.to_string());
    } else if writeback {
        set("max_ratio", MAX_RATIO);
        set("strict_limit", "0");
    }
}

/// The directory with the limits of a mount.
pub(crate) fn directory(mount: MountId, mount_type: &MountType) -> PathBuf {
    let (major, minor) = mount.device();
    // The name without suffix belongs to the block device.
    let suffix = if let MountType::Block { .. } = mount_type { "-fuseblk" } else { "" };
    PathBuf::from(format!("/sys/class/bdi/{major}:{minor}{suffix}"))
}
