//! The mount options of the server, and the flags for the kernel. A row defines an option completely. Options
//! of the engine are in its own table.
use super::flag::Flag;
use super::{AtDeath, Choice, FuseOptions};
use rustix::mount::MountFlags;
use segno_engine::options::row::{Row, from_one, pair, switch, value, words};

/// Options of the server.
pub const OPTIONS: &[Row<FuseOptions>] = &[
    value("threads", "N", "chosen by the server", "number of server threads", |s, v| {
        from_one(v).map(|n| s.threads = n)
    }),
    words(
        "transport",
        "how requests arrive from the kernel; auto takes io_uring if the kernel offers it",
        &[
            ("auto", |s| s.transport = Choice::Auto),
            ("classic", |s| s.transport = Choice::Classic),
            ("io_uring", |s| s.transport = Choice::IoUring),
        ],
    ),
    words(
        "sched_idle",
        "auto: threads that may do so deliver small replies at SCHED_IDLE, which keeps the caller on its CPU; over \
         /dev/fuse they do so while there is one caller, and run on its CPU; off: at the normal policy",
        &[("auto", |s| s.no_sched_idle = false), ("off", |s| s.no_sched_idle = true)],
    ),
    switch(
        "writeback_cache",
        "keep written data in the kernel's page cache until fsync or close, otherwise about half a minute; when the volume \
         is full, writes of up to 256M more succeed first (from 16G on, what vm.dirty_ratio permits); \
         docs/durability.md has the semantics",
        |s| s.writeback_cache = true,
    ),
    words(
        "blk",
        "auto: root's mounts have the type fuseblk on kernels that forward sync(2) only to that type",
        &[("auto", |s| s.fuse_only = false), ("off", |s| s.fuse_only = true)],
    ),
    value(
        "uid",
        "N",
        "the file's",
        "owner that all files appear to have; chown and chmod then change nothing",
        |s, v| user(v).map(|id| s.ownership.uid = Some(id)),
    ),
    value("gid", "N", "the file's", "group that all files appear to have", |s, v| {
        user(v).map(|id| s.ownership.gid = Some(id))
    }),
    value(
        "umask",
        "OCTAL",
        "the file's mode",
        "all files appear to have mode 777 without these bits",
        |s, v| umask(v).map(|m| (s.ownership.fmask, s.ownership.dmask) = (Some(m), Some(m))),
    ),
    value("fmask", "OCTAL", "the file's mode", "umask of files that are no directories", |s, v| {
        umask(v).map(|m| s.ownership.fmask = Some(m))
    }),
    value("dmask", "OCTAL", "the file's mode", "umask of directories", |s, v| {
        umask(v).map(|m| s.ownership.dmask = Some(m))
    }),
    pair("allow_other", "off; root: on", "let all users enter", |s| &mut s.allow_other),
    switch(
        "auto_unmount",
        "unmount if the server is killed; the system's log names volume and next step",
        |s| s.at_death = AtDeath::Unmount,
    ),
    switch("shutdown", "for crash tests: permit FS_IOC_SHUTDOWN and `segno ctl DIR shutdown=`", |s| {
        s.shutdown = true
    }),
];

/// Flags for the kernel.
pub const FLAGS: &[Flag] = &[
    Flag::new("dev", "nodev", "nodev; root: dev", MountFlags::NODEV, "whether device nodes are usable"),
    Flag::new("suid", "nosuid", "nosuid; root: suid", MountFlags::NOSUID, "whether set-user-ID bits count"),
    Flag::new("exec", "noexec", "exec", MountFlags::NOEXEC, "whether programs may be executed"),
    Flag::new(
        "sync",
        "async",
        "async",
        MountFlags::SYNCHRONOUS,
        "whether every write, and every change of a directory, is synchronous",
    ),
    Flag::new(
        "dirsync",
        "nodirsync",
        "nodirsync",
        MountFlags::empty(),
        "whether directory changes are synchronous",
    ),
];

fn user(value: &str) -> Result<u32, String> {
    value.parse().map_err(|_| "a number is needed, as `id -u` prints it".into())
}

/// Permissions that files do not get, in octal.
fn umask(value: &str) -> Result<u16, String> {
    u16::from_str_radix(value, 8)
        .ok()
        .filter(|m| *m <= 0o777)
        .ok_or_else(|| "an octal number up to 777 is needed".into())
}
