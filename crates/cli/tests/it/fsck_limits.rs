//! `segno check` where it must not, or cannot, continue: one message, the exit code of fsck(8), no further
//! damage.
use super::fsck::{crashed, damaged};
use super::{Scratch, json, output, refusal, wait_for_handler};
use std::fs::{OpenOptions, copy, read, set_permissions};
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

const NOT_POSSIBLE: i32 = 8;
const CANCELLED: i32 = 32;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_segno"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn refused(args: &[&str], code: i32, word: &str) {
    let (found, said) = refusal(args);
    assert_eq!(found, code, "{args:?}: {said}");
    assert!(said.contains(word) && said.lines().count() == 1, "{args:?}: {said}");
}

#[test]
fn target_that_is_the_source() {
    let scratch = Scratch::new();
    let image = damaged(&scratch);
    let before = read(&image).unwrap();
    refused(&["check", "--to", &image, &image], NOT_POSSIBLE, "exists already");
    refused(&["check", "-y", "--undo", &image, &image], NOT_POSSIBLE, "nothing was repaired");
    assert!(before == read(&image).unwrap());
}

/// The limit of a file's size stands for a full file system.
#[test]
fn target_without_space() {
    let scratch = Scratch::new();
    let image = damaged(&scratch);
    let before = read(&image).unwrap();
    let target = scratch.path("target");
    let target = target.to_str().unwrap();
    let limited = |args: &str| {
        let script = format!("trap '' XFSZ; ulimit -f 8; exec {} {args}", env!("CARGO_BIN_EXE_segno"));
        let out = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(NOT_POSSIBLE), "{said}");
        assert!(said.contains("nothing was repaired") || said.contains(target), "{said}");
        assert!(!scratch.path("target").exists(), "a part of {target} is left");
    };
    limited(&format!("check --to {target} {image}"));
    limited(&format!("check -y --undo {target} {image}"));
    assert!(before == read(&image).unwrap());
}

#[test]
fn missing_permission() {
    let scratch = Scratch::new();
    let image = damaged(&scratch);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // The program may be in a folder that is closed to others.
    let program = scratch.path("segno");
    copy(env!("CARGO_BIN_EXE_segno"), &program).unwrap();
    set_permissions(scratch.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for (mode, args) in [(0o600, &["check"][..]), (0o644, &["check", "-y"]), (0o644, &["check", "-a"])] {
        set_permissions(&image, PermissionsExt::from_mode(mode)).unwrap();
        let out = Command::new(&program).args(args).arg(&image).uid(65534).gid(65534).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(NOT_POSSIBLE), "{args:?}: {said}");
        assert!(said.contains("ermission") && said.contains(&image), "{args:?}: {said}");
    }
}

/// A volume that another process has open, as a mount has.
#[test]
fn volume_in_use() {
    let scratch = Scratch::new();
    let image = damaged(&scratch);
    let before = read(&image).unwrap();
    let file = OpenOptions::new().read(true).open(&image).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    refused(&["check", "-y", &image], NOT_POSSIBLE, "is in use");
    drop(file);
    assert!(before == read(&image).unwrap());
}

/// A process that is prepared for signals and cannot end, as the pipe for its progress is full.
fn hanging(args: &[&str]) -> (Child, (PipeReader, PipeWriter)) {
    let (reader, writer) = pipe().unwrap();
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut full = OpenOptions::new().write(true).custom_flags(nonblocking).open(path).unwrap();
    while full.write(&[0; 4096]).is_ok() {}
    let fd = writer.as_raw_fd().to_string();
    let child = program().args(["check", "-C", &fd]).args(args).spawn().unwrap();
    wait_for_handler(&child);
    (child, (reader, writer))
}

#[test]
fn cancelled_by_a_signal() {
    let scratch = Scratch::new();
    let image = damaged(&scratch);
    let before = read(&image).unwrap();
    let copy = scratch.path("copy");
    for options in [&["-n"][..], &["-y"], &["--to", copy.to_str().unwrap()]] {
        for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
            let (child, pipe) = hanging(&[options, &[image.as_str()]].concat());
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, signal).unwrap();
            let out = child.wait_with_output().unwrap();
            drop(pipe);
            let said = String::from_utf8(out.stderr).unwrap();
            assert_eq!(out.status.code(), Some(CANCELLED), "{options:?}: {said}");
            assert_eq!(said, "segno: cancelled; nothing was changed\n");
        }
    }
    assert!(before == read(&image).unwrap() && !copy.exists());
}

#[test]
fn external_journal() {
    let scratch = Scratch::new();
    let (image, journal) = crashed(&scratch, Some("journal"));
    let journal = journal.unwrap();
    let before = (read(&image).unwrap(), read(&journal).unwrap());
    let without = super::segno(&["check", &image]);
    let said = String::from_utf8(without.stdout).unwrap();
    assert!(without.status.code() == Some(4) && said.contains("--journal"), "{said}");
    let said = output(&["check", "--journal", &journal, &image]);
    assert!(said.contains("1 files") && said.contains("what a crash left is included"), "{said}");
    assert!(!said.replace("not after a clean unmount", "").contains("after a clean unmount"), "{said}");
    assert_eq!(json(&["check", "--json", "--journal", &journal, &image])["replay"]["needed"], true);
    let copy = scratch.path("copy");
    let copy = copy.to_str().unwrap();
    assert!(output(&["check", "--to", copy, "--journal", &journal, &image]).contains("was replayed"));
    assert_eq!(output(&["cat", copy, "/fsynced"]), "content");
    assert!(before == (read(&image).unwrap(), read(&journal).unwrap()), "a check has written");
    assert!(output(&["check", "-a", "--journal", &journal, &image]).ends_with("was replayed\n"));
    assert_eq!(output(&["cat", &image, "/fsynced"]), "content");
    let again = json(&["check", "--json", "--journal", &journal, &image]);
    assert_eq!((&again["replay"]["needed"], &again["errors"]), (&false.into(), &0.into()));
}

#[test]
fn journal_of_another_volume() {
    let (one, other) = (Scratch::new(), Scratch::new());
    let (image, _) = crashed(&one, None);
    let (_, journal) = crashed(&other, Some("journal"));
    let journal = journal.unwrap();
    let before = (read(&image).unwrap(), read(&journal).unwrap());
    for options in ["-n", "-a", "-y"] {
        refused(
            &["check", options, "--journal", &journal, &image],
            NOT_POSSIBLE,
            "it belongs to another volume",
        );
    }
    refused(&["check", "-y", "--journal", &image, &image], NOT_POSSIBLE, "is the volume");
    assert!(before == (read(&image).unwrap(), read(&journal).unwrap()));
}
