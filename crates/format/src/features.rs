//! Feature bits of the superblock.
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bitflags::bitflags;

bitflags! {
    /// `f2fs_super_block.feature`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Features: u32 {
        /// Files can be encrypted.
        const ENCRYPT = 0x1;
        /// A device is zoned.
        const BLKZONED = 0x2;
        /// Files can be written atomically.
        const ATOMIC_WRITE = 0x4;
        /// Inodes have extra attributes.
        const EXTRA_ATTR = 0x8;
        /// Inodes have a project, with quota.
        const PRJQUOTA = 0x10;
        /// Inodes have a checksum.
        const INODE_CHKSUM = 0x20;
        /// Each inode stores the size of its area for extended attributes.
        const FLEXIBLE_INLINE_XATTR = 0x40;
        /// Quota files are hidden inodes.
        const QUOTA_INO = 0x80;
        /// Inodes have a time of creation.
        const INODE_CRTIME = 0x100;
        /// There is a directory `lost+found`.
        const LOST_FOUND = 0x200;
        /// Files can carry a verity tree.
        const VERITY = 0x400;
        /// The superblock has a checksum.
        const SB_CHKSUM = 0x800;
        /// Directories can ignore case.
        const CASEFOLD = 0x1000;
        /// Files can be compressed.
        const COMPRESSION = 0x2000;
        /// The volume is never written; it has no room for that.
        const RO = 0x4000;
        /// Each further device has a file that maps its blocks.
        const DEVICE_ALIAS = 0x8000;
        /// Summary blocks of several segments share a block.
        const PACKED_SSA = 0x1_0000;
        const _ = !0;
    }
}

/// Names as mkfs.f2fs -O spells them.
const NAMES: &[(&str, Features)] = &[
    ("encrypt", Features::ENCRYPT),
    ("blkzoned", Features::BLKZONED),
    ("atomic_write", Features::ATOMIC_WRITE),
    ("extra_attr", Features::EXTRA_ATTR),
    ("project_quota", Features::PRJQUOTA),
    ("inode_checksum", Features::INODE_CHKSUM),
    ("flexible_inline_xattr", Features::FLEXIBLE_INLINE_XATTR),
    ("quota", Features::QUOTA_INO),
    ("inode_crtime", Features::INODE_CRTIME),
    ("lost_found", Features::LOST_FOUND),
    ("verity", Features::VERITY),
    ("sb_checksum", Features::SB_CHKSUM),
    ("casefold", Features::CASEFOLD),
    ("compression", Features::COMPRESSION),
    ("ro", Features::RO),
    ("device_alias", Features::DEVICE_ALIAS),
    ("packed_ssa", Features::PACKED_SSA),
];

impl Features {
    /// The feature of that mkfs.f2fs name.
    #[must_use]
    pub fn from_mkfs_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(n, _)| *n == name).map(|&(_, f)| f)
    }

    /// All names.
    pub fn all_names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Names of the set bits; bits without a name come last as hex.
    #[must_use]
    pub fn names(self) -> Vec<String> {
        let mut out: Vec<String> =
            NAMES.iter().filter(|(_, f)| self.contains(*f)).map(|(n, _)| (*n).to_owned()).collect();
        let rest = self.unnamed();
        if rest != 0 {
            out.push(format!("{rest:#x}"));
        }
        out
    }

    /// Bits this format description does not know.
    #[must_use]
    pub fn unnamed(self) -> u32 {
        NAMES.iter().fold(self.bits(), |b, (_, f)| b & !f.bits())
    }
}
