//! Control interface of a live mount: extended attributes that need no access to the server process. `system.segno.NAME` is
//! read without privilege. A setting is written as `trusted.segno.NAME`, for which the kernel demands CAP_SYS_ADMIN; a
//! server that is not root's takes it from its own user as `system.segno.NAME`, too.
use crate::attr::ino_of;
use crate::authority::Who;
use crate::server::Server;
use crate::wire::InHeader;
use segno_engine::options::FsyncLookup;
use segno_engine::{Error, Extent, GcMode, Result, Shutdown};
use segno_format::Ino;
use segno_format::superblock::uuid_text;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// Counters of the mount as JSON, the slowest requests of the last minute (`slowest`) and the volume's UUID (`volume`); any inode has them.
pub const STATS_XATTR: &str = "system.segno.stats";
/// Extents of a file, one a line: file block, address, length, kind.
pub const EXTENTS_XATTR: &str = "system.segno.extents";
/// Number of writeback contexts: reads as setting, current number and the limiting factor; set to `auto` or a number.
pub const CONTEXTS_XATTR: &str = "system.segno.writeback.contexts";
/// How fsync finds dirty nodes: `list`, `global` or `shadow`; a setting.
pub const LOOKUP_XATTR: &str = "system.segno.fsync.lookup";
/// Background cleaning: reads as `off`, `normal` or `urgent` and the number of sections emptied since mount; a setting.
/// `now` empties a few worthwhile sections before it returns.
pub const GC_XATTR: &str = "system.segno.gc";
/// Shuts the volume down for tests, like a power failure, if the mount permits it. Set to 0 (write everything first), 1
/// (write names and attributes first) or 2 (write nothing); reads as `running` or `shut down`.
pub const SHUTDOWN_XATTR: &str = "system.segno.shutdown";
/// A write by any user makes all earlier changes of the volume durable, like sync(2).
pub const SYNC_XATTR: &str = "system.segno.sync";
/// The process that serves the mount: its number and the PID namespace in which it has that number.
pub const SERVER_XATTR: &str = "system.segno.server";
/// The mount's options in force, as JSON.
pub const OPTIONS_XATTR: &str = "system.segno.options";
/// Longest value that the kernel accepts.
const VALUE_MAX: usize = 65_536;
const SYSTEM: &str = "system.";
const TRUSTED: &str = "trusted.";
/// Beginning of the names of control attributes after the name space.
const CONTROL: &[u8] = b"segno.";

/// A control attribute.
struct Attribute {
    name: &'static str,
    /// `None` if it is only written.
    get: Option<Get>,
    /// `None` if it is only read.
    set: Option<Set>,
}

type Get = fn(&Server, Ino) -> Result<Vec<u8>>;

enum Set {
    /// By any user.
    Anyone(fn(&Server) -> Result<()>),
    /// A setting of the mount, from its value. An invalid one changes nothing.
    Administrator(fn(&Server, &str) -> Result<()>),
}

const fn read_only(name: &'static str, get: Get) -> Attribute {
    Attribute { name, get: Some(get), set: None }
}

const fn setting(name: &'static str, get: Get, set: fn(&Server, &str) -> Result<()>) -> Attribute {
    Attribute { name, get: Some(get), set: Some(Set::Administrator(set)) }
}

const ATTRIBUTES: &[Attribute] = &[
    read_only(STATS_XATTR, |s, _| Ok(stats(s).into_bytes())),
    read_only(EXTENTS_XATTR, |s, ino| s.volume.extents(ino).and_then(|e| extents(&e))),
    read_only(SERVER_XATTR, |_, _| this_process().map(String::into_bytes).ok_or(Error::NoData)),
    read_only(OPTIONS_XATTR, |s, _| Ok(s.in_force.clone().into_bytes())),
    setting(CONTEXTS_XATTR, |s, _| Ok(contexts(s).into_bytes()), set_contexts),
    setting(LOOKUP_XATTR, |s, _| Ok(s.volume.fsync_lookup().name().into()), set_lookup),
    setting(GC_XATTR, |s, _| Ok(gc(s).into_bytes()), set_gc),
    setting(
        SHUTDOWN_XATTR,
        |s, _| Ok(if s.is_shut_down() { "shut down" } else { "running" }.into()),
        shut_down,
    ),
    Attribute { name: SYNC_XATTR, get: None, set: Some(Set::Anyone(|s| s.volume.sync())) },
];

/// The name under which a caller with CAP_SYS_ADMIN sets an attribute. Only to this caller the kernel shows a value
/// under this name.
#[must_use]
pub fn trusted_name(attribute: &str) -> String {
    attribute.replacen(SYSTEM, TRUSTED, 1)
}

/// A name in a request.
struct Name<'a> {
    /// The kernel has checked the caller for CAP_SYS_ADMIN.
    is_trusted: bool,
    rest: &'a [u8],
}

impl<'a> Name<'a> {
    /// `None` if it is no name of a control attribute.
    fn parse(name: &'a [u8]) -> Option<Self> {
        let (space, is_trusted) = [(SYSTEM, false), (TRUSTED, true)]
            .into_iter()
            .find(|(space, _)| name.starts_with(space.as_bytes()))?;
        let rest = name.get(space.len()..)?;
        rest.starts_with(CONTROL).then_some(Self { is_trusted, rest })
    }

    fn attribute(&self) -> Option<&'static Attribute> {
        ATTRIBUTES
            .iter()
            .find(|a| a.name.strip_prefix(SYSTEM).is_some_and(|name| name.as_bytes() == self.rest))
    }
}

/// Value of a control attribute; `None` if there is no attribute of this name.
pub(crate) fn get(server: &Server, ino: Ino, name: &[u8]) -> Option<Result<Vec<u8>>> {
    let get = Name::parse(name)?.attribute()?.get?;
    Some(get(server, ino))
}

/// Writes a control attribute; `None` if the attribute is not a control attribute but stored on the volume.
pub(crate) fn set(server: &Server, head: &InHeader, name: &[u8], value: &[u8]) -> Option<Result<()>> {
    let name = Name::parse(name)?;
    // No attribute is stored under such a name.
    let unknown = Err(Error::NotSupported("there is no control attribute of this name that can be set"));
    let Some(set) = name.attribute().and_then(|a| a.set.as_ref()) else { return Some(unknown) };
    let who = match set {
        Set::Anyone(_) => Who::Anyone,
        Set::Administrator(_) if name.is_trusted => Who::Trusted,
        Set::Administrator(_) => Who::ServerUser,
    };
    Some(server.authorize(head, Ino::ROOT, who).and_then(|()| match set {
        Set::Anyone(run) => run(server),
        Set::Administrator(change) => change(server, std::str::from_utf8(value).unwrap_or_default()),
    }))
}

fn contexts(server: &Server) -> String {
    let (setting, number, reason) = server.volume.contexts();
    format!("{setting} {number} {reason}")
}

fn gc(Server { volume, .. }: &Server) -> String {
    format!("{} {}", volume.gc_mode().name(), volume.stats().gc_sections.load(Ordering::Relaxed))
}

/// The value of [`SERVER_XATTR`]; `None` without /proc.
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
    let mut out = format!("{{\"volume\":\"{}\",", uuid_text(&server.volume.superblock().raw.uuid));
    let counters = server.volume.report().into_iter().map(|(name, value)| (name.to_owned(), value));
    // Writing to a string does not fail.
    for (name, value) in counters.chain(server.volume.device_counters()).chain(server.traffic.report()) {
        let _infallible = write!(out, "\"{name}\":{value},");
    }
    out += "\"slowest\":[";
    for (i, slow) in server.traffic.times.slowest().iter().enumerate() {
        let (comma, op) = (if i == 0 { "" } else { "," }, format!("{:?}", slow.opcode).to_lowercase());
        let (ns, age) = (slow.time.as_nanos(), slow.age().as_millis());
        let _infallible = write!(
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
        let _infallible = writeln!(out, "{} {} {} {}", e.file_block, e.addr, e.len, e.kind.name());
    }
    if out.len() > VALUE_MAX { Err(Error::XattrTooBig) } else { Ok(out.into_bytes()) }
}
