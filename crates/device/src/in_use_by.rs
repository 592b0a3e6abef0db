//! The current user of storage that another user needs, as far as the kernel names it.
use std::fmt;
use std::path::PathBuf;

/// A user that excludes another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InUseBy {
    /// This process has it open.
    ThisProcess,
    /// A process has it locked.
    Process {
        /// Its number in this PID namespace.
        pid: u32,
        /// The name of its program.
        name: String,
    },
    /// It is mounted.
    Mount {
        /// The directory.
        dir: PathBuf,
        /// Whether Segno serves the mount; otherwise the kernel does.
        ours: bool,
        /// Nothing is written through the mount.
        read_only: bool,
    },
    /// A loop device reads and writes the same bytes.
    LoopDevice {
        /// The loop device.
        device: PathBuf,
        /// Where it is mounted, in this namespace.
        dir: Option<PathBuf>,
        /// The kernel removes it when its mount ends.
        autoclear: bool,
    },
    /// The kernel refuses a second user and does not name the first.
    Unknown,
}

impl InUseBy {
    /// Whether it may end without the user's help, as a program does that closes a volume after its unmount.
    #[must_use]
    pub fn may_end(&self) -> bool {
        matches!(self, Self::Process { .. } | Self::Unknown)
    }
}

/// Follows the name of the storage in a sentence.
impl fmt::Display for InUseBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => write!(f, "is in use: this process has it open; close it first"),
            Self::Process { pid, name } => {
                write!(f, "is in use by {name} (process {pid}); wait for it, or end it")
            }
            Self::Mount { dir, ours, .. } => {
                let command = if *ours { "segno umount" } else { "umount" };
                write!(f, "is mounted at {0}: `{command} {0}` first", dir.display())
            }
            Self::LoopDevice { device, dir, autoclear } => {
                let device = device.display();
                match dir.as_ref().map(|dir| dir.display()) {
                    Some(dir) if *autoclear => {
                        write!(f, "is in use: {device}, mounted at {dir}, uses it; `umount {dir}` first")
                    }
                    Some(dir) => write!(
                        f,
                        "is in use: {device}, mounted at {dir}, uses it; `umount {dir}` and `losetup -d {device}` first"
                    ),
                    None => write!(f, "is in use: {device} uses it; `losetup -d {device}` first"),
                }
            }
            Self::Unknown => write!(
                f,
                "is in use by another program or the kernel (mounted?); `lsblk` and `fuser -v` show users"
            ),
        }
    }
}
