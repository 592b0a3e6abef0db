//! Volumes on loop devices that fail to read, and targets without space. Each test needs root, and is left out without.
use super::fsck::damaged;
use super::salvage::filled;
use super::{Scratch, output, refusal};
use std::fs::{OpenOptions, create_dir, read};
use std::process::{Command, Output};

/// A loop device, detached when dropped.
pub struct Loop(pub String);

impl Loop {
    pub fn of(image: &str) -> Option<Self> {
        let out = Command::new("losetup").args(["--find", "--show", image]).output().ok()?;
        let name = String::from_utf8(out.stdout).ok()?;
        out.status.success().then(|| Self(name.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _status = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// Runs the program where a small file system is mounted. `None` where mounting is not allowed.
fn with_mount(scratch: &Scratch, options: &str, args: &[&str]) -> Option<Output> {
    let dir = scratch.path("mounted");
    let _exists = create_dir(&dir);
    let script = format!(
        "mount -t tmpfs -o {options} none {} || exit 99; exec {} {}",
        dir.display(),
        env!("CARGO_BIN_EXE_segno"),
        args.join(" ")
    );
    let out = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().ok()?;
    (out.status.code() != Some(99) && !out.stderr.starts_with(b"unshare")).then_some(out)
}

/// The end of the volume is cut off below the device, so reads there fail.
#[test]
fn device_with_io_errors() {
    let scratch = Scratch::new();
    let image = damaged(&scratch);
    let Some(device) = Loop::of(&image) else { return };
    OpenOptions::new().write(true).open(&image).unwrap().set_len(8 << 20).unwrap();
    let before = read(&image).unwrap();
    for options in ["-n", "-a", "-y"] {
        let (code, said) = refusal(&["check", options, &device.0]);
        assert_eq!(code, 8, "{options}: {said}");
        assert!(said.contains("`segno rescue") && said.contains("nothing was written"), "{options}: {said}");
    }
    let map = scratch.path("map");
    output(&["rescue", "--list", "--map", map.to_str().unwrap(), &device.0]);
    let map = std::fs::read_to_string(map).unwrap();
    assert!(map.lines().any(|l| l.starts_with("0x00800000") && l.ends_with('-')), "{map}");
    assert!(before == read(&image).unwrap());
}

/// A file system that is too small for the largest file.
#[test]
fn rescue_to_a_full_file_system() {
    let scratch = filled();
    let (image, before) = (scratch.image(), read(scratch.image()).unwrap());
    let out = scratch.path("mounted/out");
    let out = out.to_str().unwrap();
    for args in [&["rescue", &image, out][..], &["rescue", "--to-image", &format!("{out}.img"), &image]] {
        let Some(done) = with_mount(&scratch, "size=100k", args) else { return };
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.to_lowercase().contains("no space left"), "{args:?}: {said}");
    }
    assert!(before == read(&image).unwrap());
}

/// Tags in place of a device, for commands, mounts and unmounts.
#[test]
fn a_volume_is_named_by_its_label_or_id() {
    let (one, two) = (Scratch::new(), Scratch::new());
    let uuid = "5e60a1ab-e100-4000-8000-000000000001";
    for scratch in [&one, &two] {
        output(&["mkfs", "-q", "-f", "-U", uuid, "-l", "a tag", &scratch.image()]);
    }
    let Some(device) = Loop::of(&one.image()) else { return };
    for tag in [format!("UUID={}", uuid.to_uppercase()), "LABEL=a tag".into()] {
        assert!(output(&["info", &tag]).contains(uuid), "{tag}");
        assert!(output(&["check", &tag]).ends_with("clean\n"));
        let dir = one.path("mnt");
        let _exists = create_dir(&dir);
        if super::can_mount() {
            output(&["mount", &tag, dir.to_str().unwrap()]);
            assert!(output(&["mounts"]).contains(&format!("{} on", device.0)));
            output(&["umount", &tag]);
        }
    }
    let Some(second) = Loop::of(&two.image()) else { return };
    let (code, said) = refusal(&["info", "LABEL=a tag"]);
    assert!(code == 1 && said.contains("both have LABEL=a tag: name the device"), "{said}");
    assert!(said.contains(&device.0) && said.contains(&second.0), "{said}");
    let (code, said) = refusal(&["ls", "PARTUUID=0123"]);
    assert!(code == 1 && said.contains("no block device has PARTUUID=0123"), "{said}");
}
