//! The restrictions as a confined process meets them. It is a separate process, as they are permanent.
use super::*;
use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use rustix::fs::{
    AtFlags, CWD, Mode, Timespec, Timestamps, UTIME_NOW, XattrFlags, chmodat, chownat, fchmod, futimens,
    lsetxattr, removexattr, setxattr, utimensat,
};
use rustix::process::{Resource, Rlimit, getuid, prlimit, setpriority_process};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };

/// The test that runs in a separate process, and the variable that names its directory.
const INSIDE: (&str, &str) = ("confine::tests::inside", "SEGNO_CONFINED_IN");

fn has_landlock() -> bool {
    let all = AccessFs::from_all(ABI::V3);
    let made = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .and_then(|ruleset| ruleset.create());
    if made.is_err() {
        println!("NOT TESTED: this kernel has no Landlock");
    }
    made.is_ok()
}

#[test]
fn a_confined_process_has_what_was_left_to_it_and_nothing_else() {
    if !has_landlock() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    ["read", "made", "filled", "other"].iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    ["read/file", "made/old", "other/file"].iter().for_each(|name| fs::write(at(name), "content").unwrap());
    assert_eq!(run_inside(INSIDE.0, dir.path()), "");
}

/// Runs a test in a separate process. Returns its output if it fails.
fn run_inside(test: &str, dir: &Path) -> String {
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(INSIDE.1, dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let passed = out.status.success() && said.contains("1 passed");
    if passed { String::new() } else { format!("{said}\n{}", String::from_utf8_lossy(&out.stderr)) }
}

#[test]
#[ignore = "runs in a separate process, which the test before starts"]
fn inside() {
    let dir = PathBuf::from(std::env::var_os(INSIDE.1).unwrap());
    let at = |name: &str| dir.join(name);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Confinement::new(&ConfineOption::default())
        .reads(&at("read"))
        .makes(&at("made/new"))
        .fills(&at("filled"), Preserve::empty())
        .enter();
    let refused = |done: std::io::Result<()>, what: &str| {
        assert_eq!(done.map_err(|e| e.kind()), Err(ErrorKind::PermissionDenied), "{what}");
    };
    assert_eq!(fs::read(at("read/file")).unwrap(), b"content");
    refused(fs::write(at("read/file"), "x"), "a file that is only read");
    refused(fs::read(at("other/file")).map(drop), "a file beside");
    refused(fs::read_dir(at("other")).map(drop), "a directory beside");
    refused(fs::write(at("other/new"), "x"), "a new file beside");
    fs::write(at("made/part"), "new").unwrap();
    fs::rename(at("made/part"), at("made/new")).unwrap();
    refused(fs::create_dir(at("made/dir")), "a directory where a file is made");
    refused(std::os::unix::fs::symlink("x", at("made/link")), "a link where a file is made");
    fs::create_dir(at("filled/dir")).unwrap();
    fs::write(at("filled/dir/file"), "x").unwrap();
    fs::hard_link(at("filled/dir/file"), at("filled/link")).unwrap();
    std::os::unix::fs::symlink("x", at("filled/symlink")).unwrap();
    refused(fs::hard_link(at("filled/dir/file"), at("other/link")), "a name beside");
    fs::set_permissions(at("filled/dir/file"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::read_to_string("/proc/self/mountinfo").unwrap();
    refused(fs::read("/proc/1/environ").map(drop), "another process");
    refused(fs::write("/proc/self/oom_score_adj", "0"), "a setting of the kernel");
    refused(Command::new("/bin/true").spawn().map(drop), "a program");
    refused(UdpSocket::bind("127.0.0.1:0").map(drop), "a socket");
    refused(UnixStream::connect(at("socket")).map(drop), "a service");
    let parent = rustix::process::getppid();
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    refused(prlimit(parent, Resource::Cpu, none).map(drop).map_err(Into::into), "a limit of another process");
    refused(setpriority_process(parent, 19).map_err(Into::into), "the priority of another process");
    let cpus = sched_getaffinity(None).unwrap();
    refused(sched_setaffinity(parent, &cpus).map_err(Into::into), "the processors of another process");
    sched_setaffinity(None, &cpus).unwrap();
    prlimit(None, Resource::Core, none).unwrap();
    refused(
        rustix::mount::unmount(&dir, rustix::mount::UnmountFlags::empty()).map_err(Into::into),
        "unmounting",
    );
    // Open descriptors stay usable.
    assert!(listener.local_addr().is_ok());
    let other = at("other/file");
    std::thread::spawn(move || assert!(fs::read(other).is_err())).join().unwrap();
}

/// A command that fills no tree changes the attributes of open files alone. Landlock does not restrict changes by path.
#[test]
fn attributes_are_changed_through_descriptors_alone() {
    if !has_landlock() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secret"), "content").unwrap();
    let out = run_inside("confine::tests::attributes_inside", dir.path());
    assert_eq!(out, "");
}

#[test]
#[ignore = "runs in a separate process, which the test before starts"]
fn attributes_inside() {
    let path = PathBuf::from(std::env::var_os(INSIDE.1).unwrap()).join("secret");
    let open = File::options().write(true).open(&path).unwrap();
    Confinement::new(&ConfineOption::default()).enter();
    let refused = |done: rustix::io::Result<()>, what: &str| {
        assert_eq!(done, Err(rustix::io::Errno::PERM), "{what}");
    };
    let (mode, now) = (Mode::from_raw_mode(0o4777), Timestamps { last_access: NOW, last_modification: NOW });
    refused(chmodat(CWD, &path, mode, AtFlags::empty()), "mode");
    refused(chownat(CWD, &path, Some(getuid()), None, AtFlags::empty()), "owner");
    refused(chownat(&open, "", Some(getuid()), None, AtFlags::EMPTY_PATH), "owner by an empty path");
    refused(setxattr(&path, "user.a", b"1", XattrFlags::empty()), "extended attribute");
    refused(lsetxattr(&path, "user.a", b"1", XattrFlags::empty()), "extended attribute of a link");
    refused(removexattr(&path, "user.a"), "removal of an extended attribute");
    refused(utimensat(CWD, &path, &now, AtFlags::empty()), "times");
    fchmod(&open, Mode::from_raw_mode(0o600)).unwrap();
    futimens(&open, &now).unwrap();
}

/// Calls that Linux added later, by their numbers, which are the same on all machines.
#[test]
fn newer_calls_with_the_effect_of_a_refused_one_are_refused() {
    let all = calls::refused(calls::PermittedCalls::default()).unwrap();
    for (call, name) in [
        (435, None),
        (452, Some("fchmodat2")),
        (463, Some("setxattrat")),
        (466, Some("removexattrat")),
        (467, Some("open_tree_attr")),
        (469, Some("file_setattr")),
    ] {
        assert_eq!(all.contains(&call), name.is_some(), "{call} {name:?}");
    }
    if std::env::consts::ARCH == "x86_64" {
        for (call, name) in
            [(29, "shmget"), (57, "fork"), (58, "vfork"), (90, "chmod"), (92, "chown"), (132, "utime")]
        {
            assert!(all.contains(&call), "{name}");
        }
    }
}

/// Calls with another number in x32 are refused by both.
#[test]
fn no_call_passes_by_another_table_of_numbers() {
    if std::env::consts::ARCH == "x86_64" {
        assert_eq!(calls::numbers(59), [59, 59 | 1 << 30, 520 | 1 << 30], "execve");
        assert_eq!(calls::numbers(165), [165, 165 | 1 << 30], "mount");
    }
}
