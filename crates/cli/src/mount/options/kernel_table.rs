//! Every mount option of the kernel's F2FS up to Linux 7.3, and usual lines. The tests of the parser here and those of real mounts
//! (`tests/it/kernel_options.rs`) read it.

/// The effect of a word here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// An option, or an alias of one.
    Works,
    /// Accepted; it has no effect, for a reason that is documented.
    Ignored,
    /// An error that names the option to use.
    Refused,
}
use Handling::{Ignored, Refused, Works};

/// The names in fs/f2fs/super.c and Documentation/filesystems/f2fs.rst, each with the values it takes.
pub const KERNEL: &[(Handling, &str)] = &[
    (Works, "background_gc=on background_gc=off background_gc=sync discard nodiscard disable_ext_identify"),
    (Works, "user_xattr nouser_xattr acl noacl inline_xattr noinline_xattr inline_data noinline_data"),
    (Works, "inline_dentry noinline_dentry mode=adaptive mode=lfs fsync_mode=posix fsync_mode=strict"),
    (
        Works,
        "fsync_mode=nobarrier nobarrier barrier fastboot active_logs=2 checkpoint=enable memory=low atgc ro",
    ),
    (Ignored, "rw lazytime nolazytime heap no_heap active_logs=4 active_logs=6"),
    (Ignored, "flush_merge noflush_merge checkpoint_merge nocheckpoint_merge gc_merge nogc_merge"),
    (Ignored, "extent_cache noextent_cache age_extent_cache data_flush inlinecrypt nat_bits"),
    (
        Ignored,
        "alloc_mode=default alloc_mode=reuse memory=normal io_bits=3 whint_mode=off whint_mode=fs-based",
    ),
    (Ignored, "discard_unit=block discard_unit=segment discard_unit=section resizable_tail_secno=100"),
    (
        Works,
        "compress_algorithm=lzo compress_algorithm=lz4:9 compress_algorithm=zstd:6 compress_algorithm=lzo-rle",
    ),
    (Works, "compress_log_size=4 compress_extension=* nocompress_extension=jpg compress_chksum"),
    (Works, "compress_mode=fs compress_mode=user"),
    (Ignored, "compress_cache lookup_mode=perf lookup_mode=compat lookup_mode=auto"),
    (Ignored, "errors=remount-ro errors=continue noquota usrjquota= grpjquota= prjjquota="),
    (Refused, "checkpoint=disable checkpoint=disable:1000 checkpoint=disable:10% mode=fragment:segment"),
    (
        Refused,
        "mode=fragment:block fault_injection=7 fault_type=1 test_dummy_encryption test_dummy_encryption=v2",
    ),
    (
        Refused,
        "quota usrquota grpquota prjquota usrjquota=aquota.user grpjquota=aquota.group prjjquota=aquota.project",
    ),
    (
        Refused,
        "jqfmt=vfsold jqfmt=vfsv0 jqfmt=vfsv1 reserve_root=32768 reserve_node=100 resuid=0 resgid=1065",
    ),
    // Of mount(8); as mount.segno it works.
    (Refused, "remount"),
    (Refused, "errors=panic inline_xattr_size=60"),
];

/// Lines of distributions and of Android, as far as they promise nothing that is missing, and how many of their words are
/// reported to have no effect.
pub const USUAL: &[(&str, usize)] = &[
    ("defaults,noatime,background_gc=on,no_heap,inline_xattr,inline_data,inline_dentry,flush_merge", 2),
    ("rw,lazytime,relatime,background_gc=on,nodiscard,user_xattr,acl,extent_cache,active_logs=6", 2),
    ("compress_algorithm=zstd:6,compress_chksum,atgc,gc_merge,lazytime", 1),
    ("discard,fsync_mode=nobarrier,inlinecrypt,checkpoint_merge,nodev,nosuid", 2),
    (
        "compress_algorithm=lz4,compress_extension=txt,compress_extension=log,discard_unit=segment,x-systemd.growfs",
        1,
    ),
];

/// A line of Android with a promise that is missing, and the word that has it.
pub const ANDROID: (&str, &str) = (
    "discard,reserve_root=32768,resgid=1065,fsync_mode=nobarrier,inlinecrypt,checkpoint_merge",
    "reserve_root=32768",
);
