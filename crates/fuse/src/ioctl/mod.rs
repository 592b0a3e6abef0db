//! Ioctls that pass through FUSE. Each has one row in a table with its callers and its effect. There are tables for file flags
//! and generation (here), for the volume (`volume`) and for compressed files (`compress`).
mod compress;
mod volume;

pub(crate) use volume::SHUTDOWN;

use crate::authority::Who;
use crate::server::Server;
use crate::wire::InHeader;
use segno_engine::{Error, Result, Volume};
use segno_format::Ino;
use segno_format::inode::InodeFlags;

const GETFLAGS: u32 = 0x8008_6601;
const SETFLAGS: u32 = 0x4008_6602;
const GETVERSION: u32 = 0x8008_7601;
const FSGETXATTR: u32 = 0x801c_581f;
const FSSETXATTR: u32 = 0x401c_5820;

/// File flags of FS_IOC_FSGETXATTR and the inode flags they correspond to.
const XFLAGS: [(u32, InodeFlags); 6] = [
    (0x08, InodeFlags::IMMUTABLE),
    (0x10, InodeFlags::APPEND),
    (0x20, InodeFlags::SYNC),
    (0x40, InodeFlags::NOATIME),
    (0x80, InodeFlags::NODUMP),
    (0x200, InodeFlags::PROJINHERIT),
];

/// Reported for inodes with extended attributes; accepted and ignored when set.
const XFLAG_HASATTR: u32 = 0x8000_0000;

/// One ioctl.
pub(crate) struct Ioctl {
    pub cmd: u32,
    pub who: Who,
    pub changes: Changes,
    pub run: Run,
}

/// Executes an ioctl on an inode with its argument, and returns its output.
pub(crate) type Run = fn(&Server, Ino, &[u8]) -> Result<Vec<u8>>;

/// Effect of an ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    Nothing,
    /// The inode, which the kernel does not expect: its attributes are no longer valid.
    Inode,
    Volume,
}

/// An ioctl that reads.
pub(crate) const fn reads(cmd: u32, run: Run) -> Ioctl {
    Ioctl { cmd, who: Who::Anyone, changes: Changes::Nothing, run }
}

/// An ioctl that changes the inode.
pub(crate) const fn changes_inode(cmd: u32, who: Who, run: Run) -> Ioctl {
    Ioctl { cmd, who, changes: Changes::Inode, run }
}

pub(crate) const OF_FLAGS: &[Ioctl] = &[
    reads(GETFLAGS, |s, ino, _| s.volume.get_flags(ino).map(|f| f.bits().to_le_bytes().to_vec())),
    changes_inode(SETFLAGS, Who::CheckedByKernel, |s, ino, input| {
        let flags = InodeFlags::from_bits_retain(word(input, 0)?);
        s.volume.set_flags(ino, flags).map(|()| Vec::new())
    }),
    reads(GETVERSION, |s, ino, _| s.volume.getattr(ino).map(|a| a.generation.to_le_bytes().to_vec())),
    reads(FSGETXATTR, |s, ino, _| s.volume.getattr(ino).map(|a| fsxattr(a.flags, a.projid))),
    changes_inode(FSSETXATTR, Who::CheckedByKernel, |s, ino, input| {
        set_fsxattr(&s.volume, ino, input).map(|()| Vec::new())
    }),
];

impl Ioctl {
    /// `None` if there is no ioctl with this number (ENOTTY).
    pub(crate) fn find(cmd: u32) -> Option<&'static Self> {
        [OF_FLAGS, volume::TABLE, compress::TABLE].into_iter().flatten().find(|i| i.cmd == cmd)
    }

    /// Executes the ioctl for a caller who may issue it.
    pub(crate) fn execute(
        &self,
        server: &Server,
        head: &InHeader,
        ino: Ino,
        input: &[u8],
    ) -> Result<Vec<u8>> {
        server.authorize(head, ino, self.who)?;
        // The kernel itself refuses ioctls that it knows.
        if self.changes != Changes::Nothing && self.who != Who::CheckedByKernel {
            server.check_writable()?;
        }
        (self.run)(server, ino, input)
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32> {
    bytes
        .get(at..)
        .and_then(|b| b.first_chunk::<4>())
        .map(|b| u32::from_le_bytes(*b))
        .ok_or(Error::Invalid("ioctl argument too short"))
}

/// `struct fsxattr`: flags, extent size, extents, project id, CoW extent size, padding.
fn fsxattr(flags: InodeFlags, projid: u32) -> Vec<u8> {
    let x = XFLAGS.iter().filter(|(_, f)| flags.contains(*f)).fold(0, |x, (bit, _)| x | bit);
    let mut out = vec![0; 28];
    for (slot, value) in out.chunks_exact_mut(4).zip([x, 0, 0, projid]) {
        slot.copy_from_slice(&value.to_le_bytes());
    }
    out
}

fn set_fsxattr(volume: &Volume, ino: Ino, input: &[u8]) -> Result<()> {
    let (x, projid) = (word(input, 0)?, word(input, 12)?);
    let known = XFLAGS.iter().fold(XFLAG_HASATTR, |all, (bit, _)| all | bit);
    if x & !known != 0 {
        return Err(Error::NotSupported("an inode flag that F2FS does not have"));
    }
    let mut flags = volume.get_flags(ino)?;
    for (bit, flag) in XFLAGS {
        flags.set(flag, x & bit != 0);
    }
    volume.set_flags(ino, flags)?;
    if volume.getattr(ino)?.projid == projid { Ok(()) } else { volume.set_projid(ino, projid) }
}
