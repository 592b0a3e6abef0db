//! How a volume is mounted.
use crate::block::Backing;
use crate::ownership::Ownership;
use segno_device::Claim;
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

/// What becomes of a mount whose server is killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtDeath {
    /// It stays, and requests fail with ENOTCONN.
    #[default]
    Stay,
    /// It ends, and the system's log says so.
    Unmount,
    /// It ends: whoever started the server mounts again.
    MakeRoom,
}

/// Options of a mount.
#[derive(Clone, Debug, Default)]
pub struct FuseOptions {
    /// Source shown in /proc/mounts: the image.
    pub source: String,
    /// Source of a mount of type `fuseblk`.
    pub backing: Backing,
    /// The claim of the server on that device.
    pub claim: Option<Arc<Claim>>,
    /// Mount read-only.
    pub read_only: bool,
    /// Permit access by other users; needs `user_allow_other` in /etc/fuse.conf unless root mounts.
    pub allow_other: bool,
    /// Let the kernel check POSIX ACLs.
    pub acl: bool,
    /// Flags and options for the kernel, as given (`dev`, `suid`, `noexec` …).
    pub extra: Vec<String>,
    /// What becomes of the mount when the server is killed.
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
    /// What [`crate::OPTIONS_XATTR`] reads as.
    pub in_force: String,
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
