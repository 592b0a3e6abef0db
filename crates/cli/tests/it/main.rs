//! The command as a user calls it. Tests that need a mount are in `scripts/smoke`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

mod after_crash;
mod agreement;
mod authority;
mod auto_unmount;
mod build;
mod check_data;
mod confined;
mod confined_server;
mod contents;
mod copy;
mod edit;
mod examples;
mod exclusion;
#[cfg(feature = "vhost")]
mod export;
mod external;
mod external_journal;
mod f2fs_tools;
mod foreign;
mod friction;
mod fsck;
mod fsck_limits;
mod further_devices;
mod guide;
mod hostile_archives;
mod huge;
mod images;
mod journal;
mod journal_size;
mod journal_space;
mod json;
mod kernel_options;
mod links;
mod locations;
mod loop_devices;
mod manual;
mod map;
mod modes;
mod names;
mod preserve;
mod report;
mod restart;
#[cfg(feature = "store")]
mod s3;
mod salvage;
mod security;
mod shell;
#[cfg(feature = "store")]
mod store;
#[cfg(feature = "store")]
mod store_answers;
mod surroundings;
mod swapped;
mod tags;
mod tangled;
mod two_packs;
mod unsupported;
mod usage;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::time::Duration;

/// Runs the command.
fn segno(args: &[impl AsRef<OsStr>]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_segno")).args(args).output().unwrap()
}

/// Waits until a process is prepared for SIGINT.
fn wait_for_handler(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    loop {
        let text = std::fs::read_to_string(&status).unwrap();
        let caught = text.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap();
        if u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says so if not.
fn can_mount() -> bool {
    let can = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    if !can {
        println!("NOT TESTED: /dev/fuse cannot be opened");
    }
    can
}

/// Its standard output, after it succeeded.
#[track_caller]
fn output(args: &[impl AsRef<OsStr>]) -> String {
    let out = segno(args);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn json(args: &[impl AsRef<OsStr>]) -> serde_json::Value {
    serde_json::from_str(&output(args)).unwrap()
}

/// The exit code and the messages on standard error.
fn refusal(args: &[impl AsRef<OsStr>]) -> (i32, String) {
    let out = segno(args);
    (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
}

/// A fresh volume in a directory that goes away with it.
struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let scratch = Self { dir: tempfile::tempdir().unwrap() };
        output(&[
            "mkfs",
            "-q",
            "--size",
            "64M",
            "-l",
            "scratch",
            "-O",
            "extra_attr,inode_crtime",
            &scratch.image(),
        ]);
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn image(&self) -> String {
        self.path("image").to_str().unwrap().to_owned()
    }
}
