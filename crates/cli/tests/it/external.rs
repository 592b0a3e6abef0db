//! Subcommands of `segno-lab`.
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// An executable copy. A descriptor of this process that is open for writing could be inherited by another test's child: while
/// one exists, nobody can execute the file.
fn install(from: &Path, to: &Path) {
    assert!(Command::new("install").args([from, to]).status().unwrap().success());
}

/// A copy of the program in a directory without `segno-lab`.
fn copy_to(dir: &Path) {
    install(Path::new(env!("CARGO_BIN_EXE_segno")), &dir.join("segno"));
}

/// A program that prints its arguments and exits with 7.
fn stub(dir: &Path) {
    let script = dir.join("script");
    fs::write(&script, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").unwrap();
    install(&script, &dir.join("segno-lab"));
}

fn segno(dir: &Path, search: &Path, args: &[&str]) -> Output {
    Command::new(dir.join("segno")).args(args).env("PATH", search).output().unwrap()
}

#[test]
fn arguments_and_exit_code_pass_unchanged() {
    let (dir, other, empty) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy_to(dir.path());
    copy_to(other.path());
    stub(dir.path());
    let args = ["bench", "--help", "--", "a b", "-x", "--json"];
    for (program, search) in [(dir.path(), empty.path()), (other.path(), dir.path())] {
        let out = segno(program, search, &args);
        assert_eq!(out.status.code(), Some(7));
        assert_eq!(String::from_utf8_lossy(&out.stdout), "<bench><--help><--><a b><-x><--json>");
    }
}

#[test]
fn a_missing_program_is_named_with_the_places_searched() {
    let (dir, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy_to(dir.path());
    let out = segno(dir.path(), empty.path(), &["crashtest", "--quick"]);
    assert_eq!(out.status.code(), Some(1));
    let message = String::from_utf8(out.stderr).unwrap();
    for part in ["segno-lab", dir.path().to_str().unwrap(), "PATH", "cargo build", "crashtest"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}
