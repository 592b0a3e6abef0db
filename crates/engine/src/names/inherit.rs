//! Inheritance of a new inode from its directory.
use segno_format::inode::{InodeFlags, RawExtraAttr, RawInode};

const S_IFMT: u16 = 0o170_000;
const S_IFDIR: u16 = 0o040_000;
const S_IFREG: u16 = 0o100_000;
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
    /// Compression parameters of files in it; set only on directories with the flag.
    pub(super) compress: Option<(u8, u8, u16)>,
}

/// The values that an inode of `mode` inherits.
pub(super) fn inherit(dir: &RawInode, mode: u16) -> FromParent {
    let flags = dir.flags();
    let setgid = dir.i_mode.get() & S_ISGID != 0;
    let is_dir = mode & S_IFMT == S_IFDIR;
    let taken = inherited_flags(flags, mode);
    let extra = dir.extra();
    let compress = taken.contains(InodeFlags::COMPR) && dir.has_extra(36);
    FromParent {
        flags: taken,
        projid: if flags.contains(InodeFlags::PROJINHERIT) && dir.has_extra(8) {
            extra.i_projid.get()
        } else {
            0
        },
        gid: setgid.then(|| dir.i_gid.get()),
        mode: if setgid && is_dir { S_ISGID } else { 0 },
        compress: compress.then(|| compression(&extra)),
    }
}

fn compression(extra: &RawExtraAttr) -> (u8, u8, u16) {
    (extra.i_compress_algorithm, extra.i_log_cluster_size, extra.i_compress_flag.get())
}

/// Inherited flags by kind of file. Files do not inherit compression: this version cannot write clusters.
fn inherited_flags(dir: InodeFlags, mode: u16) -> InodeFlags {
    let any = InodeFlags::NODUMP | InodeFlags::NOATIME;
    let file = any | InodeFlags::SYNC | InodeFlags::NOCOMP;
    match mode & S_IFMT {
        S_IFDIR => {
            let more =
                InodeFlags::DIRSYNC | InodeFlags::PROJINHERIT | InodeFlags::CASEFOLD | InodeFlags::COMPR;
            dir & (file | more) | InodeFlags::INDEX
        }
        S_IFREG => dir & file,
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
        assert_eq!(inherited_flags(all, 0o100_644).bits(), 0x4C8);
        assert_eq!(inherited_flags(all, 0o120_777).bits(), 0xC0);
        assert_eq!(inherited_flags(InodeFlags::IMMUTABLE, 0o040_755), InodeFlags::INDEX);
    }
}
