//! The parts of manual pages that are not in the command line's definition: exit codes, files, environment,
//! further pages.
use crate::commands::ctl::SETTINGS;
use crate::exit::{self, fsck};

/// Words with their meanings.
pub type Entries = Vec<(String, String)>;
type Rows = &'static [(&'static str, &'static str)];

/// Commands with an example. `tests/it/examples.rs` runs them in this order, in a directory that has `tree/hello` and `mnt`.
pub const EXAMPLES: &[(&str, &str)] = &[
    ("mkfs", "segno mkfs --size 1G --label demo --journal 64M disk.img"),
    ("put", "segno put disk.img tree"),
    ("ls", "segno ls -l disk.img tree"),
    ("cat", "segno cat disk.img tree/hello"),
    ("stat", "segno stat disk.img tree/hello"),
    ("extents", "segno extents --image disk.img tree/hello"),
    ("get", "segno get disk.img tree copy"),
    ("mkdir", "segno mkdir -p disk.img /new/dir"),
    ("touch", "segno touch -d 2026-11-20T13:05Z disk.img /new/file"),
    ("chmod", "segno chmod -R disk.img u=rwX,go=rX /new"),
    ("chown", "segno chown disk.img 1000:100 /new/file"),
    ("ln", "segno ln -s disk.img file /new/link"),
    ("setfattr", "segno setfattr -n user.origin -v camera disk.img /new/file"),
    ("getfattr", "segno getfattr -d disk.img /new/file"),
    ("mv", "segno mv disk.img /new/file /new/dir"),
    ("rm", "segno rm -r disk.img /new"),
    ("shell", "segno shell -c ls disk.img"),
    ("info", "segno info --json disk.img"),
    ("label", "segno label disk.img backup"),
    ("install-helper", "segno install-helper tree"),
    ("map", "segno map -o map.svg disk.img"),
    ("report", "segno report -o report.html disk.img"),
    ("journal", "segno journal info disk.img"),
    ("check", "segno check disk.img"),
    ("build", "segno build --label system -T 1700000000 tree system.img"),
    ("extract", "segno extract system.img extracted"),
    ("sparse", "segno sparse pack disk.img sparse.img"),
    ("dump", "segno dump disk.img cp"),
    ("find", "segno find disk.img"),
    ("rescue", "segno rescue disk.img rescued"),
    ("undelete", "segno undelete --list disk.img"),
    ("mount", "segno mount -o cache=64M disk.img mnt"),
    ("mounts", "segno mounts --json"),
    ("sync", "segno sync mnt"),
    ("stats", "segno stats --explain mnt"),
    ("top", "segno top mnt"),
    ("metrics", "segno metrics --format prometheus mnt"),
    ("ctl", "segno ctl mnt gc=urgent"),
    ("umount", "segno umount mnt"),
    #[cfg(feature = "vhost")]
    ("export", "segno export --vhost-user vm.sock disk.img"),
];

/// The programs of section 8, run after the commands.
pub const SYSTEM_EXAMPLES: &[(&str, &str)] = &[
    ("mkfs.segno", "mkfs.segno -f -l demo disk.img"),
    ("fsck.segno", "fsck.segno -a disk.img"),
    ("mount.segno", "mount.segno disk.img mnt -o noatime,cache=64M"),
];

/// Examples of commands that another program has, or that need an object store: they are not run here.
pub const OTHER_EXAMPLES: Rows = &[
    ("bench", "segno bench run --quick --rounds 1 -o result fsync32"),
    ("crashtest", "segno crashtest --case scene:0@default"),
    ("store", "segno store info s3://bucket/disk"),
];

/// The example of segno(1).
pub const SESSION: [&str; 4] =
    ["segno mkfs --size 1G disk.img", "segno mount disk.img mnt", "cp -a tree mnt", "segno umount mnt"];

/// Where the known gaps are, and where reports go.
pub const BUGS: &str = "docs/status.md of the sources lists what is missing. Report a bug where Segno was obtained, with the version \
                    (segno --version), the command, what it printed, and the output of \"segno info\" and \"segno check\" if it \
                    concerns a volume. SECURITY.md of the sources says how to report a vulnerability.";

/// The meaning of code 1, where it is not only a failure.
const FAILED: Rows = &[
    ("chmod", "failed, or an operand failed; the others are done, and standard error names it"),
    ("chown", "failed, or an operand failed; the others are done, and standard error names it"),
    ("getfattr", "failed, or an operand failed; the others are done, and standard error names it"),
    ("ln", "failed, or an operand failed; the others are done, and standard error names it"),
    ("mkdir", "failed, or an operand failed; the others are done, and standard error names it"),
    ("mv", "failed, or an operand failed; the others are done, and standard error names it"),
    ("rm", "failed, or an operand failed; the others are done, and standard error names it"),
    ("setfattr", "failed, or an operand failed; the others are done, and standard error names it"),
    ("touch", "failed, or an operand failed; the others are done, and standard error names it"),
    ("shell", "failed, or a command of a script failed"),
    ("bench", "failed"),
    ("crashtest", "failed, or something was wrong; each finding comes with the command that repeats it"),
    ("extents", "failed, or a part of the tree could not be read; the rest is shown"),
    ("find", "failed, or there is no volume"),
    ("get", "failed, or a part was not copied; standard error names it"),
    ("ls", "failed, or a part of the tree could not be read; the rest is listed"),
    ("put", "failed, or a part was not copied; standard error names it"),
    ("rescue", "failed, or anything is doubtful, not copied or lost"),
    ("undelete", "failed, or a file is partial, doubtful or not copied"),
];

const FILES: &[(&str, Rows)] = &[
    ("segno", &[("/dev/fuse", "connection of the mounts to the kernel")]),
    (
        "mount",
        &[
            ("/dev/fuse", "connection to the kernel; users who may open it mount"),
            ("/dev/log", "takes the messages of a server in the background, without -o log="),
            ("/etc/fuse.conf", "user_allow_other lets users mount with -o allow_other"),
        ],
    ),
    ("mount.segno", &[("/etc/fstab", "lines of type segno"), ("/dev/fuse", "connection to the kernel")]),
    ("umount", &[("/proc/self/mountinfo", "mounts of this namespace")]),
    ("mounts", &[("/proc/self/mountinfo", "mounts of this namespace")]),
    ("bench", &[("segno-lab", "program that this command executes, of the same directory, else of PATH")]),
    (
        "crashtest",
        &[("segno-lab", "program that this command executes, of the same directory, else of PATH")],
    ),
];

const ENVIRONMENT: &[(&str, Rows)] = &[
    ("bench", PATH_OF_LAB),
    ("crashtest", PATH_OF_LAB),
    (
        "build",
        &[(
            "SOURCE_DATE_EPOCH",
            "seconds since 1970: newer time stamps become this one, and -T is this unless it is given",
        )],
    ),
    ("map", &[("NO_COLOR", "set: no colours on a terminal")]),
    ("mount", OF_MOUNT),
    ("mount.segno", OF_MOUNT),
    ("export", &[ARENAS]),
    ("umount", &[("PATH", "where users find fusermount3(1)")]),
    #[cfg(feature = "store")]
    ("store", OF_STORE),
];

const PATH_OF_LAB: Rows = &[("PATH", "where segno-lab is searched if it is not in the directory of segno")];
const ARENAS: (&str, &str) =
    ("MALLOC_ARENA_MAX", "number of heaps of the C library; the server chooses one if it is not set");
const SYSTEMD: (&str, &str) =
    ("NOTIFY_SOCKET", "with -f: socket of systemd, which is told when the mount responds, or why it failed");
const JOURNAL: (&str, &str) = (
    "JOURNAL_STREAM",
    "set by systemd: standard error is its journal, so that mount and recovery are noted there",
);
#[cfg(not(feature = "store"))]
const OF_MOUNT: Rows = &[("PATH", "where users find fusermount3(1)"), ARENAS, SYSTEMD, JOURNAL];
#[cfg(feature = "store")]
const OF_MOUNT: Rows = &[
    ("PATH", "where users find fusermount3(1)"),
    ARENAS,
    SYSTEMD,
    JOURNAL,
    ("AWS_*", "credentials, region and endpoint of volumes on object stores: segno-store(1) lists them"),
];
#[cfg(feature = "store")]
const OF_STORE: Rows = &[
    ("AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN", "credentials"),
    ("AWS_REGION, AWS_DEFAULT_REGION", "region of the bucket"),
    ("AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_ENDPOINT", "another service than that of Amazon"),
    ("AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE", "profile, and the files that have it"),
    (
        "AWS_WEB_IDENTITY_TOKEN_FILE, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "tokens of clusters and containers",
    ),
    ("AWS_EC2_METADATA_DISABLED", "true: the metadata service of the machine is not asked for credentials"),
    ("SSL_CERT_FILE, SSL_CERT_DIR", "certificates of authorities"),
];

const SEE_MOUNT: &str = "segno(5) segno-umount(1) mount(8) fstab(5) fusermount3(1) f2fs(5)";

/// Related pages, in addition to segno(1).
const SEE: Rows = &[
    ("segno", "segno(5) mkfs.segno(8) mount.segno(8) fsck.segno(8) mount(8) fstab(5) mkfs.f2fs(8)"),
    ("mkfs", "mkfs.segno(8) segno-build(1) segno-mount(1) mkfs.f2fs(8)"),
    ("build", "segno-extract(1) segno-mkfs(1) segno-sparse(1)"),
    ("extract", "segno-build(1) segno-get(1) tar(1)"),
    ("mount", SEE_MOUNT),
    ("umount", "segno-mount(1) umount(8) fuser(1)"),
    ("export", "segno-mount(1) segno(5) qemu(1)"),
    ("check", "fsck.segno(8) segno-rescue(1) fsck(8) fsck.f2fs(8)"),
    ("crashtest", "segno-bench(1) segno-lab(1)"),
    ("bench", "segno-crashtest(1) segno-lab(1) fio(1)"),
    ("find", "segno-info(1) sfdisk(8) partx(8)"),
    ("info", "segno-find(1) segno-map(1) segno-report(1) segno-dump(1)"),
    ("map", "segno-info(1) segno-report(1)"),
    ("report", "segno-info(1) segno-stats(1)"),
    ("journal", "segno-mount(1) segno-mkfs(1) segno(5)"),
    ("ls", "segno-stat(1) segno-get(1) ls(1)"),
    ("cat", "segno-get(1) cat(1)"),
    ("stat", "segno-ls(1) segno-dump(1) stat(1)"),
    ("get", "segno-put(1) segno-cat(1) segno-extract(1)"),
    ("put", "segno-get(1) segno-build(1)"),
    ("rm", "segno-shell(1) rm(1)"),
    ("mv", "segno-shell(1) mv(1)"),
    ("mkdir", "segno-shell(1) mkdir(1)"),
    ("ln", "segno-shell(1) ln(1)"),
    ("chmod", "segno-shell(1) chmod(1)"),
    ("chown", "segno-shell(1) chown(1)"),
    ("touch", "segno-shell(1) touch(1)"),
    ("setfattr", "segno-getfattr(1) segno-shell(1) setfattr(1)"),
    ("getfattr", "segno-setfattr(1) segno-shell(1) getfattr(1)"),
    ("shell", "segno-ls(1) segno-get(1) segno-put(1) debugfs(8)"),
    ("label", "segno-info(1) f2fslabel(8)"),
    ("install-helper", "segno-mkfs(1) segno-build(1) mkfs.f2fs(8)"),
    ("mounts", "segno-mount(1) segno-umount(1) mount(8) findmnt(8)"),
    ("extents", "segno-map(1) segno-dump(1) filefrag(8)"),
    ("sparse", "segno-build(1) img2simg(1) simg2img(1)"),
    ("store", "segno-mount(1) segno-mkfs(1)"),
    ("rescue", "segno-undelete(1) segno-check(1) ddrescue(1)"),
    ("undelete", "segno-rescue(1)"),
    ("dump", "segno-info(1) segno-stat(1) dump.f2fs(8)"),
    ("stats", "segno-top(1) segno-metrics(1)"),
    ("top", "segno-stats(1) segno-metrics(1)"),
    ("metrics", "segno-stats(1) segno-top(1) promtool(1)"),
    ("sync", "segno-umount(1) sync(1) fsync(2)"),
    ("ctl", "segno-mount(1) segno-stats(1)"),
    ("mkfs.segno", "segno-mkfs(1) mkfs(8) mkfs.f2fs(8)"),
    ("fsck.segno", "segno-check(1) fsck(8) fsck.f2fs(8)"),
    ("mount.segno", SEE_MOUNT),
];

/// The sections of a page between its commands and its examples.
pub fn sections(of: &str) -> Vec<(&'static str, Entries)> {
    let settings = SETTINGS.iter().map(|s| (format!("{}={}", s.name, s.values), s.help.to_owned()));
    let all = [
        ("SETTINGS", if of == "ctl" { settings.collect() } else { Entries::new() }),
        ("EXIT STATUS", exit_status(of)),
        ("FILES", owned(find(FILES, of).unwrap_or_default())),
        ("ENVIRONMENT", owned(find(ENVIRONMENT, of).unwrap_or_default())),
    ];
    all.into_iter().filter(|(_, entries)| !entries.is_empty()).collect()
}

pub fn see(of: &str) -> &'static str {
    find(SEE, of).unwrap_or_default()
}

fn exit_status(of: &str) -> Entries {
    let codes = match of {
        "check" | "fsck.segno" => fsck::CODES,
        "mount.segno" => exit::HELPER_CODES,
        _ => exit::CODES,
    };
    let meaning = |code: u8, text: &'static str| match find(FAILED, of) {
        Some(failed) if code == exit::FAILED => failed,
        _ => text,
    };
    codes.iter().map(|&(code, text)| (code.to_string(), meaning(code, text).to_owned())).collect()
}

fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(of, _)| *of == name).map(|(_, row)| *row)
}

fn owned(rows: Rows) -> Entries {
    rows.iter().map(|(word, text)| ((*word).to_owned(), (*text).to_owned())).collect()
}
