//! The options of the engine. A row defines an option completely: parsers, help texts, error messages and
//! manuals come from it.
use super::row::{Row, from_one, pair, pair_or_value, switch, value, words};
use super::{
    AllocMode, CheckpointMode, CompressMode, Discard, FsyncLookup, FsyncMode, Parsed, compress, discard,
};
use segno_clean::policy;
use segno_format::size;

/// Options that F2FS has too.
pub const OF_F2FS: &[Row<Parsed>] = &[
    switch("ro", "mount read-only", |s| s.options.read_only = true),
    switch("norecovery", "show the last checkpoint, without what was fsynced since; needs ro", |s| {
        (s.options.norecovery, s.needs_ro) = (true, true);
    }),
    switch(
        "disable_roll_forward",
        "as norecovery; a writable mount fails if there is anything to recover, as in Linux",
        |s| s.options.norecovery = true,
    ),
    words(
        "fsync_mode",
        "order and flushes of fsync; posix saves a flush, nobarrier issues none",
        &[
            ("strict", |s| s.options.fsync_mode = FsyncMode::Strict),
            ("posix", |s| s.options.fsync_mode = FsyncMode::Posix),
            ("nobarrier", |s| s.options.fsync_mode = FsyncMode::Nobarrier),
        ],
    ),
    switch(
        "fastboot",
        "every fsync of a changed file takes a checkpoint; with a journal it commits everything in any case",
        |s| s.options.fastboot = true,
    ),
    words(
        "mode",
        "whether logs may fill holes of used segments when space is short",
        &[
            ("adaptive", |s| s.options.mode = AllocMode::Adaptive),
            ("lfs", |s| s.options.mode = AllocMode::Lfs),
        ],
    ),
    pair_or_value(
        "discard",
        "now|after:TIME|after:SIZE|never",
        "after:24h, but never in preallocated image files",
        "when freed segments are discarded: at once, after a time mounted (s, min, h, d), or once SIZE more was freed; until then \
         segno undelete finds deleted data",
        |s, on| s.options.discard = if on { Discard::DAY } else { Discard::Never },
        |s, v| discard::parse(v).map(|rule| s.options.discard = rule),
    ),
    words(
        "background_gc",
        "clean sections while the mount is idle",
        &[("on", |s| s.options.background_gc = true), ("off", |s| s.options.background_gc = false)],
    ),
    pair("inline_data", "on", "keep small files in their inodes", |s| &mut s.options.inline_data),
    pair("inline_dentry", "on", "keep small directories in their inodes", |s| &mut s.options.inline_dentry),
    pair("inline_xattr", "on", "keep extended attributes in the inode", |s| &mut s.options.inline_xattr),
    pair("acl", "on", "support POSIX ACLs", |s| &mut s.options.acl),
    pair("user_xattr", "on", "support attributes of the user namespace", |s| &mut s.options.user_xattr),
    switch("disable_ext_identify", "ignore the superblock's lists of hot and cold extensions", |s| {
        s.options.ext_identify = false
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
        s.options.compression.checksum = true
    }),
    words(
        "compress_mode",
        "fs: compressed files are compressed when they are written back; user: when a program requests it",
        &[
            ("fs", |s| s.options.compression.mode = CompressMode::Fs),
            ("user", |s| s.options.compression.mode = CompressMode::User),
        ],
    ),
];

/// Options of Segno only.
pub const OWN: &[Row<Parsed>] = &[
    value(
        "cache",
        "SIZE",
        "256M",
        "limit of all cached data and metadata; a server needs up to 128M more",
        |s, v| {
            s.options.cache_bytes = usize::try_from(size::parse(v)?).map_err(|_| "too large")?;
            Ok(())
        },
    ),
    value("commit", "SECONDS", "5", "interval at which changes become durable without fsync", |s, v| {
        from_one(v).map(|n| s.options.commit_interval = n)
    }),
    value(
        "journal",
        "off|auto|on|FILE",
        "auto",
        "journal metadata after the end of the volume (see `segno mkfs --journal`) or in FILE, whose path has a \
         slash; auto uses a journal that exists, on makes one, off closes it",
        Parsed::journal,
    ),
    pair(
        "guard",
        "on",
        "while the journal is in use, other implementations mount the volume read-only",
        |s| &mut s.options.guard,
    ),
    switch("node_limit", "refuse nodes beyond the number for which `segno info` shows guarded space", |s| {
        s.options.node_limit = true
    }),
];

/// The four systems and the behaviour that they replace, for comparison.
pub const EXPERIMENTS: &[Row<Parsed>] = &[
    words(
        "checkpoint",
        "whether changes wait while a checkpoint is written, as in F2FS; auto: they do not",
        &[
            ("auto", |s| s.options.checkpoint = CheckpointMode::Auto),
            ("blocking", |s| s.options.checkpoint = CheckpointMode::Blocking),
            ("concurrent", |s| s.options.checkpoint = CheckpointMode::Concurrent),
        ],
    ),
    words(
        "fsync_lookup",
        "how fsync finds dirty nodes: in a list by file, or for comparison in one list of all files as the kernel \
         does; shadow uses the list and counts what global would visit",
        &[
            ("list", |s| s.options.fsync_lookup = FsyncLookup::List),
            ("global", |s| s.options.fsync_lookup = FsyncLookup::Global),
            ("shadow", |s| s.options.fsync_lookup = FsyncLookup::Shadow),
        ],
    ),
    value(
        "gc_policy",
        "POLICY",
        policy::DEFAULT,
        "which section is cleaned next, in the foreground and in the background (there benefit by default)",
        |s, v| {
            policy::parse(v)?;
            s.options.gc_policy = Some(v.to_owned());
            Ok(())
        },
    ),
    words(
        "lifetime",
        "separate data that is overwritten soon from the rest, where files have no write hint; it costs no memory \
         for blocks and stops where writes are spread evenly",
        &[("on", |s| s.options.lifetime = true), ("off", |s| s.options.lifetime = false)],
    ),
    value(
        "writeback_contexts",
        "auto|N",
        "auto",
        "number of files that are written back in parallel",
        |s, v| v.parse().map(|n| s.options.contexts = n),
    ),
    value(
        "exclusive_streams",
        "auto|N",
        "auto",
        "number of files that may have separate logs during writeback",
        Parsed::exclusive_streams,
    ),
];

/// The name that replaces an earlier one, which still works.
#[must_use]
pub fn renamed(name: &str) -> Option<&'static str> {
    (name == "guard_space").then_some("node_limit")
}
