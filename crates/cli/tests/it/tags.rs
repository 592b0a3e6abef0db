//! Tags in place of paths, `PARTLABEL=…` and others: every command finds the devices and the journal that they name, before it gives up
//! the right to look. Links as udev makes them stand for partitions; each test needs root, and is left out without.
use super::further_devices::{COMMANDS, Several};
use super::{Scratch, can_mount, output};
use std::fs::{Permissions, create_dir, create_dir_all, metadata, set_permissions, write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

const BIN: &str = env!("CARGO_BIN_EXE_segno");

/// Names that partitions have.
struct Names<'a>(&'a Scratch);

impl<'a> Names<'a> {
    fn of(scratch: &'a Scratch, named: &[(&str, &str)]) -> Self {
        let links = scratch.path("disk/by-partlabel");
        create_dir_all(&links).unwrap();
        named.iter().for_each(|(name, target)| symlink(target, links.join(name)).unwrap());
        Self(scratch)
    }

    /// Runs a script where the names are known. `None` where mounting is not allowed.
    fn run(&self, script: &str, args: &[String]) -> Option<Output> {
        let setup = "mkdir -p /dev/disk 2>/dev/null; mount --bind \"$0\" /dev/disk || exit 99";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("{setup}; {script}")]);
        let out = command.arg(self.0.path("disk")).args(args).output().ok()?;
        (out.status.code() != Some(99) && !out.stderr.starts_with(b"unshare")).then_some(out)
    }

    fn segno(&self, args: &[impl AsRef<str>]) -> Option<(Option<i32>, String)> {
        let args = std::iter::once(BIN).chain(args.iter().map(AsRef::as_ref)).map(str::to_owned);
        let out = self.run("exec \"$@\"", &args.collect::<Vec<_>>())?;
        let said = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        Some((out.status.code(), said))
    }
}

/// The words of a command with options after its name, which may be two words.
fn with(words: &[String], options: &[&str]) -> Vec<String> {
    let at = if ["journal", "store", "sparse"].contains(&words[0].as_str()) { 2 } else { 1 };
    let options: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
    [&words[..at], &options, &words[at..]].concat()
}

#[test]
fn every_command_finds_all_devices_that_tags_name() {
    let several = Several::new();
    let [first, second, third] = several.devices.each_ref().map(String::as_str);
    let names = Names::of(&several.scratch, &[("one", first), ("two", second), ("three", third)]);
    let devices = ["--device", "PARTLABEL=two", "--device", "PARTLABEL=three"];
    let mut runs = 0;
    for (row, _, code) in COMMANDS.iter().filter(|(_, _, code)| code.is_some()) {
        let args = with(&several.words(row, "PARTLABEL=one"), &devices);
        let Some(done) = names.segno(&args) else { return };
        assert_eq!(done.0, *code, "{args:?}: {}", done.1);
        assert!(!done.1.contains("no block device"), "{args:?}: {}", done.1);
        runs += 1;
    }
    assert!(runs > 37, "{runs}");
    for args in [
        &["check", "PARTLABEL=one", "PARTLABEL=two", "PARTLABEL=three"][..],
        &["mkfs", "-qf", "-c", "PARTLABEL=two", "-c", "PARTLABEL=three", "PARTLABEL=one"],
        &["find", "PARTLABEL=one"],
    ] {
        let done = names.segno(args).unwrap();
        assert_eq!(done.0, Some(0), "{args:?}: {}", done.1);
    }
    output(&["check", first, second, third]);
    let missing = names.segno(&["ls", "--device", "PARTLABEL=four", "PARTLABEL=one"]).unwrap();
    assert!(missing.0 == Some(1) && missing.1.contains("no block device has PARTLABEL=four"), "{missing:?}");
}

#[test]
fn every_command_finds_the_journal_that_a_tag_names() {
    let scratch = Scratch::new();
    let (image, journal) = (scratch.image(), scratch.path("journal").to_str().unwrap().to_owned());
    write(&journal, vec![0; 8 << 20]).unwrap();
    let names = Names::of(&scratch, &[("volume", &image), ("journal", &journal)]);
    let (file, out) = (scratch.path("file"), scratch.path("out"));
    write(&file, "content").unwrap();
    let [file, out] = [&file, &out].map(|path| path.to_str().unwrap());
    for row in [
        &["journal", "create", "PARTLABEL=volume"][..],
        &["journal", "info", "PARTLABEL=volume"],
        &["put", "PARTLABEL=volume", file, "/"],
        &["ls", "PARTLABEL=volume"],
        &["get", "PARTLABEL=volume", "/file", &format!("{out}.got")],
        &["shell", "-c", "cat /file", "PARTLABEL=volume"],
        &["check", "-fy", "PARTLABEL=volume"],
        &["rescue", "PARTLABEL=volume", &format!("{out}.rescued")],
        &["rescue", "--to-image", &format!("{out}.rescued.img"), "PARTLABEL=volume"],
        &["undelete", "PARTLABEL=volume"],
        &["extract", "PARTLABEL=volume", &format!("{out}.extracted")],
        &["build", "PARTLABEL=volume", &format!("{out}.built")],
        &["extents", "--image", "PARTLABEL=volume", "/file"],
        &["journal", "replay", "PARTLABEL=volume"],
        &["journal", "discard", "PARTLABEL=volume"],
    ] {
        let words: Vec<String> = row.iter().map(|&word| word.to_owned()).collect();
        let args = with(&words, &["--journal", "PARTLABEL=journal"]);
        let Some(done) = names.segno(&args) else { return };
        assert_eq!(done.0, Some(0), "{args:?}: {}", done.1);
    }
    assert_eq!(std::fs::read(format!("{out}.got")).unwrap(), b"content");
    if can_mount() {
        let dir = scratch.path("mnt");
        create_dir(&dir).unwrap();
        let dir = dir.to_str().unwrap().to_owned();
        let script = "$1 mount -o journal=PARTLABEL=journal PARTLABEL=volume \"$2\" && cat \"$2/file\" && $1 umount PARTLABEL=volume";
        let done = names.run(script, &[BIN.to_owned(), dir]).unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && done.stdout == b"content", "{said}");
        assert_eq!(said, "");
    }
}

/// A tag that was not looked up has no permissions.
#[test]
fn files_with_content_of_a_device_have_its_permissions_by_any_name() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let names = Names::of(&scratch, &[("volume", &image)]);
    set_permissions(&image, Permissions::from_mode(0o640)).unwrap();
    let file = scratch.path("file");
    write(&file, "content").unwrap();
    output(&["put", &image, file.to_str().unwrap(), "/"]);
    for row in [
        &["extract", "--tar", "OUT", "IMAGE"][..],
        &["build", "IMAGE", "OUT"],
        &["check", "--to", "OUT", "IMAGE"],
        &["rescue", "--to-image", "OUT", "IMAGE"],
        &["rescue", "--list", "--scan", "OUT", "IMAGE"],
        &["undelete", "--scan", "OUT", "IMAGE"],
        &["sparse", "pack", "IMAGE", "OUT"],
    ] {
        let made = |name: &str, image: &str| {
            let out = scratch.path(name);
            let place = |word: &&str| match *word {
                "OUT" => out.to_str().unwrap().to_owned(),
                "IMAGE" => image.to_owned(),
                word => word.to_owned(),
            };
            let done = names.segno(&row.iter().map(place).collect::<Vec<_>>())?;
            assert_eq!(done.0, Some(0), "{row:?}: {}", done.1);
            Some(mode(&out))
        };
        let Some(by_path) = made(&format!("{}-{}-path", row[0], row[1]), &image) else { return };
        let by_tag = made(&format!("{}-{}-tag", row[0], row[1]), "PARTLABEL=volume");
        assert_eq!((by_path, by_tag), (0o640, Some(0o640)), "{row:?}");
    }
}

fn mode(path: &Path) -> u32 {
    metadata(path).unwrap().permissions().mode() & 0o777
}
