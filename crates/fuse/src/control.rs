//! Control interface of a live mount: extended attributes in the name space `system.segno`. They need no access to the
//! server process, and reading them needs no privilege.
use crate::attr::ino_of;
use crate::server::Server;
use segno_engine::options::FsyncLookup;
use segno_engine::{Error, Extent, ExtentKind, GcMode, Result, Shutdown};
use segno_format::Ino;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// Counters of the mount as JSON, and the slowest requests of the last minute (`slowest`); any inode has them.
pub const STATS_XATTR: &str = "system.segno.stats";
/// Extents of a file, one a line: file block, address, length, kind.
pub const EXTENTS_XATTR: &str = "system.segno.extents";
/// Number of writeback contexts: reads as setting, current number and the limiting factor; root sets `auto` or a number.
pub const CONTEXTS_XATTR: &str = "system.segno.writeback.contexts";
/// How fsync finds dirty nodes: `list`, `global` or `shadow`; set by root.
pub const LOOKUP_XATTR: &str = "system.segno.fsync.lookup";
/// Background cleaning: reads as `off`, `normal` or `urgent` and the number of sections emptied since mount; set by root.
/// `now` empties a few worthwhile sections before it returns.
pub const GC_XATTR: &str = "system.segno.gc";
/// Shuts the volume down for tests, like a power failure. Root sets 0 (write everything first), 1 (write names and
/// attributes first) or 2 (write nothing); reads as `running` or `shut down`.
pub const SHUTDOWN_XATTR: &str = "system.segno.shutdown";
/// A write by any user makes all earlier changes of the volume durable, like sync(2).
pub const SYNC_XATTR: &str = "system.segno.sync";
/// The process that serves the mount: its number and the PID namespace in which it has that number.
pub const SERVER_XATTR: &str = "system.segno.server";
/// Longest value that the kernel accepts.
const VALUE_MAX: usize = 65_536;

/// Value of a `system.segno` attribute; `None` if there is no attribute of this name.
pub(crate) fn get(server: &Server, ino: Ino, name: &[u8]) -> Option<Result<Vec<u8>>> {
    let volume = &server.volume;
    if name == STATS_XATTR.as_bytes() {
        Some(Ok(stats(server).into_bytes()))
    } else if name == EXTENTS_XATTR.as_bytes() {
        Some(volume.extents(ino).and_then(|e| extents(&e)))
    } else if name == CONTEXTS_XATTR.as_bytes() {
        let (setting, number, reason) = volume.contexts();
        Some(Ok(format!("{setting} {number} {reason}").into_bytes()))
    } else if name == LOOKUP_XATTR.as_bytes() {
        Some(Ok(volume.fsync_lookup().name().into()))
    } else if name == GC_XATTR.as_bytes() {
        let emptied = volume.stats().gc_sections.load(Ordering::Relaxed);
        Some(Ok(format!("{} {emptied}", volume.gc_mode().name()).into_bytes()))
    } else if name == SHUTDOWN_XATTR.as_bytes() {
        Some(Ok(if server.is_shut_down() { "shut down" } else { "running" }.into()))
    } else if name == SERVER_XATTR.as_bytes() {
        this_process().map(|process| Ok(process.into_bytes()))
    } else {
        None
    }
}

/// Changes a setting of the mount; `None` if there is no attribute of this name. An invalid value changes nothing.
pub(crate) fn set(server: &Server, uid: u32, name: &[u8], value: &[u8]) -> Option<Result<()>> {
    let volume = &server.volume;
    if name == SYNC_XATTR.as_bytes() {
        return Some(volume.sync());
    }
    let change = match name {
        n if n == CONTEXTS_XATTR.as_bytes() => set_contexts,
        n if n == LOOKUP_XATTR.as_bytes() => set_lookup,
        n if n == GC_XATTR.as_bytes() => set_gc,
        n if n == SHUTDOWN_XATTR.as_bytes() => shut_down,
        _ => return None,
    };
    if !may_change(uid) {
        return Some(Err(Error::NotPermitted("only root and the user of the server may change settings")));
    }
    Some(change(server, std::str::from_utf8(value).unwrap_or_default()))
}

/// Whether a user may change the mount as a whole: root and the user of the server process.
pub(crate) fn may_change(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// The value of [`SERVER_XATTR`]. Without /proc there is none.
fn this_process() -> Option<String> {
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", std::process::id(), namespace.display()))
}

fn shut_down(server: &Server, value: &str) -> Result<()> {
    let how = value.parse().ok().and_then(Shutdown::of_number);
    server.shut_down(how.ok_or(Error::Invalid("choose 0, 1 or 2"))?)
}

fn set_contexts(Server { volume, .. }: &Server, value: &str) -> Result<()> {
    let setting = value.parse().map_err(|_| Error::Invalid("choose auto or a number from 1 to 64"))?;
    volume.set_contexts(setting);
    Ok(())
}

fn set_lookup(Server { volume, .. }: &Server, value: &str) -> Result<()> {
    let lookup = FsyncLookup::of_name(value).ok_or(Error::Invalid("choose list, global or shadow"))?;
    volume.set_fsync_lookup(lookup);
    Ok(())
}

fn set_gc(Server { volume, .. }: &Server, value: &str) -> Result<()> {
    if value == "now" {
        return volume.clean_now().map(|_| ());
    }
    volume.set_gc_mode(GcMode::of_name(value).ok_or(Error::Invalid("choose off, normal, urgent or now"))?);
    Ok(())
}

fn stats(server: &Server) -> String {
    let mut out = String::from("{");
    let counters = server.volume.report().into_iter().map(|(name, value)| (name.to_owned(), value));
    let requests = server.requests().map(|(op, count)| (format!("fuse_{op:?}").to_lowercase(), count));
    // Writing to a string does not fail.
    for (name, value) in
        counters.chain(server.volume.device_counters()).chain(requests).chain(server.times.report())
    {
        let _ = write!(out, "\"{name}\":{value},");
    }
    out += "\"slowest\":[";
    for (i, slow) in server.times.slowest().iter().enumerate() {
        let (comma, op) = (if i == 0 { "" } else { "," }, format!("{:?}", slow.opcode).to_lowercase());
        let (ns, age) = (slow.time.as_nanos(), slow.age().as_millis());
        let _ = write!(
            out,
            "{comma}{{\"op\":\"{op}\",\"ino\":{},\"ns\":{ns},\"age_ms\":{age}}}",
            ino_of(slow.nodeid).0
        );
    }
    out + "]}"
}

fn extents(list: &[Extent]) -> Result<Vec<u8>> {
    let mut out = String::new();
    for e in list {
        let kind = match e.kind {
            ExtentKind::Written => "written",
            ExtentKind::Unwritten => "unwritten",
            ExtentKind::Compressed => "compressed",
            ExtentKind::Inline => "inline",
        };
        let _ = writeln!(out, "{} {} {} {kind}", e.file_block, e.addr, e.len);
    }
    if out.len() > VALUE_MAX { Err(Error::XattrTooBig) } else { Ok(out.into_bytes()) }
}
