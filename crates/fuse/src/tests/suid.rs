//! A program loses set-user-ID and capabilities when an unprivileged user changes it.
use super::{Mount, each_transport, run};
use rustix::fs::{FallocateFlags, OFlags, copy_file_range, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use segno_engine::{Error, Owner, SetAttr, XattrMode};
use segno_format::Ino;
use std::env::{self, current_exe};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

pub(super) const USER: u32 = 65_534;
const OPTIONS: [&str; 3] = ["allow_other", "default_permissions", "suid"];
/// A program that prints its effective user with `-u`.
const ID: &str = "/usr/bin/id";
const PAGE: usize = 4096;
/// Number of bytes after the program that may be zeroed.
const TAIL: u64 = 4 * PAGE as u64;
const CAPABILITY: &[u8] = b"security.capability";
/// Permits and enables CAP_SETUID.
const SETUID: [u8; 20] = [1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Environment variable with the child's task.
const CHANGE: &str = "SEGNO_TEST_CHANGE";
/// Ways to replace the content of a file, and ways that leave its beginning as it is.
const REPLACE: [&str; 5] = ["write", "direct", "truncate", "map", "copy"];
const KEEP: [&str; 3] = ["allocate", "punch", "zero"];

/// Makes a program of root that the user's group may change. Opens no descriptor: one inherited by the child of another
/// test would make the program busy.
fn program(mount: &Mount, name: &str, mode: u16, content: &[u8]) -> Ino {
    let volume = &mount.server.volume;
    let owner = Owner { gid: USER, ..Owner::default() };
    let ino = volume.mknod(volume.root(), name.as_bytes(), 0o100_775, (0, 0), owner).unwrap().ino;
    volume.write(ino, 0, content).unwrap();
    volume.setattr(ino, &SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
    ino
}

pub(super) fn as_user(mount: &Mount, command: &mut Command) -> Output {
    run(command.current_dir(mount.path()).uid(USER).gid(USER)).unwrap()
}

/// The effective user of a program that prints it.
fn runs_as(mount: &Mount, name: &str) -> u32 {
    let out = as_user(mount, Command::new(format!("./{name}")).arg("-u"));
    String::from_utf8(out.stdout).unwrap().trim().parse().unwrap()
}

/// Changes a file as the user, by the named operation.
fn change(mount: &Mount, tests: &Path, how: &str) {
    let mut child = Command::new(tests);
    child.args(["--exact", "tests::suid::child", "--ignored"]).env(CHANGE, how);
    let out = as_user(mount, &mut child);
    assert!(out.status.success(), "{how}: {}", String::from_utf8_lossy(&out.stdout));
}

/// A copy of this test program that the user can access. Another process copies it, so that it is not busy.
pub(super) fn reachable_tests(dir: &Path) -> std::path::PathBuf {
    fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    let copy = dir.join("tests");
    let copied = run(Command::new("cp").arg(current_exe().unwrap()).arg(&copy)).unwrap();
    assert!(copied.status.success());
    copy
}

#[test]
fn a_changed_program_loses_its_privileges() {
    let dir = tempfile::tempdir().unwrap();
    let tests = reachable_tests(dir.path());
    let (id, tail) = (fs::read(ID).unwrap(), vec![0; TAIL as usize]);
    let (id, other) = ([&id[..], &tail].concat(), vec![b' '; id.len() + tail.len()]);
    each_transport(
        |mount| {
            program(mount, "control", 0o6775, &id);
            if runs_as(mount, "control") != 0 {
                return eprintln!("NOT TESTED: set-user-ID has no effect here");
            }
            let replaced = REPLACE.map(|how| (how, &other));
            for (how, content) in replaced.into_iter().chain(KEEP.map(|how| (how, &id))) {
                let ino = program(mount, how, 0o6775, content);
                let volume = &mount.server.volume;
                volume.setxattr(ino, CAPABILITY, &SETUID, XattrMode::Set).unwrap();
                let mode = || fs::metadata(mount.path().join(how)).unwrap().mode() & 0o7777;
                assert_eq!(mode(), 0o6775, "{how}");
                change(mount, &tests, how);
                assert_eq!(runs_as(mount, how), USER, "{how}");
                assert_eq!((volume.getattr(ino).unwrap().mode & 0o7777, mode()), (0o775, 0o775), "{how}");
                assert!(matches!(volume.getxattr(ino, CAPABILITY), Err(Error::NoData)), "{how}");
            }
        },
        &OPTIONS,
    );
}

#[test]
#[ignore = "the child of a_changed_program_loses_its_privileges"]
fn child() {
    let how = env::var(CHANGE).unwrap();
    let flags = if how == "direct" { OFlags::DIRECT } else { OFlags::empty() };
    let mut file = File::options()
        .read(true)
        .write(true)
        .truncate(how == "truncate")
        .custom_flags(flags.bits().cast_signed())
        .open(&how)
        .unwrap();
    let control = File::open("control").unwrap();
    let size = control.metadata().unwrap().size();
    let id = fs::read("control").unwrap();
    let tail = size - TAIL;
    let zero = |mode| fallocate(&file, mode | FallocateFlags::KEEP_SIZE, tail, TAIL).unwrap();
    match &*how {
        "write" | "truncate" => file.write_all(&id).unwrap(),
        "direct" => write_direct(&file, &id),
        "map" => write_mapped(&file, &id),
        "copy" => assert_eq!(copy_file_range(&control, None, &file, None, id.len()).unwrap(), id.len()),
        "allocate" => fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap(),
        "punch" => zero(FallocateFlags::PUNCH_HOLE),
        "zero" => zero(FallocateFlags::ZERO_RANGE),
        _ => panic!("{how}"),
    }
}

/// Writes whole aligned pages; the rest of the last page is zeros.
fn write_direct(file: &File, bytes: &[u8]) {
    let len = bytes.len().next_multiple_of(PAGE);
    let mut memory = vec![0u8; len + PAGE];
    let at = memory.as_ptr().align_offset(PAGE);
    memory[at..at + bytes.len()].copy_from_slice(bytes);
    file.write_all_at(&memory[at..at + len], 0).unwrap();
}

fn write_mapped(file: &File, bytes: &[u8]) {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a file that is at least as long as `bytes` and that no other process truncates.
    unsafe {
        let at = mmap(std::ptr::null_mut(), bytes.len(), prot, MapFlags::SHARED, file, 0).unwrap();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast(), bytes.len());
        munmap(at, bytes.len()).unwrap();
    }
}
