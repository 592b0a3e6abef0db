//! All mount options: those of the engine, which has the table of them, and those of a mount. A row is the whole of an option: the
//! parser, `segno mount --help`, error messages, remount and docs/mount-options.md come from it.
use super::described::Described;
use super::flag::Flag;
use super::{Settings, from_one, umask, user};
use rustix::mount::MountFlags;
use segno_engine::options::row::{Row, pair, switch, value, words};
use segno_engine::options::{Parsed, table as of_engine};
use segno_format::size;
use segno_fuse::{AtDeath, Choice};
use std::path::{self, PathBuf};

/// Options that belong together in help texts.
pub struct Group {
    pub title: &'static str,
    engine: &'static [Row<Parsed>],
    own: &'static [Row<Settings>],
    flags: &'static [Flag],
}

const NONE: Group = Group { title: "", engine: &[], own: &[], flags: &[] };

pub const GROUPS: [Group; 4] = [
    Group { title: "Options of F2FS", engine: of_engine::OF_F2FS, ..NONE },
    Group { title: "Options of Segno", engine: of_engine::OWN, own: OWN, ..NONE },
    Group { title: "Options for volumes on an object store", own: STORE, ..NONE },
    Group { title: "Flags for the kernel", flags: FLAGS, ..NONE },
];

impl Group {
    pub fn options(&self) -> impl Iterator<Item = Described> + use<> {
        let engine = self.engine.iter().map(describe);
        engine.chain(self.own.iter().map(describe)).chain(self.flags.iter().map(Flag::describe))
    }
}

fn describe<S>(row: &Row<S>) -> Described {
    let (syntax, opposite) = (row.syntax(), row.opposite());
    Described { name: row.name, default: row.default, help: row.help, syntax, opposite }
}

const OWN: &[Row<Settings>] = &[
    value("threads", "N", "chosen by the server", "number of server threads", |s, v| {
        from_one(v).map(|n| s.fuse.threads = n)
    }),
    words(
        "transport",
        "how requests arrive from the kernel; auto takes io_uring if the kernel offers it",
        &[
            ("auto", |s| s.fuse.transport = Choice::Auto),
            ("classic", |s| s.fuse.transport = Choice::Classic),
            ("io_uring", |s| s.fuse.transport = Choice::IoUring),
        ],
    ),
    words(
        "sched_idle",
        "auto: threads that may do so deliver small replies at SCHED_IDLE, which keeps the caller on its CPU; over \
         /dev/fuse they do so while there is one caller, and run on its CPU; off: at the normal policy",
        &[("auto", |s| s.fuse.no_sched_idle = false), ("off", |s| s.fuse.no_sched_idle = true)],
    ),
    switch(
        "writeback_cache",
        "keep written data in the kernel's page cache until fsync or close, otherwise about half a minute; when the volume \
         is full, writes of up to 256M more succeed first (from 16G on, what vm.dirty_ratio permits); \
         docs/durability.md has the semantics",
        |s| s.fuse.writeback_cache = true,
    ),
    switch("direct", "bypass the host's page cache", |s| s.direct = true),
    value(
        "device",
        "PATH",
        "recorded block devices, for root on a block device",
        "a further device of a volume of several; repeat in order",
        |s, v| {
            s.devices.push(PathBuf::from(v));
            Ok(())
        },
    ),
    value("offset", "BYTES", "the first one", "byte of the image that the volume begins at", |s, v| {
        size::parse(v).map(|n| s.part.offset = Some(n))
    }),
    value(
        "length",
        "BYTES",
        "to the end of the partition or volume that begins there",
        "length of the volume's part of the image, with offset",
        |s, v| size::parse(v).map(|n| s.part.length = Some(n)),
    ),
    value(
        "partition",
        "NAME",
        "the whole image",
        "partition of the image that has the volume: its number, name or UUID, or label or UUID of the volume",
        |s, v| {
            s.part.partition = Some(v.to_owned());
            Ok(())
        },
    ),
    value(
        "log",
        "FILE",
        "the system's log",
        "where the server writes messages once it is detached",
        |s, v| {
            s.log = Some(path::absolute(v).map_err(|e| e.to_string())?);
            Ok(())
        },
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
        |s, v| user(v).map(|id| s.fuse.ownership.uid = Some(id)),
    ),
    value("gid", "N", "the file's", "group that all files appear to have", |s, v| {
        user(v).map(|id| s.fuse.ownership.gid = Some(id))
    }),
    value(
        "umask",
        "OCTAL",
        "the file's mode",
        "all files appear to have mode 777 without these bits",
        |s, v| umask(v).map(|m| (s.fuse.ownership.fmask, s.fuse.ownership.dmask) = (Some(m), Some(m))),
    ),
    value("fmask", "OCTAL", "the file's mode", "umask of files that are no directories", |s, v| {
        umask(v).map(|m| s.fuse.ownership.fmask = Some(m))
    }),
    value("dmask", "OCTAL", "the file's mode", "umask of directories", |s, v| {
        umask(v).map(|m| s.fuse.ownership.dmask = Some(m))
    }),
    pair("allow_other", "off; root: on", "let all users enter", |s| &mut s.fuse.allow_other),
    switch(
        "auto_unmount",
        "unmount if the server is killed; the system's log names volume and next step",
        |s| s.fuse.at_death = AtDeath::Unmount,
    ),
    words(
        "restart",
        "remount: mount again if the server is killed, read-only if the volume stopped; files that were open fail with ENOTCONN. \
         Root's needs blk=off",
        &[("never", |s| s.restart = false), ("remount", |s| s.restart = true)],
    ),
    switch("shutdown", "for crash tests: permit FS_IOC_SHUTDOWN and `segno ctl DIR shutdown=`", |s| {
        s.fuse.shutdown = true
    }),
];

const STORE: &[Row<Settings>] = &[
    switch(
        "takeover",
        "take the volume from a writer that may be alive; it can acknowledge nothing more",
        |s| s.store.takeover = true,
    ),
    switch(
        "unfenced",
        "accept a store that cannot keep a second writer out; every later mount of the volume warns of it",
        |s| s.store.unfenced = true,
    ),
    switch("insecure", "use plain HTTP to other hosts", |s| s.store.insecure = true),
    value(
        "store_timeout",
        "SECONDS",
        "300",
        "how long a failing request is repeated before the volume stops",
        |s, v| from_one(v).map(|n: u32| s.store.timeout = n),
    ),
    value(
        "cache",
        "/DIR",
        "no local cache",
        "directory of the local cache; may be given together with cache=SIZE",
        |s, v| {
            s.store.cache = Some(v.into());
            Ok(())
        },
    ),
    value(
        "cache_size",
        "SIZE",
        "1G",
        "size of the local cache that cache=/DIR names, from 64M; with writeback half of it may wait for the store",
        |s, v| {
            let bytes = size::parse(v)?;
            if bytes < 64 << 20 {
                return Err("64M is the least".into());
            }
            s.store.cache_bytes = bytes;
            Ok(())
        },
    ),
    switch(
        "writeback",
        "fsync returns when the data is in the local cache: durable on this host only, until it is uploaded; needs cache=/DIR",
        |s| s.store.writeback = true,
    ),
];

const FLAGS: &[Flag] = &[
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

/// All options.
pub fn all() -> impl Iterator<Item = Described> {
    GROUPS.iter().flat_map(Group::options)
}

/// All flags.
pub fn flags() -> impl Iterator<Item = &'static Flag> {
    FLAGS.iter()
}

/// Applies a word, split at its `=`. `None` if it names no option.
pub fn apply(
    settings: &mut Settings,
    engine: &mut Parsed,
    name: &str,
    value: Option<&str>,
) -> Option<Result<(), String>> {
    let own = OWN.iter().chain(STORE).find_map(|row| row.apply(settings, name, value));
    own.or_else(|| engine.apply(name, value))
        .or_else(|| FLAGS.iter().find_map(|flag| flag.apply(&mut settings.fuse.extra, name, value)))
}
