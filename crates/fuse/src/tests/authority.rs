//! Each operation by each caller, on a writable mount and after a remount read-only.
use super::protocol::{ask_as_guest, call};
use super::suid::{USER, as_user, reachable_tests};
use super::{Mount, run, volume};
use crate::block::Backing;
use crate::options::Choice;
use crate::options::{FuseOptions, options};
use crate::origin::Origin;
use crate::server::Server;
use crate::wire::{CreateIn, EntryOut, IoctlIn, Opcode, ROOT, SetXattrIn};
use rustix::fs::{CWD, Mode, OFlags, XattrFlags, openat, setxattr};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use segno_engine::SetAttr;
use segno_format::Ino;
use std::env::{self, current_exe};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use zerocopy::{FromBytes, IntoBytes};

/// Environment variable with the caller that a child is.
const CALLER: &str = "SEGNO_TEST_CALLER";
/// Owner of a file; no caller has this user.
const OWNER: u32 = 7;
const OK: i32 = 0;
const EPERM: i32 = 1;
const EROFS: i32 = 30;
/// Reached the operation, which this volume or mount does not have.
const EOPNOTSUPP: i32 = 95;
const ENOTTY: i32 = 25;
/// Padding of the arguments of ioctls.
const ARGUMENT: usize = 256;

/// Columns of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Caller {
    Root,
    RootWithoutCapabilities,
    /// The user of a server that is not root's.
    ServerUser,
    OtherUser,
}

const CALLERS: [Caller; 4] =
    [Caller::Root, Caller::RootWithoutCapabilities, Caller::ServerUser, Caller::OtherUser];

enum Call {
    /// Attribute and value.
    Set(&'static str, &'static [u8]),
    /// Number and beginning of the argument.
    Ioctl(u32, &'static [u8]),
}
use Call::{Ioctl, Set};

/// An operation on a file, and its results: by each of [`CALLERS`], then by root of a guest; and by each of [`CALLERS`] after
/// a remount read-only.
struct Row(&'static str, Call, [i32; 5], [i32; 4]);

/// On a read-only mount the kernel refuses first.
const KERNEL_REFUSES: [i32; 4] = [EROFS; 4];
const SETTING: [i32; 5] = [EPERM, EPERM, OK, EPERM, EPERM];
const TRUSTED: [i32; 5] = [OK, EPERM, EPERM, EPERM, EPERM];
const VOLUME: [i32; 5] = [OK, EPERM, OK, EPERM, EPERM];
const VOLUME_READ_ONLY: [i32; 4] = [EROFS, EPERM, EROFS, EPERM];
const FOREIGN_READ_ONLY: [i32; 4] = [EROFS, EPERM, EPERM, EPERM];
/// Of a foreign file, on a volume that has no compression and no projects.
const FOREIGN: [i32; 5] = [EOPNOTSUPP, EPERM, EPERM, EPERM, EOPNOTSUPP];
const OWN: [i32; 5] = [EOPNOTSUPP, EPERM, EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP];
const NOBODY: [i32; 5] = [EOPNOTSUPP; 5];

const GETFLAGS: u32 = 0x8008_6601;
const SETFLAGS: u32 = 0x4008_6602;
const FSSETXATTR: u32 = 0x401c_5820;
const ENABLE_VERITY: u32 = 0x4080_6685;
const FITRIM: u32 = 0xc018_5879;
const SHUTDOWN: u32 = 0x8004_587d;
const GETFSLABEL: u32 = 0x8100_9431;
const SETFSLABEL: u32 = 0x4100_9432;
const GET_BLOCKS: u32 = 0x8008_f511;
const RELEASE: u32 = 0x8008_f512;
const RESERVE: u32 = 0x8008_f513;
const SET_OPTION: u32 = 0x4002_f516;
const DECOMPRESS: u32 = 0xf517;
const COMPRESS: u32 = 0xf518;
/// Less than a segment, so that nothing is discarded.
const RANGE: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0];
const NODUMP: &[u8] = &[0x40];
/// Project 5, without flags.
const PROJECT: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5];

const ROWS: &[Row] = &[
    Row(".", Set("trusted.segno.gc", b"off"), TRUSTED, KERNEL_REFUSES),
    Row(".", Set("trusted.segno.writeback.contexts", b"2"), TRUSTED, KERNEL_REFUSES),
    Row(".", Set("trusted.segno.fsync.lookup", b"global"), TRUSTED, KERNEL_REFUSES),
    Row(".", Set("trusted.segno.shutdown", b"2"), [EOPNOTSUPP, EPERM, EPERM, EPERM, EPERM], KERNEL_REFUSES),
    Row(".", Set("system.segno.gc", b"off"), SETTING, KERNEL_REFUSES),
    Row(".", Set("system.segno.writeback.contexts", b"2"), SETTING, KERNEL_REFUSES),
    Row(".", Set("system.segno.fsync.lookup", b"global"), SETTING, KERNEL_REFUSES),
    Row(".", Set("system.segno.shutdown", b"2"), [EPERM, EPERM, EOPNOTSUPP, EPERM, EPERM], KERNEL_REFUSES),
    Row(".", Set("system.segno.sync", b""), [OK; 5], KERNEL_REFUSES),
    Row(".", Set("system.segno.stats", b"{}"), NOBODY, KERNEL_REFUSES),
    Row(".", Set("system.segno.other", b""), NOBODY, KERNEL_REFUSES),
    Row(".", Set("trusted.segno.other", b""), [EOPNOTSUPP, EPERM, EPERM, EPERM, EOPNOTSUPP], KERNEL_REFUSES),
    Row(".", Ioctl(GETFSLABEL, b""), [OK; 5], [OK; 4]),
    Row(".", Ioctl(SETFSLABEL, b"label"), VOLUME, VOLUME_READ_ONLY),
    Row("theirs", Ioctl(SETFSLABEL, b"label"), VOLUME, VOLUME_READ_ONLY),
    Row(".", Ioctl(FITRIM, RANGE), VOLUME, VOLUME_READ_ONLY),
    Row(
        ".",
        Ioctl(SHUTDOWN, b""),
        [EOPNOTSUPP, EPERM, EOPNOTSUPP, EPERM, EPERM],
        [EOPNOTSUPP, EPERM, EOPNOTSUPP, EPERM],
    ),
    Row("theirs", Set("system.advise", &[1]), [OK, EPERM, EPERM, EPERM, OK], KERNEL_REFUSES),
    Row("own", Set("system.advise", &[1]), [OK, EPERM, OK, OK, OK], KERNEL_REFUSES),
    Row("theirs", Ioctl(GET_BLOCKS, b""), NOBODY, [EOPNOTSUPP; 4]),
    Row("theirs", Ioctl(RELEASE, b""), FOREIGN, FOREIGN_READ_ONLY),
    Row("theirs", Ioctl(RESERVE, b""), FOREIGN, FOREIGN_READ_ONLY),
    Row("theirs", Ioctl(SET_OPTION, &[2, 4]), FOREIGN, FOREIGN_READ_ONLY),
    Row("theirs", Ioctl(COMPRESS, b""), FOREIGN, FOREIGN_READ_ONLY),
    Row("theirs", Ioctl(DECOMPRESS, b""), FOREIGN, FOREIGN_READ_ONLY),
    Row("own", Ioctl(RELEASE, b""), OWN, [EROFS, EPERM, EROFS, EROFS]),
    Row("theirs", Ioctl(GETFLAGS, b""), [OK; 5], [OK; 4]),
    Row("theirs", Ioctl(SETFLAGS, NODUMP), [OK, EPERM, EPERM, EPERM, OK], KERNEL_REFUSES),
    Row("own", Ioctl(SETFLAGS, NODUMP), [OK, EPERM, OK, OK, OK], KERNEL_REFUSES),
    Row("theirs", Ioctl(FSSETXATTR, PROJECT), FOREIGN, KERNEL_REFUSES),
    Row("theirs", Ioctl(ENABLE_VERITY, &[1]), [ENOTTY; 5], [ENOTTY; 4]),
];

fn argument(beginning: &[u8]) -> [u8; ARGUMENT] {
    std::array::from_fn(|at| beginning.get(at).copied().unwrap_or(0))
}

/// The error number of an operation by this thread.
fn carry_out(Row(file, call, ..): &Row) -> i32 {
    let done = match call {
        Set(name, value) => setxattr(*file, *name, value, XattrFlags::empty()),
        Ioctl(cmd, beginning) => openat(CWD, *file, OFlags::RDONLY, Mode::empty()).and_then(|file| {
            // SAFETY: the kernel reads and writes up to 256 bytes, as encoded in the number.
            match unsafe { libc::ioctl(file.as_raw_fd(), u64::from(*cmd), argument(beginning).as_mut_ptr()) }
            {
                0 => Ok(()),
                _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap()),
            }
        }),
    };
    done.map_or_else(Errno::raw_os_error, |()| OK)
}

/// The result of each row by a caller.
fn results(mount: &Mount, tests: &Path, caller: Caller) -> Vec<i32> {
    let as_root = matches!(caller, Caller::Root | Caller::RootWithoutCapabilities);
    let program = if as_root { current_exe().unwrap() } else { tests.to_owned() };
    let mut child = Command::new(program);
    child.args(["--exact", "tests::authority::child", "--ignored", "--nocapture"]);
    child.env(CALLER, format!("{caller:?}")).current_dir(mount.path());
    let out = if as_root { run(&mut child).unwrap() } else { as_user(mount, &mut child) };
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}");
    text.lines().filter_map(|line| line.strip_prefix("result ")?.parse().ok()).collect()
}

#[test]
#[ignore = "the child of each_operation_by_each_caller"]
fn child() {
    if env::var(CALLER).unwrap() == format!("{:?}", Caller::RootWithoutCapabilities) {
        let none = CapabilitySet::empty();
        // Of this thread alone: the others of the process keep theirs.
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
            .unwrap();
    }
    println!();
    ROWS.iter().for_each(|row| println!("result {}", carry_out(row)));
}

fn mounted(choice: Choice, caller: Caller) -> Option<Mount> {
    let mut server = Server::new(volume());
    assert_eq!(server.origin, Origin::Host { own: None });
    if caller == Caller::ServerUser {
        server.origin = Origin::Host { own: Some(USER) };
    }
    let options = ["allow_other", "default_permissions"];
    let mount = Mount::served(server, choice, &options, &Backing::Nothing("a test".into()))?;
    let volume = &mount.server.volume;
    for (name, uid) in [("own", USER), ("theirs", OWNER)] {
        fs::write(mount.path().join(name), "content").unwrap();
        let ino = volume.lookup(volume.root(), name.as_bytes()).unwrap().ino;
        let set = SetAttr { uid: Some(uid), mode: Some(0o666), ..SetAttr::default() };
        volume.setattr(ino, &set).unwrap();
        mount.server.notifier.attributes_changed(ino).unwrap();
    }
    Some(mount)
}

fn compare(found: &[i32], expected: impl Fn(&Row) -> i32, who: &str) {
    assert_eq!(found.len(), ROWS.len(), "{who}");
    let wrong: Vec<String> = found
        .iter()
        .zip(ROWS)
        .filter(|(found, row)| **found != expected(row))
        .map(|(found, row)| match &row.1 {
            Set(name, _) => format!("{name} of {}: {found}, not {}", row.0, expected(row)),
            Ioctl(cmd, _) => format!("{cmd:#x} of {}: {found}, not {}", row.0, expected(row)),
        })
        .collect();
    assert!(wrong.is_empty(), "{who}: {wrong:#?}");
}

#[test]
fn each_operation_by_each_caller() {
    if !rustix::process::geteuid().is_root() {
        return println!("NOT TESTED: only root can become other callers");
    }
    let dir = tempfile::tempdir().unwrap();
    let tests = reachable_tests(dir.path());
    for choice in [Choice::Classic, Choice::IoUring] {
        for (column, caller) in CALLERS.into_iter().enumerate() {
            let Some(mount) = mounted(choice, caller) else { continue };
            let found = results(&mount, &tests, caller);
            compare(&found, |row| row.2[column], &format!("{caller:?}, {choice:?}"));
            mount_remount(mount.path(), MountFlags::RDONLY, c"").unwrap();
            let found = results(&mount, &tests, caller);
            compare(&found, |row| row.3[column], &format!("{caller:?}, {choice:?}, read-only"));
            assert!(!mount.server.is_shut_down());
        }
    }
}

#[test]
fn each_operation_by_root_of_a_guest() {
    let server = Server::new(volume()).for_guest();
    let create = |name: &[u8]| {
        let arg = CreateIn { mode: 0o100_666, ..CreateIn::default() };
        let (_, body) = call(&server, Opcode::Create, ROOT, &arg, name);
        let node = EntryOut::read_from_prefix(&body).unwrap().0.nodeid;
        let set = SetAttr { uid: Some(OWNER), ..SetAttr::default() };
        server.volume.setattr(segno_format::Ino(node as u32), &set).unwrap();
        node
    };
    let (own, theirs) = (create(b"own\0"), create(b"theirs\0"));
    let nodes = [(".", ROOT), ("own", own), ("theirs", theirs)];
    let results = ROWS.iter().map(|Row(file, call, ..)| {
        let node = nodes.iter().find(|(name, _)| name == file).unwrap().1;
        -match call {
            Set(name, value) => {
                let arg = SetXattrIn { size: value.len() as u32, ..SetXattrIn::default() };
                let parts = [arg.as_bytes(), name.as_bytes(), b"\0", value];
                ask_as_guest(&server, 0, Opcode::SetXattr, node, &parts)
            }
            Ioctl(cmd, beginning) => {
                let arg = IoctlIn { cmd: *cmd, in_size: ARGUMENT as u32, ..IoctlIn::default() };
                let parts = [arg.as_bytes(), &argument(beginning)];
                ask_as_guest(&server, 0, Opcode::Ioctl, node, &parts)
            }
        }
    });
    let found: Vec<i32> = results.collect();
    compare(&found, |row| row.2[4], "root of a guest");
    let attr = server.volume.getattr(Ino::ROOT).unwrap();
    assert_eq!((attr.uid, server.volume.label().is_empty()), (0, true));
}

/// Without allow_other only root's processes reach the mount, and not all of them have CAP_DAC_OVERRIDE.
#[test]
fn root_without_capabilities_is_checked_on_a_mount_for_root_alone() {
    if !rustix::process::geteuid().is_root() {
        return println!("NOT TESTED: only root can give up capabilities");
    }
    let options = options(&FuseOptions::default());
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let Some(mount) = Mount::new(Choice::Classic, &options) else { return };
    fs::write(mount.path().join("file"), "secret").unwrap();
    chown(mount.path().join("file"), Some(OWNER), Some(OWNER)).unwrap();
    fs::set_permissions(mount.path().join("file"), Permissions::from_mode(0o600)).unwrap();
    let read = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        run(command.args(words).args(["cat", "file"]).current_dir(mount.path())).unwrap().stdout
    };
    assert_eq!(read(&[]), b"secret");
    assert_eq!(read(&["--bounding-set=-all", "--inh-caps=-all"]), b"");
}

/// A caller whose process cannot be seen has no authority, whatever its user.
#[test]
fn a_caller_outside_the_pid_namespace_is_no_administrator() {
    let server = Server::new(volume());
    if server.origin != (Origin::Host { own: None }) {
        return println!("NOT TESTED: the server is not root's");
    }
    for cmd in [SETFSLABEL, FITRIM, SHUTDOWN] {
        let (error, _) = super::protocol::ask_ioctl(&server, 0, cmd, &argument(b""));
        assert_eq!(error, -EPERM, "{cmd:#x}");
    }
}
