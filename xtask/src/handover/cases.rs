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
    /// Further files that populate makes.
    pub files: u32,
    /// How much populate may write, in MiB.
    pub budget: u64,
    /// Mount options that both sides take.
    pub options: Option<&'static str>,
}

const fn case(name: &'static str, mkfs: &'static [&'static str], mib: &'static [u64]) -> Case {
    Case { name, mkfs, mib, operations: 250, files: 0, budget: 16, options: None }
}

const ALL: &str = "extra_attr,inode_checksum,flexible_inline_xattr,inode_crtime,project_quota,quota,lost_found,\
                   sb_checksum,casefold,compression";

/// As `ALL`, without what a side may refuse to write to.
const ALL_BUT_QUOTA: &str = "extra_attr,inode_checksum,flexible_inline_xattr,inode_crtime,lost_found,\
                             sb_checksum,casefold,compression";

pub static CASES: [Case; 20] = [
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

/// Volumes on which all files are compressed.
const fn compressed(name: &'static str, options: &'static str) -> Case {
    const MKFS: &[&str] = &["-O", "extra_attr,inode_checksum,compression"];
    Case { operations: 400, budget: 24, options: Some(options), ..case(name, MKFS, &[192]) }
}

/// Every algorithm, and clusters of 4, 16, 64 and 256 blocks. fsck.f2fs 1.15 miscounts file blocks that
/// follow a missing direct node, and so does not count the mark of a compressed cluster there ("has
/// i_blocks"): a sparse file can fail a row, by chance of the seed.
pub static COMPRESSED: [Case; 16] = [
    compressed("lzo 4", "compress_extension=*,compress_algorithm=lzo,compress_log_size=2"),
    compressed("lz4 4", "compress_extension=*,compress_algorithm=lz4,compress_log_size=2,compress_chksum"),
    compressed("zstd 4", "compress_extension=*,compress_algorithm=zstd,compress_log_size=2"),
    compressed(
        "lzo-rle 4",
        "compress_extension=*,compress_algorithm=lzo-rle,compress_log_size=2,compress_chksum",
    ),
    compressed("lzo 16", "compress_extension=*,compress_algorithm=lzo,compress_log_size=4,compress_chksum"),
    compressed("lz4:9 16", "compress_extension=*,compress_algorithm=lz4:9,compress_log_size=4"),
    compressed(
        "zstd:7 16",
        "compress_extension=*,compress_algorithm=zstd:7,compress_log_size=4,compress_chksum",
    ),
    compressed("lzo-rle 16", "compress_extension=*,compress_algorithm=lzo-rle,compress_log_size=4"),
    compressed("lzo 64", "compress_extension=*,compress_algorithm=lzo,compress_log_size=6"),
    compressed("lz4 64", "compress_extension=*,compress_algorithm=lz4,compress_log_size=6,compress_chksum"),
    compressed("zstd:15 64", "compress_extension=*,compress_algorithm=zstd:15,compress_log_size=6"),
    compressed(
        "lzo-rle 64",
        "compress_extension=*,compress_algorithm=lzo-rle,compress_log_size=6,compress_chksum",
    ),
    compressed("lzo 256", "compress_extension=*,compress_algorithm=lzo,compress_log_size=8,compress_chksum"),
    compressed("lz4 256", "compress_extension=*,compress_algorithm=lz4,compress_log_size=8"),
    compressed(
        "zstd:3 256",
        "compress_extension=*,compress_algorithm=zstd:3,compress_log_size=8,compress_chksum",
    ),
    compressed("lzo-rle 256", "compress_extension=*,compress_algorithm=lzo-rle,compress_log_size=8"),
];

/// `count` cases for volumes that change hands cleanly: all in turn.
pub fn clean(cases: &'static [Case], count: usize) -> impl Iterator<Item = Case> {
    cases.iter().copied().cycle().take(count)
}

/// `count` cases for volumes that change hands after a power cut: every other one first.
pub fn cut(cases: &'static [Case], count: usize) -> impl Iterator<Item = Case> {
    let even = cases.iter().step_by(2);
    let odd = cases.iter().skip(1).step_by(2);
    even.chain(odd).copied().cycle().take(count)
}
