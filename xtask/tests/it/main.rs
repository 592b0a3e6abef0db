//! The tools as they are used: as programs, on a plain directory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap();
    eprintln!("xtask {arguments:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn manifest(dir: &Path) -> String {
    let output = xtask(&["manifest", text(dir)]);
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn populate(dir: &Path, arguments: &[&str]) {
    assert!(xtask(&[&["populate", text(dir)], arguments].concat()).status.success());
}

#[test]
fn a_line_tells_all_there_is_to_a_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a b"), "hello").unwrap();
    fs::hard_link(dir.path().join("a b"), dir.path().join("c")).unwrap();
    symlink("to\nwhere", dir.path().join("d")).unwrap();
    let manifest = manifest(dir.path());
    let lines: Vec<_> = manifest.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[0].starts_with(". type=dir "), "{}", lines[0]);
    assert!(lines[1].starts_with("a\\x20b type=file mode=0644 "), "{}", lines[1]);
    assert!(lines[1].contains(" nlink=2 size=5 mtime="), "{}", lines[1]);
    assert!(lines[2].starts_with("c type=file ") && lines[2].contains(" link=a\\x20b "), "{}", lines[2]);
    assert!(lines[3].ends_with(" target=to\\x0awhere"), "{}", lines[3]);
}

#[test]
fn a_seed_gives_the_same_tree_twice() {
    let (left, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for dir in [&left, &right] {
        populate(dir.path(), &["--seed", "3", "--ops", "150", "--budget", "4"]);
        populate(dir.path(), &["--seed", "4", "--ops", "100", "--budget", "4", "--modify"]);
    }
    let first = manifest(left.path());
    assert!(first.lines().count() > 50);
    assert_eq!(first, manifest(right.path()));
}

#[test]
fn manifest_diff_ends_as_diff_does() {
    let dir = tempfile::tempdir().unwrap();
    let (left, right) = (dir.path().join("left"), dir.path().join("right"));
    fs::write(&left, "a type=file size=1\n").unwrap();
    fs::write(&right, "a type=file size=2\n").unwrap();
    let differ = xtask(&["manifest-diff", text(&left), text(&right)]);
    assert_eq!(differ.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&differ.stdout), "a: size is 2, should be 1\n");
    assert_eq!(xtask(&["manifest-diff", text(&left), text(&left)]).status.code(), Some(0));
}

/// Promised files are found if nothing was lost, and reported missing otherwise.
#[test]
fn promises_are_kept_without_a_cut_and_broken_ones_found() {
    let home = tempfile::tempdir().unwrap();
    let (dir, log, found) = (home.path().join("volume"), home.path().join("log"), home.path().join("found"));
    fs::create_dir(&dir).unwrap();
    populate(&dir, &["--ops", "60", "--budget", "2"]);
    assert!(xtask(&["durable", text(&dir), text(&log), "--count", "25"]).status.success());
    let check = || {
        fs::write(&found, manifest(&dir)).unwrap();
        xtask(&["manifest-diff", "--subset", "--ignore", "link", text(&log), text(&found)]).status.code()
    };
    assert_eq!(check(), Some(0));

    let promises = fs::read_to_string(&log).unwrap();
    let plain = |line: &&str| !line.contains('\\') && line.contains(" mtime=");
    let promised = promises.lines().find(plain).and_then(|line| line.split(' ').next()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(dir.join(promised)).unwrap();
    file.write_all_at(b"broken", 20_000).unwrap();
    assert_eq!(check(), Some(1));
}

/// Needs qemu and, the first time, the network: `cargo test -p xtask -- --ignored`.
#[test]
#[ignore = "boots a virtual machine"]
fn the_kernel_twin_runs_a_script_and_passes_its_status_on() {
    let dir = tempfile::tempdir().unwrap();
    let (script, image) = (dir.path().join("script"), dir.path().join("image"));
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    for (machine, disk) in [("qemu", "/dev/vda"), ("user-mode", "/dev/ubda")] {
        let boot = |lines: &str, more: &[&str]| {
            fs::write(&script, lines).unwrap();
            let words =
                ["kernel-twin", "--machine", machine, "--script", text(&script), "--disk", text(&image)];
            let run = xtask(&[&words, more].concat());
            (run.status.code(), String::from_utf8_lossy(&run.stdout).into_owned())
        };
        let mounts =
            format!("mkfs.f2fs -q -f {disk}; mkdir /mnt/d; mount {disk} /mnt/d && grep -c f2fs /proc/mounts");
        assert_eq!(boot(&format!("{mounts}; exit 7"), &[]), (Some(7), "1\n".into()), "{machine}");
        assert_eq!(boot("echo c > /proc/sysrq-trigger", &[]).0, Some(125), "{machine}");
        assert_eq!(boot("sleep 1000", &["--timeout", "15"]).0, Some(124), "{machine}");
        assert_eq!(boot("echo now; sleep 1000", &["--kill-on", "now"]).0, Some(0), "{machine}");
        assert_eq!(boot("echo not", &["--kill-on", "now"]).0, Some(125), "{machine}");
    }
}
