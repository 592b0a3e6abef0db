//! Every mount option of the kernel's F2FS up to Linux 7.3, alone and in usual combinations: what becomes of it.
use super::{Settings, foreign};

/// What a word does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// An option, or an alias of one.
    Works,
    /// Accepted; it has no effect, for a reason that is documented.
    Ignored,
    /// An error that says what to use.
    Refused,
}
use Fate::{Ignored, Refused, Works};

/// The names in fs/f2fs/super.c and Documentation/filesystems/f2fs.rst, each with the values it takes.
const KERNEL: &[(Fate, &str)] = &[
    (Works, "background_gc=on background_gc=off background_gc=sync discard nodiscard disable_ext_identify"),
    (Works, "user_xattr nouser_xattr acl noacl inline_xattr noinline_xattr inline_data noinline_data"),
    (Works, "inline_dentry noinline_dentry mode=adaptive mode=lfs fsync_mode=posix fsync_mode=strict"),
    (Works, "fsync_mode=nobarrier nobarrier checkpoint=enable memory=low atgc ro"),
    (Ignored, "rw lazytime nolazytime heap no_heap active_logs=2 active_logs=4 active_logs=6 barrier"),
    (Ignored, "flush_merge noflush_merge checkpoint_merge nocheckpoint_merge gc_merge nogc_merge"),
    (Ignored, "extent_cache noextent_cache age_extent_cache data_flush inlinecrypt fastboot nat_bits"),
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
    (Ignored, "errors=remount-ro noquota usrjquota= grpjquota= prjjquota="),
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
    (Refused, "errors=continue errors=panic inline_xattr_size=60"),
];

fn parse(words: &str) -> anyhow::Result<Settings> {
    Settings::parse(&[words.to_owned()], true)
}

#[test]
fn each_alone() {
    for (fate, words) in KERNEL {
        for word in words.split(' ') {
            let found = match (foreign::ignored(word), parse(word)) {
                (Some(_), Ok(_)) => Ignored,
                (None, Ok(_)) => Works,
                (_, Err(e)) => {
                    let said = e.to_string();
                    let advice = foreign::advice(word).unwrap_or_else(|| panic!("{said}"));
                    assert_eq!(said, format!("mount option {word} is not supported: {advice}"));
                    Refused
                }
            };
            assert_eq!(found, *fate, "{word}");
        }
    }
}

/// Tables whose words the kernel does not know would be guesses.
#[test]
fn every_row_is_an_option_of_the_kernel() {
    let of_kernel: Vec<&str> = KERNEL.iter().flat_map(|(_, words)| words.split(' ')).collect();
    let noted = foreign::IGNORED.iter().filter(|i| i.noted).flat_map(|i| i.words);
    let refused = foreign::REFUSED.iter().flat_map(|r| r.words);
    for word in noted.chain(refused) {
        let start = word.trim_end_matches('*');
        assert!(of_kernel.iter().any(|k| k.starts_with(start)), "{word}");
    }
}

/// Recovery can be skipped on read-only mounts only.
#[test]
fn without_recovery() {
    for word in ["norecovery", "disable_roll_forward"] {
        assert!(parse(word).unwrap_err().to_string().contains("add ro"));
        assert!(parse(&format!("ro,{word}")).unwrap().engine.norecovery);
    }
}

/// Lines of distributions and of Android, as far as they promise nothing that is missing.
#[test]
fn usual_lines() {
    for (line, noted) in [
        ("defaults,noatime,background_gc=on,no_heap,inline_xattr,inline_data,inline_dentry,flush_merge", 2),
        ("rw,lazytime,relatime,background_gc=on,nodiscard,user_xattr,acl,extent_cache,active_logs=6", 2),
        ("compress_algorithm=zstd:6,compress_chksum,atgc,gc_merge,lazytime", 1),
        ("discard,fsync_mode=nobarrier,inlinecrypt,checkpoint_merge,nodev,nosuid", 2),
        (
            "compress_algorithm=lz4,compress_extension=txt,compress_extension=log,discard_unit=segment,x-systemd.growfs",
            1,
        ),
    ] {
        let found: Vec<String> = parse(line).unwrap().ignored.into_iter().map(|i| i.word).collect();
        assert_eq!(found.len(), noted, "{line}: {found:?}");
    }
    let android = "discard,reserve_root=32768,resgid=1065,fsync_mode=nobarrier,inlinecrypt,checkpoint_merge";
    let said = parse(android).unwrap_err().to_string();
    assert_eq!(
        said,
        "mount option reserve_root=32768 is not supported: no space can be kept for one user; leave it out, cleaning has a reserve of its own"
    );
}

#[test]
fn contradictions_are_refused_as_in_the_kernel() {
    assert!(parse("mode=lfs,atgc").unwrap_err().to_string().contains("leave one out"));
}

#[test]
fn owners_and_masks() {
    let o = parse("uid=1000,gid=100,umask=022,fmask=133").unwrap().ownership;
    assert_eq!((o.uid, o.gid, o.fmask, o.dmask), (Some(1000), Some(100), Some(0o133), Some(0o022)));
    for (word, said) in [
        ("uid=me", "mount option uid=me: a number is needed, as `id -u` prints it"),
        ("umask=8", "mount option umask=8: an octal number up to 777 is needed"),
        ("dmask=1777", "mount option dmask=1777: an octal number up to 777 is needed"),
    ] {
        assert_eq!(parse(word).unwrap_err().to_string(), said);
    }
}
