//! All mount options: those of the engine and of the server, from their own tables, and those of this
//! program. A row defines an option completely: the parser, `segno mount --help`, error messages, remount and
//! docs/mount-options.md are made from it.
use super::Settings;
use super::described::Described;
use segno_engine::options::row::{Row, from_one, switch, value, words};
use segno_engine::options::{Parsed, table as of_engine};
use segno_format::size;
use segno_fuse::{FLAGS, Flag, FuseOptions, OPTIONS};
use std::path::{self, PathBuf};

/// Options that belong together in help texts.
pub struct Group {
    pub title: &'static str,
    engine: &'static [Row<Parsed>],
    server: &'static [Row<FuseOptions>],
    own: &'static [Row<Settings>],
    flags: &'static [Flag],
}

const NONE: Group = Group { title: "", engine: &[], server: &[], own: &[], flags: &[] };

pub const GROUPS: [Group; 5] = [
    Group { title: "Options of F2FS", engine: of_engine::OF_F2FS, ..NONE },
    Group { title: "Options of Segno", engine: of_engine::OWN, server: OPTIONS, own: OWN, ..NONE },
    Group { title: "Options for volumes on an object store", own: STORE, ..NONE },
    Group { title: "Flags for the kernel", flags: FLAGS, ..NONE },
    Group { title: "For experiments", engine: of_engine::EXPERIMENTS, ..NONE },
];

impl Group {
    pub fn options(&self) -> impl Iterator<Item = Described> + use<> {
        let engine = self.engine.iter().map(describe);
        let server = self.server.iter().map(describe);
        engine.chain(server).chain(self.own.iter().map(describe)).chain(self.flags.iter().map(describe_flag))
    }
}

fn describe<S>(row: &Row<S>) -> Described {
    let (syntax, opposite) = (row.syntax(), row.opposite());
    Described { name: row.name, default: row.default, help: row.help, syntax, opposite }
}

fn describe_flag(flag: &Flag) -> Described {
    let syntax = format!("{}, {}", flag.name, flag.opposite);
    let opposite = Some(flag.opposite.to_owned());
    Described { name: flag.name, default: flag.default, help: flag.help, syntax, opposite }
}

const OWN: &[Row<Settings>] = &[
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
        "restart",
        "remount: mount again if the server is killed, read-only if the volume stopped; files that were open fail with ENOTCONN. \
         Root's needs blk=off",
        &[("never", |s| s.restart = false), ("remount", |s| s.restart = true)],
    ),
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
    value("store_cache", "/DIR", "no local cache", "directory of the local cache", |s, v| {
        if !v.starts_with('/') {
            return Err("the path of a directory is needed, from / on".into());
        }
        s.store.cache = Some(v.into());
        Ok(())
    }),
    value(
        "store_cache_size",
        "SIZE",
        "1G",
        "size of the local cache, from 64M; with store_writeback half of it may wait for the store",
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
        "store_writeback",
        "fsync returns when the data is in the local cache: durable on this host only, until it is uploaded; needs store_cache",
        |s| s.store.writeback = true,
    ),
];

/// The name that replaces an earlier one, which still works. `cache=SIZE` keeps its name.
pub fn renamed(name: &str, value: Option<&str>) -> Option<&'static str> {
    match name {
        "cache" if value.is_some_and(|v| v.starts_with('/')) => Some("store_cache"),
        "cache_size" => Some("store_cache_size"),
        "writeback" => Some("store_writeback"),
        _ => of_engine::renamed(name),
    }
}

/// All options.
pub fn all() -> impl Iterator<Item = Described> {
    GROUPS.iter().flat_map(Group::options)
}

/// Applies a word, split at its `=`. `None` if it names no option.
pub fn apply(
    settings: &mut Settings,
    engine: &mut Parsed,
    name: &str,
    value: Option<&str>,
) -> Option<Result<(), String>> {
    let own = OWN.iter().chain(STORE).find_map(|row| row.apply(settings, name, value));
    own.or_else(|| engine.apply(name, value)).or_else(|| settings.fuse.apply(name, value))
}
