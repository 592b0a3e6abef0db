//! The journal of an image: made, described, replayed, discarded.
use super::locations::sfdisk;
use super::{json, output, refusal};
use segno_device::{BlockDevice, FileDevice, OpenOptions};
use segno_engine::options::JournalMode;
use segno_engine::{JournalArea, MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_testkit::f2fs_tools;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

struct Journaled {
    dir: tempfile::TempDir,
}

impl Journaled {
    /// A volume of 64 MiB with a journal of 8 MiB after its end.
    fn new() -> Self {
        let out = Self { dir: tempfile::tempdir().unwrap() };
        output(&["mkfs", "-q", "--size", "64M", "--journal", "8M", &out.image()]);
        out
    }
    fn image(&self) -> String {
        self.dir.path().join("image").to_str().unwrap().to_owned()
    }
    fn side(&self) -> String {
        self.dir.path().join("side").to_str().unwrap().to_owned()
    }
    /// Commits files, and stops without an unmount.
    fn crash(&self, mode: JournalMode, names: &[&str]) {
        self.crash_with(MountOptions { journal: mode, ..MountOptions::default() }, names);
    }
    fn crash_with(&self, opts: MountOptions, names: &[&str]) {
        let dev: Arc<dyn BlockDevice> = open(self.image().as_ref());
        let opts = MountOptions { background: false, ..opts };
        let v = Volume::mount(dev, opts).unwrap();
        for name in names {
            let ino = v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap().ino;
            v.write(ino, 0, name.as_bytes()).unwrap();
            v.sync().unwrap();
        }
    }
    fn crash_beside(&self, names: &[&str]) {
        std::fs::File::create(self.side()).unwrap().set_len(8 * MIB).unwrap();
        self.crash(JournalMode::External(JournalArea::whole(open(self.side().as_ref()))), names);
    }
    fn info(&self) -> serde_json::Value {
        json(&["journal", "info", "--json", &self.image()])
    }
    fn names(&self) -> String {
        output(&["ls", &self.image()])
    }
}

fn open(path: &Path) -> Arc<FileDevice> {
    Arc::new(FileDevice::open(path, OpenOptions::default()).unwrap())
}

/// The journal has the only copy of the names.
#[test]
fn rescue_replays_it_in_memory() {
    let v = Journaled::new();
    v.crash(JournalMode::Auto, &["one", "two"]);
    let (before, target) = (std::fs::read(v.image()).unwrap(), v.dir.path().join("rescued"));
    let out = super::segno(&["rescue", &v.image(), target.to_str().unwrap()]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        out.status.success() && said.starts_with("segno: note: the journal was replayed in memory\n"),
        "{said}"
    );
    for name in ["one", "two"] {
        assert_eq!(std::fs::read_to_string(target.join(name)).unwrap(), name);
    }
    assert!(std::fs::read(v.image()).unwrap() == before, "the source was written");
}

#[test]
fn mkfs_makes_one_that_is_clean() {
    let j = Journaled::new();
    let info = j.info();
    assert_eq!((&info["state"], &info["place"]), (&"usable".into(), &"gap".into()));
    assert_eq!((info["start"].as_u64(), info["bytes"].as_u64()), (Some(64 * MIB), Some(8 * MIB)));
    assert_eq!(info["journal"]["clean"], true);
    assert_eq!(info["to_replay"]["groups"], 0);
    assert!(output(&["journal", "info", &j.image()]).contains("state         clean\n"));
    assert_eq!(output(&["journal", "replay", &j.image()]), "nothing to replay\n");
    assert!(output(&["check", &j.image()]).ends_with("clean\n"));
    let (code, said) = refusal(&["mkfs", "-f", "--journal", "4K", &j.image()]);
    assert!(code == 1 && said.contains("too small: give it 40.0 KiB at least"), "{code} {said}");
    // Each is refused before the old volume is touched.
    for more in [["--sparse", "--size=64M"].as_slice(), &["100000"], &["-m"], &["-O", "ro"]] {
        let (code, said) = refusal(&[&["mkfs", "-f", "--journal", "8M", &j.image()], more].concat());
        assert!(code == 2 && said.contains("--journal SIZE is not for"), "{code} {said}");
    }
    for (size, why) in [("0", "too small"), ("20000", "too small"), ("5G", "a journal has up to 4 GiB")] {
        let (code, said) = refusal(&["mkfs", "-f", "--size", "64M", "--journal", size, &j.image()]);
        assert!(code == 1 && said.contains(why), "{size}: {code} {said}");
    }
    assert_eq!(j.info()["state"], "usable", "a refused format changes nothing");
}

/// An implementation that does not heed the mark, here one that has the volume without its journal, writes a checkpoint.
#[test]
fn a_check_and_the_next_mount_say_how_much_another_implementation_lost() {
    let v = Journaled::new();
    v.crash_with(MountOptions { guard: false, ..MountOptions::default() }, &["one", "two"]);
    let held = v.info()["to_replay"].clone();
    let mut all = std::fs::read(v.image()).unwrap();
    let short = v.dir.path().join("short");
    std::fs::write(&short, &all[..64 << 20]).unwrap();
    output(&["put", short.to_str().unwrap(), "Cargo.toml"]);
    all[..64 << 20].copy_from_slice(&std::fs::read(&short).unwrap());
    std::fs::write(v.image(), &all).unwrap();
    let lost = format!(
        "{} committed changes of {} inodes, which only it had, are lost",
        held["records"], held["inodes"]
    );
    for words in [&["check"][..], &["check", "-a"], &["check", "-n"]] {
        let out = super::segno(&[words, &[&v.image()]].concat());
        let said = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.code() == Some(4) && said.contains(&lost), "{words:?}: {said}");
        assert!(said.ends_with("1 error(s), 0 warning(s)\n"), "{words:?}: {said}");
    }
    let out = super::segno(&["check", "--json", &v.image()]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(report["replay"]["journal_lost"].as_str().is_some_and(|why| why.contains(&lost)), "{report}");
    let out = super::segno(&["put", &v.image(), "build.rs", "src"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains(&lost), "{said}");
    assert!(output(&["check", &v.image()]).ends_with("clean\n"));
}

/// Only the journal of this volume is discarded.
#[test]
fn discard_erases_no_journal_of_another_volume_and_no_other_data() {
    let (v, other) = (Journaled::new(), super::Scratch::new());
    v.crash_beside(&["one"]);
    let (journal, side, image) = (std::fs::read(v.side()).unwrap(), v.side(), other.image());
    for force in [&[][..], &["--force"]] {
        let words = [&["journal", "discard", "--journal", &side][..], force, &[&image]].concat();
        let (code, said) = refusal(&words);
        assert!(code == 1 && said.contains("is of another volume"), "{code} {said}");
    }
    let (_, said) = refusal(&["journal", "replay", "--journal", &side, &other.image()]);
    assert!(said.contains("another volume") && !said.contains("discard"), "{said}");
    assert!(std::fs::read(&side).unwrap() == journal, "the journal of another volume was written");
    assert_eq!(output(&["cat", "--journal", &side, &v.image(), "one"]), "one");
    // A file that is no journal, named for a guarded volume.
    let guarded = Journaled::new();
    guarded.crash(JournalMode::Auto, &["two"]);
    let foreign = guarded.dir.path().join("foreign");
    std::fs::write(&foreign, vec![b'x'; 9 << 20]).unwrap();
    let foreign = foreign.to_str().unwrap();
    let (code, said) = refusal(&["journal", "discard", "--force", "--journal", foreign, &guarded.image()]);
    assert!(code == 1 && said.contains("the journal behind the volume has changes"), "{code} {said}");
    let (code, said) = refusal(&["journal", "discard", "--force", "--journal", foreign, &image]);
    assert!(code == 1 && said.contains("other data"), "{code} {said}");
    assert!(std::fs::read(foreign).unwrap().iter().all(|&b| b == b'x'));
    // With an empty external journal, too: the journal after the end of the volume still has changes.
    std::fs::File::create(guarded.side()).unwrap().set_len(8 * MIB).unwrap();
    let words = ["journal", "discard", "--force", "--journal", &guarded.side(), &guarded.image()];
    let (code, said) = refusal(&words);
    assert!(code == 1 && said.contains("the journal behind the volume has changes"), "{code} {said}");
    assert_eq!(guarded.info()["guarded"], true);
    let (code, said) = refusal(&["put", "--journal", &guarded.side(), &guarded.image(), "Cargo.toml"]);
    assert!(code != 0 && said.contains("the journal behind the volume has changes"), "{code} {said}");
    assert_eq!(output(&["cat", &guarded.image(), "two"]), "two");
    // The space after the end of the volume is now too small for a journal.
    std::fs::File::options().write(true).open(guarded.image()).unwrap().set_len(64 * MIB + 8192).unwrap();
    let said = output(&["journal", "discard", "--force", &guarded.image()]);
    assert!(said.contains("no longer marked for a journal"), "{said}");
    output(&["put", &guarded.image(), "Cargo.toml"]);
}

/// A part of a block at the end of a file is not the volume's, and not the journal's.
#[test]
fn the_last_part_of_a_block_of_a_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image").to_str().unwrap().to_owned();
    let tail = |image: &str| std::fs::read(image).unwrap().split_off(300 << 20);
    std::fs::File::create(&image).unwrap().set_len(300 * MIB).unwrap();
    let mut file = std::fs::File::options().append(true).open(&image).unwrap();
    std::io::Write::write_all(&mut file, b"DATA").unwrap();
    let said = output(&["mkfs", &image]);
    assert!(
        said.ends_with("no journal: what is in the last part of a block of the file is not the volume's\n"),
        "{said}"
    );
    assert_eq!(tail(&image), b"DATA");
    output(&["mkfs", "-f", "--journal", "16M", &image]);
    assert_eq!(tail(&image), b"DATA");
}

#[test]
fn a_file_that_would_be_larger_than_its_limit_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let limited = format!(
        "ulimit -f 1000; {} mkfs --size 64M {}/image",
        env!("CARGO_BIN_EXE_segno"),
        dir.path().display()
    );
    let out = std::process::Command::new("bash").args(["-c", &limited]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(1) && said.contains("File too large"), "{:?} {said}", out.status);
}

/// Sizes of volumes, and of the journal that each gets by default.
const BY_ITSELF: [(u64, Option<u64>); 8] = [
    (128, None),
    (255, None),
    (256, Some(16)),
    (512, Some(16)),
    (1 << 10, Some(16)),
    (4 << 10, Some(64)),
    (64 << 10, Some(256)),
    (1 << 20, Some(256)),
];

/// The volume equals the one that mkfs.f2fs makes with this size. The image file has the journal after it, as
/// a hole.
#[test]
fn volumes_from_256_mib_on_get_a_journal_behind_what_mkfs_f2fs_makes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (mib, journal) in BY_ITSELF {
        let (bytes, ours, theirs) = (mib * MIB, path("ours"), path("theirs"));
        let occupied = |image: &str| std::fs::metadata(image).unwrap().blocks() * 512;
        std::fs::File::create(&theirs).unwrap().set_len(bytes).unwrap();
        f2fs_tools::succeed("mkfs.f2fs", &["-q", &theirs]);
        let without =
            json(&["mkfs", "--json", "-f", "--size", &format!("{mib}M"), "--journal", "none", &ours]);
        let least = occupied(&ours);
        // A new file, one that has the size, and one that was formatted before.
        for words in [["--size", &format!("{mib}M")].as_slice(), &["-t0"], &["-t0"]] {
            if words == ["-t0"] && journal.is_none() {
                continue;
            }
            let made = json(&[&["mkfs", "--json", "-f"], words, &[&ours]].concat());
            assert_eq!(made["journal_bytes"].as_u64(), journal.map(|j| j * MIB), "{mib} {words:?}");
            assert_eq!(made["no_journal"].is_null(), journal.is_some(), "{mib} {words:?}: {made}");
            assert_eq!(made["usable_bytes"], without["usable_bytes"], "{mib} {words:?}");
            let length = std::fs::metadata(&ours).unwrap().len();
            assert_eq!(length, (bytes + journal.unwrap_or(0) * MIB), "{mib} {words:?}");
            assert!(occupied(&ours) <= least + 64 * 1024, "{mib}: {} and {least} bytes", occupied(&ours));
            let superblocks =
                [&ours, &theirs].map(|image| json(&["info", "--json", image])["superblock"].take());
            for field in ["block_count", "segment_count", "segment_count_main", "main_blkaddr"] {
                assert!(superblocks[0][field].is_u64(), "{field}");
                assert_eq!(superblocks[0][field], superblocks[1][field], "{mib} {words:?}: {field}");
            }
        }
        f2fs_tools::assert_clean(&format!("{mib} MiB"), ours.as_ref());
    }
}

#[test]
fn mkfs_says_why_there_is_no_journal() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image").to_str().unwrap().to_owned();
    for (words, why) in [
        (&["--journal", "none"][..], "as asked for"),
        (&["--sparse"], "a sparse image is for other systems"),
        (&["-O", "ro"], "the volume is never written"),
    ] {
        let said = output(&[&["mkfs", "-f", "--size", "512M"], words, &[&image]].concat());
        assert!(said.ends_with(&format!("\nno journal: {why}\n")), "{words:?}: {said}");
    }
    let said = output(&["mkfs", "-f", &image, "600000"]);
    assert!(said.ends_with("\nno journal: what is behind these sectors is not the volume's\n"), "{said}");
    // By the name of f2fs-tools all is as theirs makes it.
    let links = dir.path().join("links");
    std::fs::create_dir(&links).unwrap();
    output(&["install-helper", links.to_str().unwrap()]);
    std::fs::File::create(&image).unwrap().set_len(512 * MIB).unwrap();
    let made = std::process::Command::new(links.join("mkfs.f2fs")).args(["-q", &image]).status().unwrap();
    assert!(made.success());
    assert_eq!(std::fs::metadata(&image).unwrap().len(), 512 * MIB);
    let (code, said) = refusal(&["journal", "info", &image]);
    assert!(code == 1 && said.contains("no gap for a journal"), "{code} {said}");
}

/// Behind the share of the first device, which mkfs.f2fs would make as large, or within a first device that keeps its size.
#[test]
fn the_journal_of_several_devices_is_on_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let [first, second, theirs, disk] = ["first", "second", "theirs", "disk"].map(path);
    let make = |path: &str, mib: u64| std::fs::File::create(path).unwrap().set_len(mib * MIB).unwrap();
    [&first, &second, &theirs].into_iter().for_each(|path| make(path, 160));
    f2fs_tools::succeed("mkfs.f2fs", &["-q", "-c", &second, &theirs]);
    let expected = json(&["info", "--json", "--device", &second, &theirs])["superblock"].take();
    sfdisk(disk.as_ref(), 200 * MIB, "label: gpt\nstart=2048\n");
    let part = format!("{disk}#1");
    for (image, words, journal, length) in [
        (&first, &[][..], 16, 176),
        (&first, &[], 16, 176),
        (&first, &["--journal", "32M"], 32, 192),
        (&part, &[], 16, 200),
    ] {
        let made = json(&[&["mkfs", "--json", "-f", "-t0", "-c", &second], words, &[image]].concat());
        let bytes = made["journal_bytes"].as_u64().unwrap();
        assert!((journal * MIB..(journal + 2) * MIB).contains(&bytes), "{image} {words:?}: {made}");
        let file = image.trim_end_matches("#1");
        assert_eq!(std::fs::metadata(file).unwrap().len(), length * MIB, "{image} {words:?}");
        let found = json(&["info", "--json", "--device", &second, image])["superblock"].take();
        for field in ["block_count", "segment_count", "segment_count_main", "main_blkaddr"] {
            assert!(image != &first || found[field] == expected[field], "{words:?}: {field}: {found}");
        }
        output(&["put", "-f", "--device", &second, image, "Cargo.toml", "/"]);
        let info = json(&["journal", "info", "--json", "--device", &second, image]);
        assert_eq!((&info["state"], &info["journal"]["clean"]), (&"usable".into(), &true.into()), "{info}");
        assert!(info["journal"]["mounts"].as_u64() > Some(1), "it was in use: {info}");
        assert!(output(&["check", "--device", &second, image]).ends_with("clean\n"));
    }
    f2fs_tools::succeed("fsck.f2fs", &[&first]);
    for path in [&first, &second] {
        std::fs::remove_file(path).unwrap();
        make(path, 100);
    }
    let said = output(&["mkfs", "-f", "-c", &second, &first]);
    assert!(said.ends_with("\nno journal: the volume is smaller than 256 MiB\n"), "{said}");
}

/// A partition keeps its size: the volume becomes smaller. Where only the caller knows the end of a part, later callers may not name it.
#[test]
fn the_journal_of_a_partition_is_inside_it() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    sfdisk(&disk, 700 * MIB, "label: gpt\nstart=2048, size=655360\nstart=657408\n");
    let disk = disk.to_str().unwrap();
    let part = format!("{disk}#1");
    let made = json(&["mkfs", "--json", &part]);
    assert_eq!(
        (made["journal_bytes"].as_u64(), &made["no_journal"]),
        (Some(16 * MIB), &serde_json::Value::Null)
    );
    assert_eq!(std::fs::metadata(disk).unwrap().len(), 700 * MIB);
    assert_eq!(json(&["info", "--json", &part])["superblock"]["block_count"], (320 - 16) * MIB / 4096);
    output(&["put", &part, "Cargo.toml"]);
    let info = json(&["journal", "info", "--json", &part]);
    assert_eq!((&info["state"], &info["journal"]["clean"]), (&"usable".into(), &true.into()));
    assert!(info["journal"]["mounts"].as_u64() > Some(1), "it was in use: {info}");
    std::fs::File::create(disk).unwrap().set_len(700 * MIB).unwrap();
    let said = output(&["mkfs", "--offset", "64M", "--length", "320M", disk]);
    assert!(said.ends_with("\nno journal: only --length says where its part of the image ends\n"), "{said}");
}

#[test]
fn a_volume_without_room_for_one_says_so() {
    let scratch = super::Scratch::new();
    let (code, said) = refusal(&["journal", "info", &scratch.image()]);
    assert!(code == 1 && said.contains("no gap for a journal"), "{code} {said}");
}

#[test]
fn what_a_crash_left_is_shown_and_replayed() {
    let j = Journaled::new();
    j.crash(JournalMode::Auto, &["a", "b", "c"]);
    assert_eq!(j.names(), "a\nb\nc\n", "replayed in memory");
    let info = j.info();
    assert_eq!(info["state"], "usable");
    assert_eq!(info["to_replay"]["epochs"], 3);
    assert_eq!(info["to_replay"]["groups"], 3);
    assert_eq!(info["to_replay"]["inodes"], 4, "the root directory and three files");
    assert!(info["used_bytes"].as_u64().unwrap() >= 3 * 4096);
    let said = output(&["journal", "info", &j.image()]);
    assert!(said.contains("to replay     3 epochs in 3 groups"), "{said}");
    assert_eq!(json(&["journal", "replay", "--json", &j.image()])["epochs"], 3);
    assert_eq!(j.names(), "a\nb\nc\n");
    assert_eq!(output(&["cat", &j.image(), "b"]), "b");
    assert!(output(&["check", &j.image()]).ends_with("clean\n"));
    assert_eq!((&j.info()["journal"]["clean"], &j.info()["to_replay"]["groups"]), (&true.into(), &0.into()));
}

#[test]
fn committed_changes_are_discarded_only_by_force() {
    let j = Journaled::new();
    j.crash(JournalMode::Auto, &["a", "b"]);
    let (code, said) = refusal(&["journal", "discard", &j.image()]);
    assert!(code == 1 && said.contains("holds 2 groups of committed changes"), "{code} {said}");
    assert_eq!(j.info()["to_replay"]["groups"], 2);
    assert_eq!(json(&["journal", "discard", "--force", "--json", &j.image()])["groups_lost"], 2);
    assert_eq!(j.info()["state"], "none");
    assert!(
        output(&["journal", "info", &j.image()]).starts_with("no journal; there is room for one of 8.0 MiB")
    );
    assert_eq!(j.names(), "");
    assert!(output(&["check", &j.image()]).ends_with("clean\n"));
    assert_eq!(refusal(&["journal", "discard", &j.image()]).0, 1, "there is none any more");
    j.crash(JournalMode::On, &["z"]);
    assert_eq!(j.info()["to_replay"]["groups"], 1, "a new one is made");
}

/// A damaged group in the middle does not end the log: the durable groups that follow are not dropped
/// silently.
#[test]
fn a_damaged_group_is_given_up_only_by_force() {
    let j = Journaled::new();
    j.crash(JournalMode::Auto, &["a", "b", "c", "d"]);
    let mut bytes = std::fs::read(j.image()).unwrap();
    let ring = 64 * MIB as usize + 2 * 4096;
    let groups: Vec<usize> =
        (ring..ring + (1 << 20)).step_by(4096).filter(|&at| bytes[at..].starts_with(b"SEGJ")).collect();
    // The announcement of the first checkpoint, then a group for each name.
    assert_eq!(groups.len(), 5, "{groups:?}");
    bytes[groups[2] + 70] ^= 1;
    std::fs::write(j.image(), &bytes).unwrap();
    let why = "of the journal, at its block";
    let info = j.info();
    assert_eq!(info["state"], "damaged", "{info}");
    assert!(output(&["journal", "info", &j.image()]).contains("state         damaged: group"));
    let shown = super::segno(&["ls", &j.image()]);
    let said = String::from_utf8(shown.stderr).unwrap();
    assert!(shown.stdout.is_empty() && said.contains(why), "{said}");
    for words in [
        &["put", "IMAGE", "/dev/null", "/x"][..],
        &["journal", "replay", "IMAGE"],
        &["journal", "discard", "IMAGE"],
    ] {
        let words: Vec<_> =
            words.iter().map(|w| if *w == "IMAGE" { j.image() } else { (*w).to_owned() }).collect();
        let (code, said) = refusal(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(code == 1 && said.contains(why) && said.contains("journal replay --force"), "{code} {said}");
    }
    let checked = super::segno(&["check", &j.image()]);
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.status.code() == Some(4) && said.contains("something durable is lost: group"), "{said}");
    assert!(std::fs::read(j.image()).unwrap() == bytes, "it was written to");
    output(&["journal", "replay", "--force", &j.image()]);
    assert_eq!(j.names(), "a\n");
    assert!(output(&["check", &j.image()]).ends_with("clean\n"));
    f2fs_tools::assert_clean("after a damaged group", j.image().as_ref());
}

#[test]
fn an_empty_or_stale_one_goes_without_force() {
    let j = Journaled::new();
    output(&["journal", "discard", &j.image()]);
    j.crash(JournalMode::On, &["a"]);
    // Another implementation changes and checkpoints the volume without its journal.
    let hidden = std::fs::read(j.image()).unwrap();
    output(&["journal", "discard", "--force", &j.image()]);
    output(&["put", &j.image(), "/dev/null", "/other"]);
    let file = std::fs::OpenOptions::new().write(true).open(j.image()).unwrap();
    let at = 56 * MIB as usize;
    std::os::unix::fs::FileExt::write_all_at(&file, &hidden[at..], at as u64).unwrap();
    drop(file);
    let info = j.info();
    assert_eq!(info["state"], "stale");
    assert!(info["stale_because"].as_str().unwrap().contains("checkpointed without it"), "{info}");
    let (code, said) = refusal(&["journal", "replay", &j.image()]);
    assert!(code == 1 && said.contains("has no effect"), "{code} {said}");
    assert_eq!(j.names(), "other\n");
    output(&["journal", "discard", &j.image()]);
    assert_eq!(j.info()["state"], "none");
}

#[test]
fn one_in_a_file_of_its_own() {
    let j = Journaled::new();
    j.crash_beside(&["a"]);
    let info = json(&["journal", "info", "--json", &j.image(), "--journal", &j.side()]);
    assert_eq!((&info["place"], &info["path"]), (&"file".into(), &j.side().into()));
    assert_eq!(info["to_replay"]["epochs"], 1);
    output(&["journal", "replay", &j.image(), "--journal", &j.side()]);
    assert_eq!(j.names(), "a\n");
    // A file that is no journal is not made one.
    std::fs::write(j.dir.path().join("other"), vec![7; 1 << 20]).unwrap();
    let other = j.dir.path().join("other").to_str().unwrap().to_owned();
    assert_eq!(refusal(&["journal", "replay", &j.image(), "--journal", &other]).0, 1);
    assert!(std::fs::read(&other).unwrap().iter().all(|&b| b == 7));
}

#[test]
fn what_a_guard_marked_is_written_again_with_the_journal_or_by_force() {
    for beside in [false, true] {
        let j = Journaled::new();
        if beside {
            output(&["mkfs", "-q", "-f", "--size", "64M", &j.image()]);
        }
        let side = || {
            std::fs::File::create(j.side()).unwrap().set_len(8 * MIB).unwrap();
            JournalMode::External(JournalArea::whole(open(j.side().as_ref())))
        };
        let crash = |name| {
            let journal = if beside { side() } else { JournalMode::On };
            j.crash_with(MountOptions { journal, guard: true, ..MountOptions::default() }, &[name]);
        };
        let with = |args: &[&str]| -> Vec<String> {
            let place = if beside { vec!["--journal".into(), j.side()] } else { Vec::new() };
            args.iter().map(|a| (*a).to_owned()).chain([j.image()]).chain(place).collect()
        };
        let run = |args: &[&str]| output(&with(args).iter().map(String::as_str).collect::<Vec<_>>());
        crash("a");
        assert!(run(&["journal", "info"]).starts_with("guard "));
        let listed = super::segno(&["ls", &j.image()]);
        let (names, said) =
            (String::from_utf8(listed.stdout).unwrap(), String::from_utf8(listed.stderr).unwrap());
        assert_eq!(names, if beside { "" } else { "a\n" });
        assert!(said.contains(if beside { "--journal" } else { "replayed in memory" }), "{said}");
        if beside {
            let (code, said) = refusal(&["put", &j.image(), "/dev/null", "/other"]);
            assert!(code == 1 && said.contains("--journal"), "{code} {said}");
            assert_eq!(refusal(&["journal", "discard", &j.image()]).0, 1, "not without force");
        }
        run(&["journal", "replay"]);
        output(&["put", &j.image(), "/dev/null", "/other"]);
        assert_eq!(j.names(), "a\nother\n");
        crash("b");
        if beside {
            output(&["journal", "discard", "--force", &j.image()]);
        } else {
            run(&["journal", "discard", "--force"]);
        }
        output(&["put", &j.image(), "/dev/null", "/more"]);
        assert_eq!(j.names(), "a\nmore\nother\n");
        assert!(output(&["check", &j.image()]).ends_with("clean\n"));
    }
}

/// The file was cut at the end of the volume, or it has another journal: a check and a writable mount report
/// that, and the remedy.
#[test]
fn a_check_reports_a_marked_volume_whose_journal_is_gone() {
    let other = Journaled::new();
    let foreign = std::fs::read(other.image()).unwrap().split_off(64 << 20);
    type Lose<'a> = &'a dyn Fn(&str);
    let cases: [(&str, Lose<'_>); 3] = [
        ("nothing follows the volume", &|image| {
            std::fs::File::options().write(true).open(image).unwrap().set_len(64 * MIB).unwrap();
        }),
        ("there is none in its place (no magic)", &|image| {
            let file = std::fs::File::options().write(true).open(image).unwrap();
            file.set_len(64 * MIB).and_then(|()| file.set_len(72 * MIB)).unwrap();
        }),
        ("the one in its place is not that: it belongs to another volume", &|image| {
            let file = std::fs::File::options().write(true).open(image).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &foreign, 64 * MIB).unwrap();
        }),
    ];
    for (why, lose) in cases {
        let j = Journaled::new();
        j.crash(JournalMode::Auto, &["one"]);
        lose(&j.image());
        let before = std::fs::read(j.image()).unwrap();
        for words in [&["check"][..], &["check", "-n"], &["check", "-a"], &["check", "-y"]] {
            let out = super::segno(&[words, &[&j.image()]].concat());
            let said = String::from_utf8(out.stdout).unwrap();
            assert!(out.status.code() == Some(4) && said.contains(why), "{words:?}: {said}");
            assert!(
                said.contains("segno journal discard --force") && !said.ends_with("clean\n"),
                "{words:?}: {said}"
            );
        }
        let out = super::segno(&["check", "--json", &j.image()]);
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert!(report["replay"]["error"].as_str().is_some_and(|said| said.contains(why)), "{report}");
        let (code, said) = refusal(&["put", &j.image(), "Cargo.toml"]);
        assert!(code == 1 && said.contains("marked read-only") && said.contains(why), "{said}");
        assert!(std::fs::read(j.image()).unwrap() == before, "{why}: the volume was written");
    }
}

#[test]
fn info_and_map_say_that_the_journal_has_more() {
    let j = Journaled::new();
    let line = format!("`segno journal info {}` lists them", j.image());
    for has_changes in [false, true, false] {
        if has_changes {
            j.crash(JournalMode::Auto, &["one"]);
        } else if j.info()["to_replay"]["groups"] != 0 {
            output(&["journal", "replay", &j.image()]);
        }
        for command in ["info", "map"] {
            assert_eq!(json(&[command, "--json", &j.image()])["journal_changes"], has_changes, "{command}");
            assert_eq!(output(&[command, &j.image()]).contains(&line), has_changes, "{command}");
        }
    }
}

/// The document has the same shape in all cases.
#[test]
fn a_discard_says_whether_there_was_a_journal_and_a_mark() {
    let shape = |words: &[&str]| {
        let said = json(&[&["journal", "discard", "--json"], words].concat());
        (said["discarded"].as_bool(), said["groups_lost"].as_u64(), said["unmarked"].as_bool())
    };
    let j = Journaled::new();
    assert_eq!(shape(&[&j.image()]), (Some(true), Some(0), Some(false)));
    j.crash(JournalMode::On, &["one"]);
    assert_eq!(shape(&["--force", &j.image()]), (Some(true), Some(1), Some(true)));
    j.crash(JournalMode::On, &["two"]);
    std::fs::File::options().write(true).open(j.image()).unwrap().set_len(64 * MIB).unwrap();
    assert_eq!(shape(&["--force", &j.image()]), (Some(false), Some(0), Some(true)));
}
