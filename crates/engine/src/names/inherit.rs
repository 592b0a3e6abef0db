//! Inheritance of a new inode from its directory.
use segno_format::dentry::FileType;
use segno_format::inode::{InodeFlags, RawInode};

const S_ISGID: u16 = 0o2000;

/// Inherited values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FromParent {
    pub(super) flags: InodeFlags,
    pub(super) projid: u32,
    /// The group, if the directory has set-group-ID.
    pub(super) gid: Option<u32>,
    /// Bits to add to the mode.
    pub(super) mode: u16,
}

/// The values that an inode of `mode` inherits.
pub(super) fn inherit(dir: &RawInode, mode: u16) -> FromParent {
    let flags = dir.flags();
    let setgid = dir.i_mode.get() & S_ISGID != 0;
    let is_dir = FileType::of_mode(mode) == FileType::Directory;
    let taken = inherited_flags(flags, mode);
    FromParent {
        flags: taken,
        projid: if flags.contains(InodeFlags::PROJINHERIT) { dir.projid() } else { 0 },
        gid: setgid.then(|| dir.i_gid.get()),
        mode: if setgid && is_dir { S_ISGID } else { 0 },
    }
}

/// Inherited flags by kind of file.
fn inherited_flags(dir: InodeFlags, mode: u16) -> InodeFlags {
    let any = InodeFlags::NODUMP | InodeFlags::NOATIME;
    let file = any | InodeFlags::SYNC | InodeFlags::NOCOMP | InodeFlags::COMPR;
    match FileType::of_mode(mode) {
        FileType::Directory => {
            let more = InodeFlags::DIRSYNC | InodeFlags::PROJINHERIT | InodeFlags::CASEFOLD;
            dir & (file | more) | InodeFlags::INDEX
        }
        FileType::Regular => dir & file,
        _ => dir & any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_pass_on_by_kind() {
        let all = InodeFlags::from_bits_retain(u32::MAX);
        assert_eq!(inherited_flags(all, 0o040_755).bits(), 0x6001_10CC | 0x400);
        assert_eq!(inherited_flags(all, 0o100_644).bits(), 0x4CC);
        assert_eq!(inherited_flags(all, 0o120_777).bits(), 0xC0);
        assert_eq!(inherited_flags(InodeFlags::IMMUTABLE, 0o040_755), InodeFlags::INDEX);
    }
}
