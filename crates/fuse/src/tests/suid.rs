//! A program that an unprivileged user changed does not run with the rights of its owner.
use super::{Mount, each_transport};
use segno_engine::{Owner, SetAttr};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

const USER: u32 = 65_534;
const OPTIONS: [&str; 3] = ["allow_other", "default_permissions", "suid"];
/// Prints its effective user with `-u`.
const ID: &str = "/usr/bin/id";

/// Makes a program of root's with set-user-ID that the user's group may change. No descriptor is involved: one that
/// another test's child inherits would make the program busy.
fn suid_program(mount: &Mount, name: &str, content: &[u8]) {
    let volume = &mount.server.volume;
    let owner = Owner { gid: USER, ..Owner::default() };
    let ino = volume.mknod(volume.root(), name.as_bytes(), 0o100_775, (0, 0), owner).unwrap().ino;
    volume.write(ino, 0, content).unwrap();
    volume.setattr(ino, &SetAttr { mode: Some(0o4775), ..SetAttr::default() }).unwrap();
}

/// Runs a shell script in the mount as the user.
fn as_user(mount: &Mount, script: &str) -> Output {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script]).current_dir(mount.path()).uid(USER).gid(USER).output().unwrap()
}

/// The effective user of a program that prints it.
fn runs_as(mount: &Mount, name: &str) -> u32 {
    let out = as_user(mount, &format!("./{name} -u"));
    String::from_utf8(out.stdout).unwrap().trim().parse().unwrap()
}

/// Lets the user change a program with a script and run it afterwards.
fn changed_by(script: &str) {
    each_transport(
        |mount| {
            let id = fs::read(ID).unwrap();
            suid_program(mount, "control", &id);
            if runs_as(mount, "control") != 0 {
                return eprintln!("NOT TESTED: set-user-ID has no effect here");
            }
            suid_program(mount, "program", b"something else");
            assert_eq!(fs::metadata(mount.path().join("program")).unwrap().mode() & 0o7777, 0o4775);
            let out = as_user(mount, script);
            assert!(out.status.success(), "{out:?}");
            assert_eq!(runs_as(mount, "program"), USER);
        },
        &OPTIONS,
    );
}

#[test]
fn write() {
    changed_by(&format!("cat {ID} 1<>program"));
}
