//! How a volume is mounted.
mod flag;
mod table;

pub use flag::Flag;
pub use table::{FLAGS, OPTIONS};

use crate::block::Backing;
use crate::ownership::Ownership;
use segno_device::{BlockDevice, DeviceError, ExclusiveOpen, Location, StorageKind, probe};
use segno_engine::MountOptions;
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Features};
use std::path::Path;
use std::sync::Arc;

/// Requested transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// io_uring if the kernel supports it, otherwise /dev/fuse.
    #[default]
    Auto,
    /// Read and write on /dev/fuse.
    Classic,
    /// io_uring; an error if the kernel does not offer it.
    IoUring,
}

/// Fate of a mount whose server is killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtDeath {
    /// It stays, and requests fail with ENOTCONN.
    #[default]
    Stay,
    /// It ends, with a line in the system's log.
    Unmount,
    /// It ends, so that the process that started the server can mount again.
    MakeRoom,
}

/// Options of a mount.
#[derive(Clone, Debug, Default)]
pub struct FuseOptions {
    /// Source shown in /proc/mounts: the image.
    pub source: String,
    /// Source of a mount of type `fuseblk`.
    pub backing: Backing,
    /// The exclusive open of the server on that device.
    pub exclusive_open: Option<Arc<ExclusiveOpen>>,
    /// Never mount as `fuseblk`.
    pub fuse_only: bool,
    /// Mount read-only.
    pub read_only: bool,
    /// Permit access by other users; needs `user_allow_other` in /etc/fuse.conf unless root mounts.
    pub allow_other: bool,
    /// Let the kernel check POSIX ACLs.
    pub acl: bool,
    /// Flags and options for the kernel, as given (`dev`, `suid`, `noexec` …).
    pub extra: Vec<String>,
    /// Fate of the mount when the server is killed.
    pub at_death: AtDeath,
    /// Number of server threads; 0 is automatic.
    pub threads: usize,
    /// How requests reach the server.
    pub transport: Choice,
    /// Deliver replies at the threads' normal scheduling policy.
    pub no_sched_idle: bool,
    /// Keep written data in the kernel's page cache until fsync, close or writeback.
    pub writeback_cache: bool,
    /// Permit the shutdown ioctl of crash tests.
    pub shutdown: bool,
    /// Owner and permissions to show.
    pub ownership: Ownership,
    /// The value of [`crate::OPTIONS_XATTR`].
    pub in_force: String,
}

impl FuseOptions {
    /// The defaults. A mount by root behaves like any other file system of the machine: device nodes and
    /// set-user-ID bits are effective, and every user has access.
    #[must_use]
    pub fn of_user(root: bool) -> Self {
        let extra = if root { vec!["dev".to_owned(), "suid".to_owned()] } else { Vec::new() };
        Self { extra, allow_other: root, ..Self::default() }
    }

    /// The defaults for the user of this process.
    #[must_use]
    pub fn of_caller() -> Self {
        Self::of_user(rustix::process::geteuid().is_root())
    }

    /// Applies a word, split at its `=`. `None` if it names no option of the server and no flag.
    pub fn apply(&mut self, name: &str, value: Option<&str>) -> Option<Result<(), String>> {
        let own = OPTIONS.iter().find_map(|row| row.apply(self, name, value));
        own.or_else(|| FLAGS.iter().find_map(|flag| flag.apply(&mut self.extra, name, value)))
    }

    /// Whether the engine makes changes of names durable: the kernel's FUSE makes writes synchronous, but no changes of directories.
    #[must_use]
    pub fn is_dirsync(&self) -> bool {
        self.extra.iter().any(|flag| flag == "sync" || flag == "dirsync")
    }

    /// Whether the kernel checks ACLs. It does not if the mount shows another owner or mode, which ACLs would
    /// contradict.
    #[must_use]
    pub fn checks_acl(&self, engine: &MountOptions) -> bool {
        engine.acl && self.ownership == Ownership::default()
    }

    /// The source of a mount of type `fuseblk` with these options, which supports one writable device only.
    ///
    /// # Errors
    /// The image can no longer be examined.
    pub fn backing_of(
        &self,
        image: &Path,
        device: &dyn BlockDevice,
        superblock: &Superblock,
    ) -> Result<Backing, DeviceError> {
        let at = Location::of(image);
        let is_on_device = |path| probe(path).is_ok_and(|storage| storage.kind == StorageKind::BlockDevice);
        let why_not = [
            (self.fuse_only, "blk=off"),
            (!rustix::process::geteuid().is_root(), "only root mounts block devices"),
            (self.read_only, "a read-only mount has nothing to sync"),
            (superblock.devices.len() > 1, "the volume is on several devices"),
            (superblock.features.contains(Features::BLKZONED), "the volume is zoned"),
            (at.is_part() && is_on_device(at.file()), "the volume is in a part of the device"),
        ];
        if let Some((_, why)) = why_not.into_iter().find(|(applies, _)| *applies) {
            return Ok(Backing::Nothing(why.into()));
        }
        let storage = probe(image)?;
        Ok(match (storage.kind, device.exclusive_open()) {
            (StorageKind::Regular, _) => Backing::Image(at.by_offset()?.path()),
            (StorageKind::BlockDevice, Some(exclusive))
                if storage.bytes.is_multiple_of(BLOCK_SIZE as u64) =>
            {
                Backing::Device(exclusive.path().to_owned())
            }
            // Its page cache has smaller blocks, and mounting would drop it.
            _ => Backing::Nothing("the size of the device is no multiple of 4 KiB".into()),
        })
    }
}

pub(crate) fn options(opts: &FuseOptions) -> Vec<String> {
    // As a plain option the subtype also reaches the kernel without fusermount3. Most reads are served from the kernel's
    // cache, so access times cannot be maintained.
    let mut list = ["subtype=segno", "noatime", "default_permissions"].map(str::to_owned).to_vec();
    if opts.read_only {
        list.push("ro".into());
    }
    if opts.allow_other {
        list.push("allow_other".into());
    }
    list.extend(opts.extra.iter().cloned());
    list
}
