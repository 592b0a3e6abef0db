//! Ioctls on an inode that pass through FUSE: file flags and generation.
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

/// Whether an ioctl changes attributes, which the kernel does not expect of any.
pub(crate) fn changes_attributes(cmd: u32) -> bool {
    matches!(cmd, SETFLAGS | FSSETXATTR)
}

/// Executes an ioctl; `None` if it is unknown (ENOTTY).
pub(crate) fn run(volume: &Volume, ino: Ino, cmd: u32, input: &[u8]) -> Option<Result<Vec<u8>>> {
    Some(match cmd {
        GETFLAGS => volume.get_flags(ino).map(|f| f.bits().to_le_bytes().to_vec()),
        SETFLAGS => word(input, 0)
            .and_then(|f| volume.set_flags(ino, InodeFlags::from_bits_retain(f)))
            .map(|()| Vec::new()),
        GETVERSION => volume.getattr(ino).map(|a| a.generation.to_le_bytes().to_vec()),
        FSGETXATTR => volume.getattr(ino).map(|a| fsxattr(a.flags, a.projid)),
        FSSETXATTR => set_fsxattr(volume, ino, input).map(|()| Vec::new()),
        _ => return None,
    })
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
