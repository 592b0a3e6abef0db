//! Machines that lack something: FUSE, the right to mount, the right to read, a terminal of a steady size. Each message has
//! the next step. These tests take rights away, so they need root.
use super::{Scratch, output};
use std::process::{Command, Output};

fn as_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("NOT TESTED: only root can take rights away");
    }
    root
}

fn shell(scratch: &Scratch, words: &str) -> Output {
    Command::new("sh")
        .args(["-c", words])
        .current_dir(scratch.dir.path())
        .env("SEGNO", env!("CARGO_BIN_EXE_segno"))
        .output()
        .unwrap()
}

/// Asserts that a command fails with this code and one line on standard error, which contains the parts.
#[track_caller]
fn fails_with(scratch: &Scratch, words: &str, code: i32, parts: &[&str]) {
    let out = shell(scratch, words);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{words}: {said}");
    assert_eq!(said.lines().count(), 1, "{words}: {said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "{words}: {said}"));
}

#[test]
fn a_mount_without_fuse_says_how_to_get_it() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("mnt")).unwrap();
    if as_root() {
        let words = "unshare -m sh -c 'mount -t tmpfs none /dev && $SEGNO mount image mnt'";
        fails_with(&scratch, words, 1, &["/dev/fuse", "modprobe fuse", "--device /dev/fuse"]);
    }
}

#[test]
fn a_container_that_may_not_mount_is_told_what_it_lacks() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("mnt")).unwrap();
    if as_root() && std::path::Path::new("/dev/fuse").exists() {
        let words = "setpriv --bounding-set=-sys_admin $SEGNO mount image mnt";
        fails_with(&scratch, words, 1, &["cannot mount at", "--cap-add SYS_ADMIN"]);
    }
}

#[test]
fn images_that_may_not_be_read_are_named() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("mnt")).unwrap();
    if !as_root() {
        return;
    }
    output(&["check", "-q", &scratch.image()]);
    let without = "chmod 0 image && setpriv --bounding-set=-dac_override,-dac_read_search $SEGNO";
    fails_with(&scratch, &format!("{without} check image"), 8, &["cannot open image: Permission denied"]);
    fails_with(&scratch, &format!("{without} mount image mnt"), 1, &["image", "Permission denied", "-o ro"]);
}

/// The window is made tiny and then large while `segno top` draws.
#[test]
fn top_follows_the_size_of_its_terminal() {
    let scratch = Scratch::new();
    if std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        println!("NOT TESTED: /dev/fuse cannot be opened");
        return;
    }
    let words = "mkdir mnt && $SEGNO mount image mnt && \
        (sleep 5; printf q) | timeout 60 script -qec 'stty rows 24 cols 80; \
        (sleep 1; stty rows 2 cols 7 </dev/tty; sleep 1; stty rows 60 cols 200 </dev/tty) & $SEGNO top mnt' screen >/dev/null; \
        code=$?; $SEGNO umount mnt; exit $code";
    let out = shell(&scratch, words);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let screen = String::from_utf8_lossy(&std::fs::read(scratch.path("screen")).unwrap()).into_owned();
    // Only a wide screen describes counters.
    assert!(screen.contains("checkpoints") && screen.contains("\x1b[60;"), "{screen}");
}

/// A bind mount, and a mount namespace that was made while the volume was mounted.
#[test]
fn an_unmount_names_the_place_where_the_volume_is_still_mounted() {
    let scratch = Scratch::new();
    if !as_root() || !std::path::Path::new("/dev/fuse").exists() {
        return;
    }
    let bound = "mkdir a b; $SEGNO mount image a; mount --bind a b; $SEGNO umount a";
    fails_with(&scratch, bound, 1, &["image is in use until it is unmounted at ", "/b too"]);
    let out = shell(&scratch, "$SEGNO umount b");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let copied = "$SEGNO mount image a; unshare -m --propagation private sh -c 'echo; exec sleep 60' >made 2>&1 & n=$!; \
        until [ -s made ]; do sleep 0.05; done; $SEGNO umount a; code=$?; kill $n; wait $n 2>/dev/null; exit $code";
    fails_with(&scratch, copied, 1, &["/a in the mount namespace of sleep (", ") too"]);
}
