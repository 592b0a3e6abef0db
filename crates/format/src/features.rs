//! Feature bits of the superblock.
use bitflags::bitflags;

bitflags! {
    /// `f2fs_super_block.feature`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Features: u32 {
        const ENCRYPT = 0x1;
        const BLKZONED = 0x2;
        const ATOMIC_WRITE = 0x4;
        const EXTRA_ATTR = 0x8;
        const PRJQUOTA = 0x10;
        const INODE_CHKSUM = 0x20;
        const FLEXIBLE_INLINE_XATTR = 0x40;
        const QUOTA_INO = 0x80;
        const INODE_CRTIME = 0x100;
        const LOST_FOUND = 0x200;
        const VERITY = 0x400;
        const SB_CHKSUM = 0x800;
        const CASEFOLD = 0x1000;
        const COMPRESSION = 0x2000;
        const RO = 0x4000;
        const DEVICE_ALIAS = 0x8000;
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
