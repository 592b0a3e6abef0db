//! All mount options. A row is the whole of an option: the parser, `segno mount --help`, error messages, remount and
//! docs/mount-options.md come from it.
use super::row::{MountOption, flag, pair, pair_or_value, switch, value, words};
use super::{compress, discard, exclusive_streams, from_one, journal, umask, user};
use crate::size;
use rustix::mount::MountFlags;
use segno_clean::policy;
use segno_engine::options::{AllocMode, CheckpointMode, CompressMode, Discard, FsyncLookup, FsyncMode};
use segno_fuse::{AtDeath, Choice};
use std::path::{self, PathBuf};

/// Options that belong together in help texts.
pub struct Group {
    pub title: &'static str,
    pub options: &'static [MountOption],
}

pub const GROUPS: [Group; 4] = [
    Group { title: "Options of F2FS", options: OF_F2FS },
    Group { title: "Options of Segno", options: OWN },
    Group { title: "Options for volumes on an object store", options: STORE },
    Group { title: "Flags for the kernel", options: FLAGS },
];

const OF_F2FS: &[MountOption] = &[
    switch("ro", "mount read-only", |s| s.engine.read_only = true),
    switch("norecovery", "show the last checkpoint, without what was fsynced since; needs ro", |s| {
        (s.engine.norecovery, s.needs_ro) = (true, true);
    }),
    switch(
        "disable_roll_forward",
        "as norecovery; a writable mount fails if there is anything to recover, as in Linux",
        |s| s.engine.norecovery = true,
    ),
    words(
        "fsync_mode",
        "order and flushes of fsync; posix saves a flush, nobarrier issues none",
        &[
            ("strict", |s| s.engine.fsync_mode = FsyncMode::Strict),
            ("posix", |s| s.engine.fsync_mode = FsyncMode::Posix),
            ("nobarrier", |s| s.engine.fsync_mode = FsyncMode::Nobarrier),
        ],
    ),
    switch(
        "fastboot",
        "every fsync of a changed file takes a checkpoint; with a journal it commits everything in any case",
        |s| s.engine.fastboot = true,
    ),
    words(
        "mode",
        "whether logs may fill holes of used segments when space is short",
        &[("adaptive", |s| s.engine.mode = AllocMode::Adaptive), ("lfs", |s| s.engine.mode = AllocMode::Lfs)],
    ),
    pair_or_value(
        "discard",
        "now|after:TIME|after:SIZE|never",
        "after:24h, but never in preallocated image files",
        "when freed segments are discarded: at once, after a time mounted (s, min, h, d), or once SIZE more was freed; until then \
         segno undelete finds deleted data",
        |s, on| s.engine.discard = if on { Discard::DAY } else { Discard::Never },
        |s, v| discard::parse(v).map(|rule| s.engine.discard = rule),
    ),
    words(
        "background_gc",
        "clean sections while the mount is idle",
        &[("on", |s| s.engine.background_gc = true), ("off", |s| s.engine.background_gc = false)],
    ),
    pair("inline_data", "on", "keep small files in their inodes", |s| &mut s.engine.inline_data),
    pair("inline_dentry", "on", "keep small directories in their inodes", |s| &mut s.engine.inline_dentry),
    pair("inline_xattr", "on", "keep extended attributes in the inode", |s| &mut s.engine.inline_xattr),
    pair("acl", "on", "support POSIX ACLs", |s| &mut s.engine.acl),
    pair("user_xattr", "on", "support attributes of the user namespace", |s| &mut s.engine.user_xattr),
    switch("disable_ext_identify", "ignore the superblock's lists of hot and cold extensions", |s| {
        s.engine.ext_identify = false
    }),
    value(
        "compress_algorithm",
        "lzo|lzo-rle|lz4[:3..16]|zstd[:1..22]",
        "lz4",
        "algorithm, and level, of new compressed files; without the feature compression on the volume these options do nothing, and the mount prints a note",
        compress::algorithm,
    ),
    value(
        "compress_log_size",
        "2..8",
        "2",
        "blocks of a cluster of new compressed files, as a power of two",
        compress::log_size,
    ),
    value(
        "compress_extension",
        "EXT",
        "no extension",
        "compress new files with this extension, * for all; may be repeated",
        compress::extension,
    ),
    value(
        "nocompress_extension",
        "EXT",
        "no extension",
        "never compress new files with this extension, not even in compressed directories; may be repeated",
        compress::excluded,
    ),
    switch("compress_chksum", "store checksums of compressed data in new files", |s| {
        s.engine.compression.checksum = true
    }),
    words(
        "compress_mode",
        "fs: compressed files are compressed when they are written back; user: when a program requests it",
        &[
            ("fs", |s| s.engine.compression.mode = CompressMode::Fs),
            ("user", |s| s.engine.compression.mode = CompressMode::User),
        ],
    ),
];

const OWN: &[MountOption] = &[
    value(
        "cache",
        "SIZE|/DIR",
        "256M",
        "limit of all cached data and metadata; a server needs up to 128M more. A directory is the local cache of a volume on \
         an object store; both may be given",
        |s, v| {
            if v.starts_with('/') {
                s.store.cache = Some(v.into());
                return Ok(());
            }
            s.engine.cache_bytes = usize::try_from(size::parse(v)?).map_err(|_| "too large")?;
            Ok(())
        },
    ),
    value("commit", "SECONDS", "5", "interval at which changes become durable without fsync", |s, v| {
        from_one(v).map(|n| s.engine.commit_interval = n)
    }),
    value(
        "journal",
        "off|auto|on|FILE",
        "off",
        "journal metadata after the end of the volume (see `segno mkfs --journal`) or in FILE, whose path has a \
         slash; auto uses a journal that exists, on makes one",
        journal,
    ),
    switch("guard", "while the journal is in use, other implementations mount the volume read-only", |s| {
        s.engine.guard = true
    }),
    words(
        "checkpoint",
        "whether changes wait while a checkpoint is written, as in F2FS; auto: they do not",
        &[
            ("auto", |s| s.engine.checkpoint = CheckpointMode::Auto),
            ("blocking", |s| s.engine.checkpoint = CheckpointMode::Blocking),
            ("concurrent", |s| s.engine.checkpoint = CheckpointMode::Concurrent),
        ],
    ),
    words(
        "fsync_lookup",
        "how fsync finds dirty nodes: in a list by file, or for comparison among those of all files as the kernel \
         does; shadow uses the list and counts what global would visit",
        &[
            ("list", |s| s.engine.fsync_lookup = FsyncLookup::List),
            ("global", |s| s.engine.fsync_lookup = FsyncLookup::Global),
            ("shadow", |s| s.engine.fsync_lookup = FsyncLookup::Shadow),
        ],
    ),
    value(
        "gc_policy",
        "POLICY",
        policy::DEFAULT,
        "which section is cleaned next, in the foreground and in the background (there cost_benefit by default)",
        |s, v| {
            policy::parse(v)?;
            s.engine.gc_policy = Some(v.to_owned());
            Ok(())
        },
    ),
    switch(
        "guard_space",
        "refuse nodes beyond the number up to which `segno info` says that space is guarded",
        |s| s.engine.guard_space = true,
    ),
    words(
        "lifetime",
        "separate data that is overwritten soon from the rest, where files have no hint of their own; it costs no memory \
         for blocks and stops by itself where writes are spread evenly",
        &[("on", |s| s.engine.lifetime = true), ("off", |s| s.engine.lifetime = false)],
    ),
    value(
        "writeback_contexts",
        "auto|N",
        "auto",
        "number of files that are written back in parallel",
        |s, v| v.parse().map(|n| s.engine.contexts = n),
    ),
    value(
        "exclusive_streams",
        "auto|N",
        "auto",
        "number of files that may have a log of their own during writeback",
        exclusive_streams,
    ),
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

const STORE: &[MountOption] = &[
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

const FLAGS: &[MountOption] = &[
    flag("dev", "nodev", "nodev; root: dev", MountFlags::NODEV, "whether device nodes are usable"),
    flag("suid", "nosuid", "nosuid; root: suid", MountFlags::NOSUID, "whether set-user-ID bits count"),
    flag("exec", "noexec", "exec", MountFlags::NOEXEC, "whether programs may be executed"),
    flag(
        "sync",
        "async",
        "async",
        MountFlags::SYNCHRONOUS,
        "whether every write, and every change of a directory, is synchronous",
    ),
    flag(
        "dirsync",
        "nodirsync",
        "nodirsync",
        MountFlags::empty(),
        "whether directory changes are synchronous",
    ),
];

/// All options.
pub fn all() -> impl Iterator<Item = &'static MountOption> {
    GROUPS.iter().flat_map(|g| g.options)
}
