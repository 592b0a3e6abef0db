//! A journal is made only over zeros or a journal of the same volume, by every command and option. Other data stays as it is.
use super::{can_mount, json, output, refusal, segno};
use segno_device::{FileDevice, OpenOptions};
use segno_engine::options::JournalMode;
use segno_engine::{JournalArea, MountOptions, Owner, Volume};
use segno_format::Ino;
use std::fs::{File, create_dir, read, write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// Bytes of the image after the end of the volume, which has 64 MiB.
const SPACE: u64 = 16 * MIB;

struct Rig(tempfile::TempDir);

impl Rig {
    /// A volume followed by free space, and a directory for a mount.
    fn new() -> Self {
        let rig = Self(tempfile::tempdir().unwrap());
        File::create(rig.path("image")).unwrap().set_len(64 * MIB + SPACE).unwrap();
        output(&["mkfs", "-q", &rig.path("image"), "131072"]);
        create_dir(rig.path("mnt")).unwrap();
        rig
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Mounts by all ways that make a journal there, and expects the same refusal of each. `file` is an external journal.
    fn each_way_is_refused(&self, file: Option<&str>, why: &str) {
        let image = self.path("image");
        let before = (read(&image).unwrap(), file.map(|f| read(f).unwrap()));
        let said = self.by_library(file).unwrap_err();
        assert!(said.contains(why), "library: {said}");
        let (option, create) = match file {
            Some(file) => (format!("journal={file}"), vec!["journal", "create", "--journal", file, &image]),
            None => ("journal=on".to_owned(), vec!["journal", "create", &image]),
        };
        let (code, said) = refusal(&create);
        assert!(code == 1 && said.lines().count() == 1, "create: {code} {said}");
        if can_mount() {
            let (code, said) = refusal(&["mount", "-o", &option, &image, &self.path("mnt")]);
            assert!(code == 1 && said.contains(why) && said.lines().count() == 1, "mount: {code} {said}");
        }
        assert!(before == (read(&image).unwrap(), file.map(|f| read(f).unwrap())), "a refusal wrote");
    }

    fn by_library(&self, file: Option<&str>) -> Result<(), String> {
        let open = |path: &Path| Arc::new(FileDevice::open(path, OpenOptions::default()).unwrap());
        let journal = match file {
            Some(file) => JournalMode::External(JournalArea::whole(open(Path::new(file)))),
            None => JournalMode::On,
        };
        let options = MountOptions { journal, background: false, ..MountOptions::default() };
        let volume =
            Volume::mount(open(Path::new(&self.path("image"))), options).map_err(|e| e.to_string())?;
        volume.unmount().map_err(|e| e.to_string())
    }

    fn info(&self) -> serde_json::Value {
        json(&["journal", "info", "--json", &self.path("image")])
    }

    /// Leaves a committed change in the journal after the volume. Returns the description of the journal.
    fn crashed(&self) -> serde_json::Value {
        let device = Arc::new(FileDevice::open(self.path("image"), OpenOptions::default()).unwrap());
        let options = MountOptions { journal: JournalMode::On, background: false, ..MountOptions::default() };
        let volume = Volume::mount(device, options).unwrap();
        volume.mkdir(Ino::ROOT, b"made", 0o755, Owner::default()).unwrap();
        volume.sync().unwrap();
        drop(volume);
        let info = self.info();
        assert_eq!(info["to_replay"]["groups"], 1, "{info}");
        info
    }
}

/// A hash tree or a footer after the end of the volume.
#[test]
fn other_data_behind_a_volume_is_never_overwritten_by_a_journal() {
    for at in [64 * MIB, 64 * MIB + 5 * MIB + 17, 80 * MIB - 1] {
        let rig = Rig::new();
        let image = rig.path("image");
        File::options().write(true).open(&image).unwrap().write_all_at(b"h", at).unwrap();
        rig.each_way_is_refused(
            None,
            &format!("block {}, in the space for a journal, holds other data", at / 4096),
        );
        let (byte, said) = (at / 4096 * 4096, output(&["journal", "info", &image]));
        assert!(
            said.starts_with("no journal; ") && said.contains(&format!("first at byte {byte}")),
            "{said}"
        );
        assert_eq!(rig.info()["occupied_at"], byte);
        output(&["put", &image, "/dev/null", "/file"]);
        assert!(output(&["check", &image]).ends_with("clean\n"), "the volume is used without one");
        output(&["journal", "create", "--force", &image]);
        assert_eq!(rig.info()["state"], "usable");
        rig.by_library(None).unwrap();
    }
}

#[test]
fn zeros_become_a_journal_and_a_journal_stays_one() {
    let rig = Rig::new();
    let image = rig.path("image");
    assert!(
        output(&["journal", "info", &image]).starts_with("no journal; there is room for one of 16.0 MiB")
    );
    assert_eq!(rig.info()["occupied_at"], serde_json::Value::Null);
    assert_eq!(json(&["journal", "create", "--json", &image])["bytes"], SPACE);
    assert!(refusal(&["journal", "create", "--force", &image]).1.contains("is a journal of this volume"));
    rig.by_library(None).unwrap();
    output(&["journal", "discard", &image]);
    let tail = &read(&image).unwrap()[64 * MIB as usize..];
    assert!(tail.iter().all(|&b| b == 0), "a discarded journal leaves zeros");
    rig.by_library(None).unwrap();
}

/// The file system in it could be mounted afterwards, and was not.
#[test]
fn a_file_with_something_else_never_becomes_a_journal() {
    let rig = Rig::new();
    let file = rig.path("ext4.img");
    File::create(&file).unwrap().set_len(8 * MIB).unwrap();
    assert!(std::process::Command::new("mkfs.ext4").args(["-q", &file]).status().unwrap().success());
    rig.each_way_is_refused(Some(&file), "holds other data");
    output(&["journal", "create", "--force", "--journal", &file, &rig.path("image")]);
    rig.by_library(Some(&file)).unwrap();
}

#[test]
fn a_file_that_is_absent_or_short_is_refused_and_one_of_zeros_is_used() {
    let rig = Rig::new();
    let (image, absent, short, zeros) =
        (rig.path("image"), rig.path("absent"), rig.path("short"), rig.path("zeros"));
    write(&short, [0; 8192]).unwrap();
    File::create(&zeros).unwrap().set_len(8 * MIB).unwrap();
    for (file, why) in [(&absent, "No such file"), (&short, "at least 10 blocks")] {
        let mut calls = vec![vec!["journal", "create", "--journal", file, &image]];
        let option = format!("journal={file}");
        let dir = rig.path("mnt");
        if can_mount() {
            calls.push(vec!["mount", "-o", &option, &image, &dir]);
        }
        for call in calls {
            let (code, said) = refusal(&call);
            let is_said = said.contains(why) || said.contains("too small");
            assert!(code == 1 && is_said && said.lines().count() == 1, "{call:?}: {said}");
        }
    }
    assert!(!Path::new(&absent).exists());
    if can_mount() {
        output(&["mount", "-o", &format!("journal={zeros}"), &image, &rig.path("mnt")]);
        output(&["umount", &rig.path("mnt")]);
        assert_eq!(json(&["journal", "info", "--json", "--journal", &zeros, &image])["state"], "usable");
    }
    rig.by_library(Some(&zeros)).unwrap();
}

/// Two volumes whose mounts name the same file.
#[test]
fn a_journal_of_another_volume_is_left_alone_even_by_force_if_it_is_in_use() {
    let (one, other) = (Rig::new(), Rig::new());
    let file = one.path("side");
    File::create(&file).unwrap().set_len(8 * MIB).unwrap();
    one.by_library(Some(&file)).unwrap();
    other.each_way_is_refused(Some(&file), "holds that of another volume (uuid ");
    // A crash leaves it in use.
    let image = one.path("image");
    let open = |path: &str| Arc::new(FileDevice::open(path, OpenOptions::default()).unwrap());
    let journal = JournalMode::External(JournalArea::whole(open(&file)));
    let options = MountOptions { journal, background: false, ..MountOptions::default() };
    drop(Volume::mount(open(&image), options).unwrap());
    other.each_way_is_refused(Some(&file), "holds that of another volume (uuid ");
    let create = ["journal", "create", "--force", "--journal", &file, &other.path("image")];
    let (code, said) = refusal(&create);
    assert!(code == 1 && said.contains("which needs it"), "{said}");
    one.by_library(Some(&file)).unwrap();
    assert!(segno(&create).status.success(), "after a clean unmount --force gives it away");
}

/// mkfs.f2fs leaves the journal of the previous volume; segno mkfs clears it.
#[test]
fn a_closed_journal_of_the_volume_before_is_replaced() {
    let rig = Rig::new();
    let image = rig.path("image");
    rig.by_library(None).unwrap();
    let before = rig.info()["journal"]["volume"].clone();
    segno_testkit::f2fs_tools::succeed("mkfs.f2fs", &["-q", "-f", "-t", "0", &image, "131072"]);
    assert_eq!(rig.info()["state"], "stale");
    rig.by_library(None).unwrap();
    assert_eq!(rig.info()["state"], "usable");
    assert_ne!(rig.info()["journal"]["volume"], before);
    output(&["mkfs", "-q", "-f", "-t", "0", &image, "131072"]);
    assert_eq!(rig.info()["state"], "none");
}

/// mkfs.f2fs gives the new volume the id of the old one: its journal is left from before, and no evidence of damage.
#[test]
fn a_volume_that_mkfs_f2fs_made_again_under_the_same_id_is_not_damaged() {
    for closed in [false, true] {
        let rig = Rig::new();
        let image = rig.path("image");
        let before = rig.crashed();
        if closed {
            rig.by_library(None).unwrap();
        }
        let uuid = before["journal"]["volume"].as_str().unwrap();
        segno_testkit::f2fs_tools::succeed(
            "mkfs.f2fs",
            &["-q", "-f", "-t", "0", "-U", uuid, &image, "131072"],
        );
        let info = rig.info();
        assert_eq!((&info["state"], &info["journal"]["volume"]), (&"stale".into(), &uuid.into()), "{info}");
        let why = "the volume was formatted again since, with the same id";
        assert_eq!(info["stale_because"], why);
        assert!(output(&["check", &image]).ends_with("clean\n"));
        let out = segno(&["put", &image, "Cargo.toml"]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success() && said.contains(why), "{said}");
        let info = rig.info();
        assert_eq!((&info["state"], &info["journal"]["mounts"]), (&"usable".into(), &1.into()), "{info}");
        segno_testkit::f2fs_tools::assert_clean("after a second format", image.as_ref());
    }
}
