//! The external journal of a crashed volume: without it a command fails or prints a note; none shows the older state in silence.
use super::after_crash::{Crashed, Mount, external, journal};
use super::{can_mount, json, output, refusal, segno};
use segno_device::{BlockDevice, FileDevice, OpenOptions, open_volume};
use segno_engine::{MountOptions, Owner, TrimRange, Volume};
use std::fs;
use std::path::Path;

/// The state that a command shows of a volume whose journal it has not got.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Without {
    /// None: it fails with this exit code, and names the option.
    Refused(i32),
    /// That of the last checkpoint, with a message that names the option.
    Noted,
}
use Without::{Noted, Refused};

/// A command for the volume IMAGE; OUT is a new path.
type Row = (&'static [&'static str], Without);

const COMMANDS: [Row; 25] = [
    (&["ls", "IMAGE"], Refused(1)),
    (&["ls", "-lR", "IMAGE"], Refused(1)),
    (&["cat", "IMAGE", "file00"], Refused(1)),
    (&["stat", "IMAGE", "file00"], Refused(1)),
    (&["extents", "--image", "IMAGE", "--all", "/"], Refused(1)),
    (&["get", "IMAGE", "/", "OUT"], Refused(1)),
    (&["get", "IMAGE", "/file00", "-"], Refused(1)),
    (&["extract", "IMAGE", "OUT"], Refused(1)),
    (&["extract", "--tar", "OUT", "IMAGE"], Refused(1)),
    (&["build", "IMAGE", "OUT"], Refused(1)),
    (&["put", "IMAGE", "/dev/null", "/new"], Refused(1)),
    (&["label", "IMAGE"], Refused(1)),
    (&["label", "IMAGE", "new"], Refused(1)),
    (&["touch", "IMAGE", "/new"], Refused(1)),
    (&["getfattr", "IMAGE", "/file00"], Refused(1)),
    (&["shell", "-c", "ls", "IMAGE"], Refused(1)),
    (&["check", "IMAGE"], Refused(4)),
    (&["check", "-n", "IMAGE"], Refused(4)),
    (&["check", "-a", "IMAGE"], Refused(4)),
    (&["check", "-y", "IMAGE"], Refused(4)),
    (&["check", "--to", "OUT", "IMAGE"], Refused(4)),
    (&["rescue", "--list", "IMAGE"], Noted),
    (&["undelete", "IMAGE"], Noted),
    (&["info", "IMAGE"], Noted),
    (&["journal", "discard", "IMAGE"], Refused(1)),
];

fn words(row: &[&str], v: &Crashed, out: &str) -> Vec<String> {
    let place = |word: &&str| match *word {
        "IMAGE" => v.image.clone(),
        "OUT" => v.path(out),
        word => word.to_owned(),
    };
    row.iter().map(place).collect()
}

/// Exit code and everything that was printed.
fn said(args: &[String]) -> (i32, String) {
    let out = segno(args);
    let text = [out.stderr, out.stdout].concat();
    (out.status.code().unwrap(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn no_command_shows_the_older_state_in_silence_without_the_external_journal() {
    let crashed = external();
    let before = crashed.read_storage();
    for (i, (row, without)) in COMMANDS.into_iter().enumerate() {
        let out = format!("out{i}");
        let (code, text) = said(&words(row, &crashed, &out));
        assert!(text.contains("--journal") && !text.contains("mkfs"), "{row:?}: {text}");
        match without {
            Refused(expected) => assert_eq!(code, expected, "{row:?}: {text}"),
            Noted => assert!(code <= 1 && !text.contains("error"), "{row:?}: {code} {text}"),
        }
        assert!(!Path::new(&crashed.path(&out)).exists(), "{row:?}");
        assert!(crashed.read_storage() == before, "{row:?} has written");
    }
    assert_eq!(json(&["info", "--json", &crashed.image])["external_journal"], true);
    assert_eq!(refusal(&["journal", "create", "--journal", &crashed.path("new"), &crashed.image]).0, 1);
}

#[test]
fn every_command_refuses_the_journal_of_another_volume() {
    let (crashed, other) = (external(), external());
    let before = (crashed.read_storage(), other.read_storage());
    let side = other.side.clone().unwrap();
    for (i, (row, _)) in COMMANDS.into_iter().enumerate().filter(|(_, (row, _))| row[0] != "info") {
        let out = format!("out{i}");
        let args = [words(row, &crashed, &out), vec!["--journal".into(), side.clone()]].concat();
        let (code, text) = said(&args);
        let is_named = text.contains("another volume") || text.contains("is not in");
        assert!(code != 0 && is_named && !text.contains("mkfs"), "{row:?}: {code} {text}");
        assert!(!Path::new(&crashed.path(&out)).exists(), "{row:?}");
        assert!(before == (crashed.read_storage(), other.read_storage()), "{row:?} has written");
    }
}

#[test]
fn the_library_names_the_journal_that_it_needs() {
    let crashed = external();
    let before = crashed.read_storage();
    let side = crashed.side.clone().unwrap();
    for writable in [false, true] {
        let open = |path: &str| match writable {
            true => segno::Device::open(path).unwrap(),
            false => segno::Device::open_read_only(path).unwrap(),
        };
        let device = open(&crashed.image);
        let refused = segno::Volume::open(&device).unwrap_err();
        assert!(refused.needs_journal() && refused.errno() == 19, "{writable}: {refused}");
        let read_only = segno::Device::open_read_only(&side).unwrap();
        if writable {
            let refused = segno::Volume::open_with(&device, &segno::MountOptions::new().journal(&read_only));
            assert_eq!(refused.unwrap_err().errno(), 30);
        }
    }
    let device = segno::Device::open_read_only(&crashed.image).unwrap();
    let older = segno::MountOptions::new().read_only(true).skip_recovery(true);
    let volume = segno::Volume::open_with(&device, &older).unwrap();
    assert_eq!(volume.read_dir("/").unwrap().count(), 0);
    volume.close().unwrap();
    let target = crashed.path("target");
    let refused = segno::extract(&crashed.image, &target, &segno::ExtractOptions::default()).unwrap_err();
    assert!(refused.needs_journal(), "{refused}");
    let refused =
        segno::build(&crashed.image, crashed.path("built"), &segno::BuildOptions::default()).unwrap_err();
    assert!(refused.needs_journal(), "{refused}");
    let named = segno::ExtractOptions { journal: Some(side.clone().into()), ..Default::default() };
    assert_eq!(segno::extract(&crashed.image, &target, &named).unwrap().files, 13);
    let named = segno::BuildOptions { journal: Some(side.clone().into()), ..Default::default() };
    assert_eq!(segno::build(&crashed.image, crashed.path("built"), &named).unwrap().files, 13);
    assert!(crashed.read_storage() == before, "a reader has written");
    drop(device);
    let options = segno::MountOptions::new().journal(&segno::Device::open(&side).unwrap());
    let device = segno::Device::open(&crashed.image).unwrap();
    let volume = segno::Volume::open_with(&device, &options).unwrap();
    assert_eq!(volume.read_dir("/").unwrap().count(), crashed.files.len());
    let another = segno::Device::in_memory(64 << 20);
    segno::format(&another, &segno::FormatOptions::default()).unwrap();
    let busy = segno::Volume::open_with(&another, &options).unwrap_err();
    assert_eq!(busy.errno(), 16, "the journal is in use: {busy}");
    volume.close().unwrap();
    drop(device);
    drop(options);
    assert_eq!(output(&["ls", &crashed.image]).lines().count(), crashed.files.len());
}

#[test]
fn a_mount_without_the_external_journal_is_refused() {
    if !can_mount() {
        return;
    }
    let crashed = external();
    let before = crashed.read_storage();
    let mount = Mount::at(crashed.path("mnt"));
    for options in ["rw", "ro", "journal=auto", "disable_roll_forward"] {
        let (code, said) = refusal(&["mount", "-o", options, &crashed.image, &mount.0]);
        assert!(code == 1 && said.contains("journal=FILE"), "{options}: {code} {said}");
    }
    output(&["mount", "-o", "ro,norecovery", &crashed.image, &mount.0]);
    assert_eq!(fs::read_dir(&mount.0).unwrap().count(), 0);
    drop(mount);
    assert!(crashed.read_storage() == before);
}

/// Without the file all that is left is to give up what it had.
#[test]
fn a_lost_external_journal_is_given_up_only_by_force() {
    let crashed = external();
    fs::remove_file(crashed.side.as_ref().unwrap()).unwrap();
    let (code, said) = refusal(&["journal", "discard", &crashed.image]);
    assert!(code == 1 && said.contains("--journal"), "{code} {said}");
    output(&["journal", "discard", "--force", &crashed.image]);
    assert_eq!(output(&["ls", &crashed.image]), "");
    assert!(output(&["check", "-f", &crashed.image]).ends_with("clean\n"));
    assert_eq!(json(&["info", "--json", &crashed.image])["external_journal"], false);
}

/// Linux and fsck.f2fs build their next checkpoint from this one, and do not know the mark.
#[test]
fn after_a_clean_unmount_no_journal_is_asked_for() {
    let mut new = Crashed::new(&[], false);
    let options = new.beside();
    let device = open_volume(&[&new.image], OpenOptions::default()).unwrap();
    Volume::mount(device, options).unwrap().unmount().unwrap();
    assert_eq!(json(&["info", "--json", &new.image])["external_journal"], false);
    output(&["put", &new.image, "/dev/null", "/file"]);
    assert_eq!(output(&["ls", &new.image]), "file\n");
}

/// A file is in the checkpoint, its removal only in the journal.
fn removed(mut new: Crashed, options: impl FnOnce(&mut Crashed) -> MountOptions) -> Crashed {
    let options = options(&mut new);
    let device = open_volume(&[&new.image], OpenOptions::default()).unwrap();
    let volume = Volume::mount(device, options).unwrap();
    let ino = volume.mknod(volume.root(), b"gone", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    volume.write(ino, 0, &[7; 9000]).unwrap();
    volume.fsync(ino).unwrap();
    // Writes a checkpoint, and discards nothing.
    volume.trim(TrimRange { start: 0, len: 4096, min_len: 0 }).unwrap();
    volume.unlink(volume.root(), b"gone").unwrap();
    volume.sync().unwrap();
    new
}

#[test]
fn undelete_finds_a_removal_that_only_the_journal_has() {
    let after = Crashed::new(&["--journal", "8M"], false);
    let on = segno_engine::options::JournalMode::On;
    let after = removed(after, |v| MountOptions { journal: on, ..v.options() });
    let beside = removed(Crashed::new(&[], false), Crashed::beside);
    for crashed in [after, beside] {
        let before = crashed.read_storage();
        let to = crashed.path("to");
        let found = crashed.output(&["undelete", "--to", &to, &crashed.image]);
        assert!(found.starts_with("100 %") && found.contains(" 1 whole"), "{found}");
        let copied = fs::read(Path::new(&to).join("gone")).unwrap();
        assert!(copied == [7; 9000]);
        assert!(crashed.read_storage() == before);
    }
}

/// Changes a byte in the pack in force.
fn damage_newest_pack(image: &str) {
    let info = super::json(&["info", "--json", image]);
    let device = FileDevice::open(image, OpenOptions::default()).unwrap();
    let number = info["checkpoint"]["pack"].as_u64().unwrap();
    let start = info["superblock"]["cp_blkaddr"].as_u64().unwrap() + (number - 1) * 512;
    let mut block = [segno_format::Block::zeroed()];
    device.read(start, &mut block).unwrap();
    block[0].0[16] ^= 1;
    device.write(start, &[&block[0]]).unwrap();
}

/// The journal follows a checkpoint that cannot be read any more. No command but `journal discard --force` gives it up.
#[test]
fn no_command_gives_up_a_journal_that_is_ahead_of_its_volume() {
    for (case, made) in [("journal", journal as fn() -> Crashed), ("external journal", external)] {
        let crashed = made();
        damage_newest_pack(&crashed.image);
        let before = crashed.read_storage();
        let image = crashed.image.as_str();
        let side: Vec<&str> = crashed.side.iter().flat_map(|s| ["--journal", s.as_str()]).collect();
        let copy = crashed.path("copy");
        for options in [&["-n"][..], &["-a"], &["-y"], &["-f"], &["--to", &copy], &["-q"]] {
            let out = segno(&[&["check"], options, &side, &[image]].concat());
            let said = String::from_utf8(out.stdout).unwrap();
            assert_eq!(out.status.code(), Some(4), "{case} {options:?}: {said}");
            assert!(said.contains("something durable is lost"), "{case} {options:?}: {said}");
            assert!(said.contains("records of 13 inodes") && !said.contains("mkfs"), "{case}: {said}");
        }
        let said = output(&[&["journal", "info"], &side[..], &[image]].concat());
        assert!(said.contains("ahead of the volume, which is damaged"), "{case}: {said}");
        for command in ["replay", "discard"] {
            let (code, said) = refusal(&[&["journal", command], &side[..], &[image]].concat());
            assert!(code == 1 && said.contains("the volume is damaged"), "{case} {command}: {code} {said}");
        }
        let (code, said) = refusal(&crashed.with_side(&["put", image, "/etc/hostname"]));
        assert!(code == 1 && said.contains("the volume is damaged"), "{case}: {code} {said}");
        let (got, taken, tar) = (crashed.path("got"), crashed.path("taken"), crashed.path("tar"));
        for reader in [
            &["ls", image][..],
            &["stat", image, "/"],
            &["extents", "--image", image, "--all", "/"],
            &["get", image, "/", &got],
            &["extract", image, &taken],
            &["extract", "--tar", &tar, image],
        ] {
            let read = segno(&crashed.with_side(reader));
            let said = String::from_utf8(read.stderr).unwrap();
            let is_said = said.contains("the volume is damaged") && said.contains("is not shown");
            assert!(read.status.success() && is_said, "{case} {reader:?}: {said}");
        }
        for reader in [&["rescue", "--list", image][..], &["undelete", image]] {
            let said = String::from_utf8(segno(&crashed.with_side(reader)).stderr).unwrap();
            assert!(said.contains("the journal has is left out"), "{case} {reader:?}: {said}");
        }
        assert!(crashed.read_storage() == before && !Path::new(&copy).exists(), "{case}");
        output(&[&["journal", "discard", "--force"], &side[..], &[image]].concat());
        assert!(output(&["check", "-f", image]).ends_with("clean\n"), "{case}");
    }
}

/// A new file gets the size of a journal after the volume. An existing file is used in full if it holds no
/// other data.
#[test]
fn mkfs_makes_one_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let [image, side, other] = ["image", "side", "other"].map(path);
    let words = |more: &[&'static str]| {
        [&["mkfs", "-f", "--size", "512M", "--journal-device", &side], more, &[&image]].concat()
    };
    let length = |path: &str| fs::metadata(path).unwrap().len();
    let said = output(&words(&[]));
    assert!(
        said.ends_with(&format!("a journal of 16.0 MiB is in {side}: mount with -o journal={side}\n")),
        "{said}"
    );
    assert_eq!((length(&image), length(&side)), (512 << 20, 16 << 20));
    fs::remove_file(&side).unwrap();
    output(&words(&["--journal", "32M"]));
    assert_eq!((length(&image), length(&side)), (512 << 20, 32 << 20));
    output(&["put", "--journal", &side, &image, "Cargo.toml", "/"]);
    let mounts = json(&["journal", "info", "--json", "--journal", &side, &image])["journal"]["mounts"].take();
    assert!(mounts.as_u64() > Some(1), "it was in use: {mounts}");
    for more in [&["--journal", "none"][..], &["-O", "ro"]] {
        let (code, said) = refusal(&words(more));
        assert!(code == 2 && said.contains("--journal-device is not for"), "{code} {said}");
    }
    fs::write(&side, vec![7; 1 << 20]).unwrap();
    let (code, said) = refusal(&["mkfs", "--size", "512M", "--journal-device", &side, &other]);
    assert!(code == 1 && said.contains("holds other data"), "{code} {said}");
    assert_eq!(fs::read(&side).unwrap(), vec![7; 1 << 20]);
}
