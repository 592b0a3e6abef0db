//! Subcommands of `segno-lab`.
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A directory on the file system of the program.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The program in a directory without `segno-lab`: a hard link, as /proc/self/exe names it, that takes no room.
fn link_to(dir: &Path) {
    fs::hard_link(env!("CARGO_BIN_EXE_segno"), dir.join("segno")).unwrap();
}

/// A program that prints its arguments and exits with 7. `install` writes it: a descriptor of this process that is open for
/// writing could be inherited by another test's child, and while one exists, nobody can execute the file.
fn stub(dir: &Path) {
    let script = dir.join("script");
    fs::write(&script, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").unwrap();
    assert!(Command::new("install").args([&script, &dir.join("segno-lab")]).status().unwrap().success());
}

fn segno(dir: &Path, search: &Path, args: &[&str]) -> Output {
    Command::new(dir.join("segno")).args(args).env("PATH", search).output().unwrap()
}

#[test]
fn arguments_and_exit_code_pass_unchanged() {
    let (dir, other, empty) = (directory(), directory(), directory());
    link_to(dir.path());
    link_to(other.path());
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
    let (dir, empty) = (directory(), directory());
    link_to(dir.path());
    let out = segno(dir.path(), empty.path(), &["crashtest", "--quick"]);
    assert_eq!(out.status.code(), Some(1));
    let message = String::from_utf8(out.stderr).unwrap();
    for part in ["segno-lab", dir.path().to_str().unwrap(), "PATH", "cargo build", "crashtest"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}
