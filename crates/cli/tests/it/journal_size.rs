//! A journal is made, resized and removed after the end of a volume that does not change; cmp and fsck.f2fs
//! of f2fs-tools confirm that.
use super::locations::sfdisk;
use super::{json, output, refusal};
use segno_device::{FileDevice, OpenOptions};
use segno_engine::options::JournalMode;
use segno_engine::{MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_testkit::f2fs_tools;
use std::fs::{File, metadata, read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

struct Rig(tempfile::TempDir);

impl Rig {
    /// A volume of `bytes` bytes without a journal, and a file in it.
    fn new(bytes: u64) -> Self {
        let rig = Self(tempfile::tempdir().unwrap());
        output(&["mkfs", "-q", "--size", &bytes.to_string(), "--journal", "none", &rig.image()]);
        output(&["put", &rig.image(), "Cargo.toml"]);
        rig
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn image(&self) -> String {
        self.path("image")
    }

    fn length(&self) -> u64 {
        metadata(self.image()).unwrap().len()
    }

    fn volume(&self, bytes: u64) -> Vec<u8> {
        let mut all = read(self.image()).unwrap();
        all.truncate(bytes as usize);
        all
    }

    fn info(&self) -> serde_json::Value {
        json(&["journal", "info", "--json", &self.image()])
    }

    /// Commits files to the journal and stops without an unmount.
    fn crash(&self, names: &[&str]) {
        let device = Arc::new(FileDevice::open(self.image(), OpenOptions::default()).unwrap());
        let options =
            MountOptions { journal: JournalMode::Auto, background: false, ..MountOptions::default() };
        let volume = Volume::mount(device, options).unwrap();
        for name in names {
            volume.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap();
            volume.sync().unwrap();
        }
    }

    /// A mount uses the journal.
    fn assert_used(&self, name: &str) {
        let mounts = |info: serde_json::Value| info["journal"]["mounts"].as_u64().unwrap();
        let before = mounts(self.info());
        output(&["put", &self.image(), "Cargo.toml", &format!("/{name}")]);
        let info = self.info();
        assert_eq!(info["journal"]["clean"], true, "{info}");
        assert!(mounts(info) > before, "the mount did without the journal");
        f2fs_tools::assert_clean(name, self.image().as_ref());
    }
}

/// Volumes whose end is, and is not, where a journal may begin. The length is the one that mkfs gives.
#[test]
fn an_image_file_becomes_longer_by_a_journal_and_shorter_without_it() {
    for (volume, journal) in [(64 * MIB, 16 * MIB), (301 * MIB, 16 * MIB), (2048 * MIB, 32 * MIB)] {
        let rig = Rig::new(volume);
        let (image, before) = (rig.image(), rig.volume(volume));
        f2fs_tools::assert_clean("without a journal", image.as_ref());
        let made = json(&["journal", "create", "--json", &image]);
        assert_eq!((&made["created"], made["bytes"].as_u64()), (&true.into(), Some(journal)));
        assert_eq!(rig.length(), volume.next_multiple_of(2 * MIB) + journal);
        let (by_mkfs, size) = (rig.path("mkfs"), volume.to_string());
        output(&["mkfs", "-q", "--size", &size, "--journal", &journal.to_string(), &by_mkfs]);
        assert_eq!(rig.length(), metadata(&by_mkfs).unwrap().len(), "the length that mkfs gives");
        let tail = read(&image).unwrap().split_off(volume.next_multiple_of(2 * MIB) as usize + 8192);
        assert!(tail.iter().all(|&b| b == 0), "the ring is a hole");
        assert!(rig.volume(volume) == before, "the volume was written");
        f2fs_tools::assert_clean("with a journal", image.as_ref());
        rig.assert_used("used");
        assert!(refusal(&["journal", "create", &image]).1.contains("is a journal of this volume"));

        let before = rig.volume(volume);
        for (size, length) in [(24 * MIB, 24 * MIB), (8 * MIB, 8 * MIB), (MIB, MIB)] {
            let resized = json(&["journal", "resize", "--json", "--size", &size.to_string(), &image]);
            assert_eq!(resized["bytes"], size);
            assert_eq!(rig.length(), volume.next_multiple_of(2 * MIB) + length);
            assert_eq!(rig.info()["journal"]["ring_bytes"], size - 8192);
            assert!(rig.volume(volume) == before, "the volume was written");
        }
        f2fs_tools::assert_clean("with a resized journal", image.as_ref());
        rig.assert_used("resized");

        let before = rig.volume(volume);
        let removed = json(&["journal", "remove", "--json", &image]);
        assert_eq!((&removed["removed"], &removed["shortened"]), (&true.into(), &true.into()));
        assert_eq!(rig.length(), volume);
        assert!(rig.volume(volume) == before, "the volume was written");
        f2fs_tools::assert_clean("without a journal again", image.as_ref());
        let (code, said) = refusal(&["journal", "remove", &image]);
        assert!(code == 1 && said.contains("no gap for a journal"), "{said}");
        output(&["put", &image, "/dev/null", "/more"]);
    }
}

/// Changes that only the journal has are kept, and the error names the way to keep them. A mount that was cut
/// off before its first commit has left only its mark.
#[test]
fn a_journal_that_the_volume_needs_is_neither_removed_nor_resized() {
    for names in [&["one"][..], &[]] {
        let rig = Rig::new(64 * MIB);
        let image = rig.image();
        output(&["journal", "create", &image]);
        rig.crash(names);
        let before = read(&image).unwrap();
        for words in [&["journal", "remove"][..], &["journal", "resize", "--size", "8M"]] {
            let (code, said) = refusal(&[words, &[&image]].concat());
            assert!(code == 1 && said.contains(&format!("`segno journal replay {image}` first")), "{said}");
        }
        assert!(read(&image).unwrap() == before, "a refusal wrote");
        output(&["journal", "replay", &image]);
        assert_eq!(rig.info()["guarded"], false);
        output(&["journal", "resize", "--size", "8M", &image]);
        output(&["journal", "remove", &image]);
        let all = output(&["ls", &image]);
        names.iter().for_each(|name| assert!(all.lines().any(|found| found == *name), "{all}"));
        f2fs_tools::assert_clean("after a replay", image.as_ref());
    }
}

#[test]
fn a_partition_needs_a_gap_and_a_journal_may_have_a_part_of_it() {
    let rig = Rig(tempfile::tempdir().unwrap());
    let disk = rig.path("disk");
    sfdisk(disk.as_ref(), 400 * MIB, "label: gpt\nstart=2048, size=655360\nstart=657408\n");
    let part = format!("{disk}#1");
    output(&["mkfs", "-q", "--journal", "none", &part]);
    let (code, said) = refusal(&["journal", "create", &part]);
    let whys = ["a journal of 16.0 MiB needs a gap of that size", "journal=FILE"];
    assert!(code == 1 && whys.iter().all(|why| said.contains(why)), "{said}");
    output(&["mkfs", "-q", "-f", "--journal", "32M", &part]);
    output(&["journal", "remove", &part]);
    assert_eq!(metadata(&disk).unwrap().len(), 400 * MIB);
    assert_eq!(json(&["journal", "create", "--json", "--size", "8M", &part])["bytes"], 8 * MIB);
    output(&["put", &part, "Cargo.toml"]);
    let resized = json(&["journal", "resize", "--json", "--size", "16M", &part]);
    assert_eq!((resized["bytes"].as_u64(), &resized["shortened"]), (Some(16 * MIB), &false.into()));
    let (code, said) = refusal(&["journal", "resize", "--size", "33M", &part]);
    assert!(code == 1 && said.contains("a journal of 33.0 MiB needs a gap of that size"), "{said}");
    output(&["put", &part, "/dev/null", "/more"]);
    let info = json(&["journal", "info", "--json", &part]);
    assert_eq!(
        (&info["state"], &info["journal"]["ring_bytes"]),
        (&"usable".into(), &(16 * MIB - 8192).into())
    );
    let removed = json(&["journal", "remove", "--json", &part]);
    assert_eq!((&removed["removed"], &removed["shortened"]), (&true.into(), &false.into()));
    assert_eq!(json(&["journal", "create", "--json", &part])["bytes"], 32 * MIB, "all of the gap");
}

#[test]
fn other_data_in_the_gap_stays_where_it_is() {
    let rig = Rig::new(64 * MIB);
    let image = rig.image();
    let file = File::options().read(true).write(true).open(&image).unwrap();
    file.set_len(77 * MIB).unwrap();
    file.write_all_at(b"data", 76 * MIB).unwrap();
    let length = rig.length();
    let stays = || {
        let mut found = [0; 4];
        file.read_exact_at(&mut found, 76 * MIB).unwrap();
        assert_eq!((&found, rig.length()), (b"data", length));
    };
    let (code, said) = refusal(&["journal", "create", &image]);
    assert!(code == 1 && said.contains("there is other data"), "{said}");
    let (code, said) = refusal(&["journal", "create", "--size", "32M", &image]);
    assert!(code == 1 && said.contains("there is other data"), "{said}");
    stays();
    output(&["journal", "create", "--size", "8M", &image]);
    rig.assert_used("used");
    let (code, said) = refusal(&["journal", "resize", "--size", "16M", &image]);
    assert!(
        code == 1 && said.contains(&format!("other data behind the journal, first at byte {}", 76 * MIB)),
        "{said}"
    );
    output(&["journal", "resize", "--size", "10M", &image]);
    rig.assert_used("resized");
    output(&["journal", "resize", "--size", "4M", &image]);
    stays();
    assert_eq!(json(&["journal", "remove", "--json", &image])["shortened"], false);
    stays();
}

#[test]
fn an_external_journal_keeps_its_file() {
    let rig = Rig::new(64 * MIB);
    let (image, side) = (rig.image(), rig.path("side"));
    File::create(&side).unwrap().set_len(8 * MIB).unwrap();
    let with = |words: &[&'static str]| -> Vec<&str> { [words, &["--journal", &side, &image]].concat() };
    output(&with(&["journal", "create", "--size", "4M"]));
    output(&[&with(&["put"])[..], &["Cargo.toml", "/used"]].concat());
    output(&with(&["journal", "resize", "--size", "6M"]));
    let (code, said) = refusal(&with(&["journal", "resize", "--size", "9M"]));
    assert!(code == 1 && said.contains("has 8.0 MiB, and the journal needs 9.0 MiB"), "{said}");
    let info = json(&with(&["journal", "info", "--json"]));
    assert_eq!(info["journal"]["ring_bytes"], 6 * MIB - 8192);
    assert_eq!(json(&with(&["journal", "remove", "--json"]))["shortened"], false);
    assert!(read(&side).unwrap() == vec![0; 8 << 20]);
    assert_eq!(rig.length(), 64 * MIB);
}

/// A format is cut off at each of its steps and repeated: the file has the length of one run.
#[test]
fn a_format_that_is_repeated_leaves_the_length_of_one() {
    const VOLUME: u64 = 256 * MIB;
    const LENGTH: u64 = VOLUME + 16 * MIB;
    let rig = Rig(tempfile::tempdir().unwrap());
    let image = rig.image();
    let mark = segno_device::unfinished_format();
    let file = || File::options().write(true).open(&image).unwrap();
    let steps: [(&str, &dyn Fn()); 5] = [
        ("whole", &|| ()),
        ("marked", &|| file().write_all_at(&mark.0, 0).unwrap()),
        ("marked, and without the journal", &|| {
            file().write_all_at(&mark.0, 0).unwrap();
            file().set_len(VOLUME).unwrap();
        }),
        ("both superblocks are gone", &|| {
            (0..2).for_each(|copy| file().write_all_at(&mark.0, copy * 4096).unwrap());
            file().set_len(VOLUME).unwrap();
        }),
        ("the journal is not made yet", &|| {
            file().set_len(VOLUME).unwrap();
            file().set_len(LENGTH).unwrap();
        }),
    ];
    output(&["mkfs", "-q", "--size", "256M", &image]);
    let blocks = |image: &str| json(&["info", "--json", image])["superblock"]["block_count"].as_u64();
    for (step, cut) in steps {
        cut();
        for run in 1..=2 {
            output(&["mkfs", "-q", "-f", &image]);
            assert_eq!((rig.length(), blocks(&image)), (LENGTH, Some(VOLUME / 4096)), "{step}, run {run}");
            assert_eq!(
                (&rig.info()["state"], rig.info()["bytes"].as_u64()),
                (&"usable".into(), Some(16 * MIB)),
                "{step}"
            );
        }
    }
    // Killed at some moments.
    for delay in 0..12 {
        let mut killed = std::process::Command::new(env!("CARGO_BIN_EXE_segno"))
            .args(["mkfs", "-q", "-f", &image])
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay * 3));
        let _it_may_have_ended = killed.kill();
        killed.wait().unwrap();
        assert!([VOLUME, LENGTH].contains(&rig.length()), "{delay}: {}", rig.length());
    }
    output(&["mkfs", "-q", "-f", &image]);
    assert_eq!(rig.length(), LENGTH);
    // One that its owner has made longer is formatted as a whole.
    file().set_len(1024 * MIB).unwrap();
    output(&["mkfs", "-q", "-f", &image]);
    assert_eq!((rig.length(), blocks(&image)), (1040 * MIB, Some(1024 * MIB / 4096)));
    assert!(metadata(&image).unwrap().blocks() * 512 < 256 * MIB, "what is not used is a hole");
}
