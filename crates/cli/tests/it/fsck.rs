//! `segno check` as fsck(8) and its callers use it.
use super::{Scratch, json, output, refusal};
use segno_device::FileDevice;
use segno_engine::options::JournalMode;
use segno_engine::{MountOptions, Owner, Volume};
use segno_journal::Area;
use std::fs::{OpenOptions, copy, read};
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Copies the image of a mounted volume in which a file was made and fsynced since the last checkpoint, and its journal if it
/// has one of this name.
pub fn crashed(scratch: &Scratch, journal: Option<&str>) -> (String, Option<String>) {
    let device = Arc::new(FileDevice::open(scratch.image(), segno_device::OpenOptions::default()).unwrap());
    let path = journal.map(|name| scratch.path(name));
    let area =
        path.as_ref().map(|path| Area::whole(Arc::new(FileDevice::create(path, 8 << 20, false).unwrap())));
    let journal = area.map_or(JournalMode::Off, JournalMode::External);
    let options = MountOptions { background: false, journal, ..MountOptions::default() };
    let volume = Volume::mount(device, options).unwrap();
    let file = volume.mknod(volume.root(), b"fsynced", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    volume.write(file, 0, b"content").unwrap();
    volume.fsync(file).unwrap();
    let copied = |from: PathBuf| {
        let to = format!("{}-crashed", from.display());
        copy(from, &to).unwrap();
        to
    };
    (copied(scratch.image().into()), path.map(copied))
}

/// An image without its first block of the NAT.
pub fn damaged(scratch: &Scratch) -> String {
    let image = scratch.image();
    let nat = json(&["info", "--json", &image])["superblock"]["nat_blkaddr"].as_u64().unwrap();
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&[0; 4096], nat << 12).unwrap();
    image
}

#[test]
fn options_of_fsck() {
    let scratch = Scratch::new();
    let image = scratch.image();
    for options in ["-a", "-p", "-p1", "-pf", "-py", "-f", "-n", "-N", "--dry-run", "-fd3", "-c100", "-aC0"] {
        assert!(output(&["check", options, &image]).ends_with("clean\n"), "{options}");
    }
    assert_eq!(output(&["check", "-q", &image]), "");
    assert!(output(&["check", "-V"]).starts_with("segno"));
    for options in [&["-ny"][..], &["-Z"], &["-n", "-a"], &["-C"]] {
        assert_eq!(refusal(&[&["check"], options, &[&image]].concat()).0, 16, "{options:?}");
    }
    let quick = json(&["check", "--json", "-a", &image]);
    assert_eq!((&quick["errors"], &quick["summary"]["clean_unmount"]), (&0.into(), &true.into()));
}

#[test]
fn names_of_fsck() {
    let scratch = Scratch::new();
    for name in ["fsck.segno", "fsck.f2fs"] {
        let link = scratch.path(name);
        symlink(env!("CARGO_BIN_EXE_segno"), &link).unwrap();
        let run = |args: &[&str]| Command::new(&link).args(args).stdin(Stdio::null()).output().unwrap();
        let out = run(&["-af", &scratch.image()]);
        assert_eq!(out.status.code(), Some(0));
        assert!(String::from_utf8(out.stdout).unwrap().ends_with("clean\n"));
        assert_eq!(run(&[]).status.code(), Some(16));
    }
}

#[test]
fn what_a_crash_left_is_judged_and_written_only_on_request() {
    let scratch = Scratch::new();
    let (image, _) = crashed(&scratch, None);
    let before = read(&image).unwrap();
    for options in ["-n", "-f", "--json"] {
        let said = output(&["check", options, &image]);
        assert!(
            options != "-n" || said.contains("1 files") && said.contains("what a crash left is included"),
            "{said}"
        );
    }
    assert!(before == read(&image).unwrap(), "a check has written");
    assert!(output(&["check", "-a", &image]).ends_with("what a crash left was replayed\n"));
    assert_eq!(json(&["check", "--json", &image])["replay"]["needed"], false);
    assert_eq!(output(&["cat", &image, "/fsynced"]), "content");
}

/// Somebody may remove the image after it.
#[test]
fn a_copy_is_made_of_a_clean_volume_too() {
    let scratch = Scratch::new();
    let (image, copy) = (scratch.image(), scratch.path("copy"));
    let copy = copy.to_str().unwrap();
    let said = output(&["check", "-y", "--to", copy, &image]);
    assert!(said.contains("unchanged: there is nothing to repair"), "{said}");
    assert!(read(copy).unwrap() == read(&image).unwrap());
}

#[test]
fn damage_in_the_tables_is_not_overlooked() {
    let scratch = Scratch::new();
    let image = damaged(&scratch);
    let before = read(&image).unwrap();
    let plan = refusal(&["check", "-n", &image]);
    assert_eq!(plan.0, 4);
    assert!(before == read(&image).unwrap(), "-n has written");
    let (undo, copy) = (scratch.path("undo"), scratch.path("copy"));
    let (undo, copy) = (undo.to_str().unwrap(), copy.to_str().unwrap());
    assert_eq!(refusal(&["check", "--to", copy, &image]).0, 1);
    assert!(before == read(&image).unwrap(), "--to has written to the image");
    assert!(output(&["check", copy]).ends_with("clean\n"));
    // Nothing is lost, so it is repaired at boot.
    assert_eq!(refusal(&["check", "-a", "--undo", undo, &image]).0, 1);
    assert!(output(&["check", &image]).ends_with("clean\n"));
    assert_eq!(output(&["check", "-y", "-q", &image]), "", "the second pass has found something");
    output(&["check", "--undo", undo, &image]);
    assert!(before == read(&image).unwrap(), "not everything was put back");
}
