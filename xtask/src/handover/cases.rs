//! The volumes that change hands: every option of mkfs.f2fs that shapes the format, at several sizes.

/// One way to make a volume.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    /// Options as mkfs.f2fs and `segno mkfs` both take them.
    pub mkfs: &'static [&'static str],
    /// Sizes of its devices.
    pub mib: &'static [u64],
    pub operations: u32,
    /// How much populate may write, in MiB.
    pub budget: u64,
}

const fn case(name: &'static str, mkfs: &'static [&'static str], mib: &'static [u64]) -> Case {
    Case { name, mkfs, mib, operations: 250, budget: 16 }
}

const ALL: &str = "extra_attr,inode_checksum,flexible_inline_xattr,inode_crtime,project_quota,quota,lost_found,\
                   sb_checksum,casefold,compression";

/// As `ALL`, without what a side may refuse to write to.
const ALL_BUT_QUOTA: &str = "extra_attr,inode_checksum,flexible_inline_xattr,inode_crtime,lost_found,\
                             sb_checksum,casefold,compression";

pub const CASES: [Case; 20] = [
    case("plain", &[], &[128]),
    Case { operations: 60, budget: 3, ..case("small", &[], &[56]) },
    Case {
        operations: 500,
        budget: 64,
        ..case("large, labelled", &["-l", "hand-over", "-o", "10"], &[2048])
    },
    case("extra_attr", &["-O", "extra_attr"], &[128]),
    case("inode_checksum", &["-O", "extra_attr,inode_checksum"], &[128]),
    case("flexible_inline_xattr", &["-O", "extra_attr,flexible_inline_xattr"], &[128]),
    case("inode_crtime", &["-O", "extra_attr,inode_crtime"], &[128]),
    case("project_quota", &["-O", "extra_attr,project_quota"], &[128]),
    case("quota", &["-O", "extra_attr,quota"], &[128]),
    case("quota, project_quota", &["-O", "extra_attr,quota,project_quota"], &[128]),
    case("lost_found", &["-O", "lost_found"], &[128]),
    case("sb_checksum", &["-O", "extra_attr,sb_checksum"], &[128]),
    case("casefold", &["-O", "extra_attr,casefold", "-C", "utf8"], &[128]),
    case("compression", &["-O", "extra_attr,compression"], &[128]),
    case("all features", &["-O", ALL, "-C", "utf8"], &[256]),
    case("sections of 2", &["-s", "2"], &[256]),
    case("sections of 4, zones of 2", &["-s", "4", "-z", "2"], &[512]),
    case("large NAT bitmap", &["-i"], &[256]),
    case("two devices", &[], &[128, 96]),
    case("three devices, no quota", &["-O", ALL_BUT_QUOTA, "-C", "utf8"], &[192, 64, 128]),
];

/// `count` cases for volumes that change hands cleanly: all in turn.
pub fn clean(count: usize) -> impl Iterator<Item = Case> {
    CASES.into_iter().cycle().take(count)
}

/// `count` cases for volumes that change hands after a power cut: every other one first.
pub fn cut(count: usize) -> impl Iterator<Item = Case> {
    let even = CASES.into_iter().step_by(2);
    let odd = CASES.into_iter().skip(1).step_by(2);
    even.chain(odd).cycle().take(count)
}
