//! A mount with every option of the kernel's F2FS, alone and in usual lines. The error for a refused option
//! names the remedy.
use super::{Scratch, can_mount, output, refusal, segno};
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[path = "../../src/mount/options/kernel_table.rs"]
mod kernel_table;
use kernel_table::Handling::{self, Ignored, Refused, Works};
use kernel_table::{ANDROID, KERNEL, USUAL};

/// Mounts at a time; each has its own volume.
const WORKERS: usize = 3;

/// A volume that has the features which options ask for, and its mount.
struct Mount {
    image: String,
    dir: String,
    _scratch: Scratch,
}

impl Mount {
    fn new() -> Self {
        let scratch = Scratch::new();
        let image = scratch.image();
        output(&["mkfs", "-q", "-f", "-O", "extra_attr,compression", &image]);
        let dir = scratch.path("mnt").to_str().unwrap().to_owned();
        fs::create_dir(&dir).unwrap();
        Self { image, dir, _scratch: scratch }
    }

    /// Mounts as `segno mount -v` does.
    fn by_hand(&self, options: &str) -> Output {
        segno(&["mount", "-v", "-o", options, &self.image, &self.dir])
    }

    /// Mounts as mount(8) does with a line of fstab.
    fn by_fstab(&self, options: &str) -> Output {
        let mut helper = Command::new(env!("CARGO_BIN_EXE_segno"));
        helper.arg0("mount.segno").args([&self.image, &self.dir, "-o", options]).output().unwrap()
    }

    /// Writes and reads a file of the mount, unmounts it and checks the volume.
    fn use_it(&self, options: &str) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(mounts.lines().any(|l| l.split(' ').nth(1) == Some(&self.dir)), "{options}: no mount");
        let file = Path::new(&self.dir).join("file.txt");
        let written = fs::File::create(&file).and_then(|mut f| {
            f.write_all(options.as_bytes())?;
            f.sync_all()
        });
        if options.split(',').any(|word| word == "ro") {
            let error = written.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{options}: {error}");
        } else {
            written.unwrap_or_else(|e| panic!("{options}: {e}"));
            assert_eq!(fs::read_to_string(&file).unwrap(), options);
        }
        output(&["umount", &self.dir]);
        output(&["check", "-q", &self.image]);
    }

    fn try_one(&self, fate: Handling, word: &str) {
        if fate == Refused {
            let (code, said) = refusal(&["mount", "-o", word, &self.image, &self.dir]);
            let advice = said.strip_prefix(&format!("segno: mount option {word} is not supported: "));
            assert!(code == 2 && advice.is_some_and(|a| a.len() > 10), "{word}: {code} {said}");
            return;
        }
        let out = self.by_hand(word);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{word}: {said}");
        // Words of mount(8) and of access times have no effect anywhere, and are not reported.
        let noted = said.contains(&format!("{word} has no effect: "));
        assert!(!noted || fate == Ignored, "{word}: {said}");
        self.use_it(word);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if thread::panicking() {
            segno(&["umount", &self.dir]);
        }
    }
}

#[test]
fn each_is_mounted_alone() {
    if !can_mount() {
        return;
    }
    let words = KERNEL.iter().flat_map(|(fate, words)| words.split(' ').map(move |word| (*fate, word)));
    let of_recovery = ["ro,norecovery", "ro,disable_roll_forward"].map(|words| (Works, words));
    let all: Vec<(Handling, &str)> = words.chain(of_recovery).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let mount = Mount::new();
                while let Some((fate, word)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    mount.try_one(*fate, word);
                }
            });
        }
    });
}

#[test]
fn usual_lines_of_fstab_are_mounted() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new();
    for (line, _) in USUAL {
        let out = mount.by_fstab(line);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.is_empty(), "{line}: {said}");
        mount.use_it(line);
    }
    let out = mount.by_fstab(ANDROID.0);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains(ANDROID.1), "{said}");
}

#[test]
fn options_of_compression_on_a_volume_without_it_are_reported() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path("mnt");
    fs::create_dir(&dir).unwrap();
    let dir = dir.to_str().unwrap();
    let out = segno(&["mount", "-o", "compress_algorithm=zstd:6,errors=continue", &scratch.image(), dir]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.starts_with("segno: note: compress_algorithm=zstd:6 without effect: "), "{said}");
    output(&["umount", dir]);
}
