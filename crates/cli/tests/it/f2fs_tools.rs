//! Calls by the names of f2fs-tools: the command lines of programs that call them, run by both, with the results judged by both checkers.
use super::{Scratch, json, output, refusal};
use segno_testkit::f2fs_tools::{assert_clean, command, text};
use serde_json::Value;
use std::fs::{self, File, read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const MIB: u64 = 1 << 20;
const BYTES: u64 = 128 * MIB;

/// A caller, the file that makes the call, its command line, and the exit code. IMG is an image file of 128 MiB, and TREE a directory.
/// Lines of newer versions and builds than Debian's are run by Segno alone.
type Call = (&'static str, &'static str, &'static str, u8, By);

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Both,
    /// An option that f2fs-tools 1.15 of Debian lacks, or whose result is the one of a fault of it.
    Segno,
}
use By::{Both, Segno};

/// How volumes are made.
const MKFS: &[Call] = &[
    (
        "systemd",
        "src/shared/mkfs-util.c",
        "mkfs.f2fs -q -g -f -l root -U 01234567-89ab-cdef-0123-456789abcdef -t 0 IMG",
        0,
        Both,
    ),
    (
        "systemd-repart",
        "src/shared/mkfs-util.c",
        "mkfs.f2fs -g -f -l root -U 01234567-89ab-cdef-0123-456789abcdef -t 1 IMG",
        0,
        Both,
    ),
    ("genimage", "image-f2fs.c", "mkfs.f2fs -l data IMG", 0, Both),
    ("libblockdev", "src/plugins/fs/f2fs.c", "mkfs.f2fs IMG", 0, Both),
    ("udisks", "src/plugins/fs/f2fs.c with options", "mkfs.f2fs -l CARD -O encrypt IMG", 0, Both),
    ("GParted", "src/f2fs.cc", "mkfs.f2fs -l name IMG", 0, Both),
    (
        "mkf2fsuserimg.sh",
        "f2fs_utils/mkf2fsuserimg.sh",
        "make_f2fs -g android -l data -O project_quota,extra_attr -O casefold -C utf8 IMG",
        0,
        Both,
    ),
    ("mkf2fsuserimg.sh", "the same, read-only", "make_f2fs -g android -l system -O ro IMG", 0, Both),
    (
        "mkf2fsuserimg.sh",
        "the same, compressed",
        "make_f2fs -g android -O compression,extra_attr -b 4096 -w 4096 IMG",
        0,
        Segno,
    ),
    ("mkf2fsuserimg.sh", "the same, sparse", "make_f2fs -S 134217728 -g android -l data IMG", 0, Segno),
    (
        "fastboot",
        "fastboot/fs.cpp",
        "make_f2fs -S 134217728 -g android -O project_quota,extra_attr IMG",
        0,
        Segno,
    ),
    ("TWRP", "partition.cpp", "mkfs.f2fs -g android -O project_quota,extra_attr IMG 32768", 0, Both),
    ("AOSP recovery", "recovery_utils/roots.cpp", "make_f2fs -g android -o 10 IMG 32768", 0, Both),
    ("AOSP updater", "updater/install.cpp", "make_f2fs -g android -w 512 IMG 262144", 0, Both),
    (
        "fs_mgr",
        "fs_mgr_format.cpp",
        "make_f2fs -g android -O project_quota,extra_attr -w 4096 -b 4096 IMG 32768",
        0,
        Segno,
    ),
    (
        "a kitchen",
        "its script",
        "make_f2fs -f -O extra_attr,inode_checksum,sb_checksum,compression IMG",
        0,
        Both,
    ),
    ("an old script", "mkfs.f2fs 1.4", "mkfs.f2fs -a 0 -d 1 -s 1 -z 1 -o 5 -e mp3 -t 0 IMG", 0, Both),
    ("newer options", "mkfs.f2fs 1.16", "mkfs.f2fs -H -E db -i -r -T 1700000000 -R 1000:1000 IMG", 0, Segno),
    (
        "a reproducible build",
        "its script",
        "mkfs.f2fs -r -T 0x5f5e100 -U 01234567-89ab-cdef-0123-456789abcdef -w 4096 IMG 16384",
        0,
        Both,
    ),
    ("a wrong call", "", "mkfs.f2fs", 1, Both),
    ("a wrong call", "", "mkfs.f2fs -O sparkle IMG", 1, Both),
    ("a wrong call", "", "mkfs.f2fs -y IMG", 1, Both),
    ("help", "", "mkfs.f2fs -h", 1, Segno),
    ("help", "", "mkfs.f2fs --help", 1, Segno),
    ("what is not here", "", "mkfs.f2fs -b 16384 IMG", 1, Segno),
    ("what is not here", "", "mkfs.f2fs -c IMG@alias IMG", 1, Segno),
    ("a missing device", "", "mkfs.f2fs /nonexistent/device", 255, Both),
];

/// How a volume is checked that is clean.
const FSCK: &[Call] = &[
    ("fsck(8), systemd-fsck", "disk-utils/fsck.c", "fsck.f2fs -a IMG", 0, Both),
    ("fs_mgr", "fs_mgr.cpp", "fsck.f2fs -a -c 10000 --debug-cache IMG", 0, Both),
    ("fs_mgr after errors", "fs_mgr.cpp", "fsck.f2fs -f -c 10000 --debug-cache IMG", 0, Both),
    ("vold", "fs/F2fs.cpp", "fsck.f2fs -a IMG", 0, Both),
    ("libblockdev", "src/plugins/fs/f2fs.c", "fsck.f2fs --dry-run IMG", 0, Both),
    ("GParted", "src/f2fs.cc", "fsck.f2fs -f -a IMG", 0, Both),
    ("newer options", "fsck.f2fs 1.16", "fsck.f2fs -a -m 16 --nolinear-lookup=1 -g android -H IMG", 0, Segno),
    ("other options", "fsck.f2fs 1.15", "fsck.f2fs -p 1 -d 1 -q 1 --no-kernel-check IMG", 0, Both),
    ("the digit of -p in its word", "", "fsck.f2fs -p1 IMG", 0, Both),
    ("a sparse image", "mkf2fsuserimg.sh", "fsck.f2fs -S -M IMG", 0, Segno),
    // For the original, exit code 1 means that errors were corrected.
    ("a wrong call", "", "fsck.f2fs --sparkle IMG", 16, Segno),
    ("a wrong call", "", "fsck.f2fs IMG IMG", 16, Segno),
    ("what is not here", "", "fsck.f2fs -O casefold -C utf8 IMG", 16, Segno),
    ("a missing device", "", "fsck.f2fs -a /nonexistent/device", 8, Both),
];

/// How a new volume is filled.
const SLOAD: &[Call] = &[
    ("genimage", "image-f2fs.c", "sload.f2fs -f TREE IMG", 0, Both),
    ("TWRP", "partition.cpp", "sload_f2fs -t /data IMG", 0, Both),
    ("AOSP recovery", "recovery_utils/roots.cpp", "sload_f2fs -f TREE -t /data IMG", 0, Both),
    (
        "mkf2fsuserimg.sh",
        "f2fs_utils/mkf2fsuserimg.sh",
        "sload_f2fs -f TREE -p out -t /data -T 1700000000 -P IMG",
        0,
        Both,
    ),
    ("a kitchen", "its script", "sload_f2fs -c -a lz4 -L 2 -r -f TREE -T 1700000000 IMG", 0, Segno),
    ("extensions", "", "sload.f2fs -c -a zstd -i log -i txt -f TREE IMG", 0, Segno),
    ("a wrong call", "", "sload.f2fs -L 2 -f TREE IMG", 1, Segno),
    ("what is not here", "", "sload.f2fs -c -m 3 -f TREE IMG", 1, Segno),
    ("a missing source", "", "sload.f2fs -f /nonexistent IMG", 255, Segno),
];

/// The names, as `segno install-helper` makes them.
fn links(scratch: &Scratch) -> PathBuf {
    let dir = scratch.path("sbin");
    fs::create_dir(&dir).unwrap();
    output(&["install-helper", "-q", dir.to_str().unwrap()]);
    dir
}

fn image(scratch: &Scratch, name: &str) -> PathBuf {
    let path = scratch.path(name);
    let _absent = fs::remove_file(&path);
    File::create(&path).unwrap().set_len(BYTES).unwrap();
    path
}

struct Scene {
    scratch: Scratch,
    links: PathBuf,
    tree: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let scratch = Scratch::new();
        let (links, tree) = (links(&scratch), scratch.path("tree"));
        fs::create_dir_all(tree.join("dir/deep")).unwrap();
        fs::write(tree.join("dir/a.log"), "line of a log\n".repeat(20_000)).unwrap();
        fs::write(
            tree.join("dir/b.bin"),
            (0..70_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect::<Vec<u8>>(),
        )
        .unwrap();
        fs::write(tree.join("dir/deep/small"), "small").unwrap();
        fs::set_permissions(tree.join("dir/deep/small"), fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("dir/a.log", tree.join("link")).unwrap();
        Self { scratch, links, tree }
    }

    fn words(&self, line: &str, image: &Path) -> Vec<String> {
        let place = |word: &str| match word {
            "IMG" => image.to_str().unwrap().to_owned(),
            "TREE" => self.tree.to_str().unwrap().to_owned(),
            word => word.replace("IMG@", &format!("{}@", image.display())),
        };
        line.split(' ').map(place).collect()
    }

    fn ours(&self, line: &str, image: &Path) -> Output {
        let words = self.words(line, image);
        Command::new(self.links.join(&words[0])).args(&words[1..]).stdin(Stdio::null()).output().unwrap()
    }

    fn theirs(&self, line: &str, image: &Path) -> Output {
        let words = self.words(line, image);
        let name = words[0].replace("make_f2fs", "mkfs.f2fs").replace('_', ".");
        command(&name).unwrap().args(&words[1..]).output().unwrap()
    }
}

/// Superblock and checkpoint without what is random or of the host.
fn shape(image: &Path) -> Value {
    let mut info = json(&["info", "--json", image.to_str().unwrap()]);
    for field in ["version", "init_version", "uuid", "minor_ver"] {
        info["superblock"][field].take();
    }
    let cp = &info["checkpoint"];
    let kept = ["user_block_count", "overprov_segment_count", "rsvd_segment_count", "valid_inode_count"];
    let checkpoint: Vec<Value> = kept.iter().map(|field| cp[*field].clone()).collect();
    serde_json::json!([info["superblock"], checkpoint])
}

fn code(out: &Output) -> u8 {
    u8::try_from(out.status.code().unwrap()).unwrap()
}

#[test]
fn volumes_are_made_as_callers_ask() {
    let scene = Scene::new();
    for &(caller, file, line, expected, by) in MKFS {
        let ours = image(&scene.scratch, "ours");
        let done = scene.ours(line, &ours);
        let said = format!("{caller}, {file}: {line}: {}", text(&done));
        assert_eq!(code(&done), expected, "{said}");
        if expected != 0 {
            assert!(
                done.stdout.is_empty() && done.stderr.starts_with(b"segno: ") || line.contains("sparkle"),
                "{said}"
            );
            assert!(read(&ours).unwrap().iter().all(|&b| b == 0), "{said}: it has written");
        } else if !line.contains("-S ") {
            assert_clean(line, &ours);
            assert!(output(&["check", ours.to_str().unwrap()]).ends_with("clean\n"), "{said}");
        }
        if by == Both {
            let theirs = image(&scene.scratch, "theirs");
            let original = scene.theirs(line, &theirs);
            assert_eq!(code(&original), expected, "{said}: the original: {}", text(&original));
            if expected == 0 {
                assert_eq!(shape(&ours), shape(&theirs), "{said}");
            }
        }
    }
    println!("{} command lines of mkfs.f2fs", MKFS.len());
}

#[test]
fn a_sparse_volume_unpacks_to_the_plain_one() {
    let scene = Scene::new();
    let (plain, sparse) = (image(&scene.scratch, "plain"), scene.scratch.path("sparse"));
    let options = "-g android -r -T 1 -U 01234567-89ab-cdef-0123-456789abcdef";
    // A sparse image is not discarded.
    assert!(scene.ours(&format!("make_f2fs {options} -t 0 IMG"), &plain).status.success());
    assert!(scene.ours(&format!("make_f2fs -S {BYTES} {options} IMG"), &sparse).status.success());
    let raw = scene.scratch.path("raw");
    // Of Android's tools, where they are installed.
    match Command::new("simg2img").args([&sparse, &raw]).status() {
        Ok(done) => assert!(done.success()),
        Err(_) => drop(output(&["sparse", "unpack", sparse.to_str().unwrap(), raw.to_str().unwrap()])),
    }
    assert!(read(&plain).unwrap() == read(&raw).unwrap());
    assert!(fs::metadata(&sparse).unwrap().len() < MIB);
}

#[test]
fn volumes_are_checked_as_callers_ask() {
    let scene = Scene::new();
    for &(caller, file, line, expected, by) in FSCK {
        let ours = image(&scene.scratch, "ours");
        assert!(command("mkfs.f2fs").unwrap().arg("-q").arg(&ours).status().unwrap().success());
        let before = read(&ours).unwrap();
        let said = format!("{caller}, {file}: {line}");
        let done = scene.ours(line, &ours);
        assert_eq!(code(&done), expected, "{said}: {}", text(&done));
        assert!(read(&ours).unwrap() == before, "{said}: it has written");
        if by == Both {
            let original = scene.theirs(line, &ours);
            assert_eq!(code(&original), expected, "{said}: the original: {}", text(&original));
        }
    }
    println!("{} command lines of fsck.f2fs", FSCK.len());
}

/// On a volume with damage that both repair: -a leaves what costs data, -f repairs everything, --dry-run nothing.
#[test]
fn damage_is_repaired_by_f() {
    let scene = Scene::new();
    let damaged = super::fsck::damaged(&scene.scratch);
    let damaged = Path::new(&damaged);
    let before = read(damaged).unwrap();
    assert_eq!(code(&scene.ours("fsck.f2fs --dry-run IMG", damaged)), 4);
    assert_eq!(code(&scene.ours("fsck.f2fs -N -f IMG", damaged)), 4);
    assert!(read(damaged).unwrap() == before);
    assert_eq!(code(&scene.ours("fsck.f2fs -f IMG", damaged)), 1);
    assert_clean("repaired", damaged);
}

/// Paths, types, modes, owners, sizes and contents of a volume.
fn tree_of(scratch: &Scratch, image: &Path) -> Vec<(PathBuf, u32, u32, Vec<u8>)> {
    let out = scratch.path("copied");
    let _absent = fs::remove_dir_all(&out);
    output(&["get", image.to_str().unwrap(), "/", out.to_str().unwrap()]);
    let mut all = Vec::new();
    let mut dirs = vec![out.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
            let meta = entry.symlink_metadata().unwrap();
            let content = if meta.is_file() {
                read(&entry).unwrap()
            } else if meta.is_symlink() {
                fs::read_link(&entry).unwrap().into_os_string().into_encoded_bytes()
            } else {
                dirs.push(entry.clone());
                Vec::new()
            };
            all.push((entry.strip_prefix(&out).unwrap().to_owned(), meta.mode(), meta.uid(), content));
        }
    }
    all.sort();
    all
}

#[test]
fn volumes_are_filled_as_callers_ask() {
    let scene = Scene::new();
    for &(caller, file, line, expected, by) in SLOAD {
        let said = format!("{caller}, {file}: {line}");
        let make = "mkfs.f2fs -q -l data -O extra_attr,compression,inode_checksum -o 20 IMG";
        let ours = image(&scene.scratch, "ours");
        assert!(scene.theirs(make, &ours).status.success());
        let (made, before) = (shape(&ours), read(&ours).unwrap());
        let done = scene.ours(line, &ours);
        assert_eq!(code(&done), expected, "{said}: {}", text(&done));
        if expected != 0 {
            assert!(read(&ours).unwrap() == before, "{said}: it has written");
            continue;
        }
        assert_clean(line, &ours);
        let filled = shape(&ours);
        assert_eq!((&filled[0], &filled[1][0]), (&made[0], &made[1][0]), "{said}: the volume is another one");
        if by == Both {
            let theirs = image(&scene.scratch, "theirs");
            assert!(scene.theirs(make, &theirs).status.success());
            // Its own check finds 1, which is corrected.
            let original = scene.theirs(line, &theirs);
            assert!([0, 1].contains(&code(&original)), "{said}: the original: {}", text(&original));
            assert_eq!(tree_of(&scene.scratch, &ours), tree_of(&scene.scratch, &theirs), "{said}");
        }
    }
    println!("{} command lines of sload.f2fs", SLOAD.len());
}

#[test]
fn a_volume_with_files_and_a_block_device_are_not_filled() {
    let scene = Scene::new();
    let full = image(&scene.scratch, "full");
    assert!(scene.ours("mkfs.f2fs -q IMG", &full).status.success());
    assert!(scene.ours("sload.f2fs -f TREE IMG", &full).status.success());
    let before = read(&full).unwrap();
    let again = scene.ours("sload.f2fs -f TREE IMG", &full);
    assert_eq!(code(&again), 255);
    assert!(text(&again).contains("has files already: `segno put "), "{}", text(&again));
    assert!(read(&full).unwrap() == before);
}

/// A sparse image stays one, and a volume that nothing writes is filled too.
#[test]
fn sparse_and_read_only_images_are_filled() {
    let scene = Scene::new();
    for (make, fill) in [
        (format!("make_f2fs -S {BYTES} -g android IMG"), "sload_f2fs -S -f TREE -t /data IMG"),
        (
            "make_f2fs -g android -O ro,extra_attr,compression IMG".to_owned(),
            "sload_f2fs -c -f TREE -t /vendor IMG",
        ),
    ] {
        let path = image(&scene.scratch, "image");
        let made = scene.ours(&make, &path);
        assert!(made.status.success(), "{make}: {}", text(&made));
        let filled = scene.ours(fill, &path);
        assert!(filled.status.success(), "{fill}: {}", text(&filled));
        let is_sparse = read(&path).unwrap().starts_with(&0xED26_FF3A_u32.to_le_bytes());
        assert_eq!(is_sparse, make.contains("-S "));
        assert_eq!(output(&["cat", path.to_str().unwrap(), "/dir/deep/small"]), "small");
        if !is_sparse {
            assert_clean(fill, &path);
        }
    }
}

/// As GParted (`src/f2fs.cc`) and libblockdev (`src/plugins/fs/f2fs.c`) read them.
#[test]
fn figures_are_read_by_gparted_and_libblockdev() {
    let scene = Scene::new();
    let path = image(&scene.scratch, "image");
    assert!(scene.ours("mkfs.f2fs -q -l name -O encrypt IMG", &path).status.success());
    let number = |text: &str, key: &str, end: char| {
        let rest = text.split_once(key).unwrap_or_else(|| panic!("{key}: {text}")).1;
        rest.split(end).next().unwrap().rsplit(' ').next().unwrap().to_owned()
    };
    let read = |out: Output| {
        let text = String::from_utf8(out.stdout).unwrap();
        let fields = ["user_block_count", "valid_block_count", "log_blocksize"];
        let fields = fields.map(|key| number(&text, &format!("{key} "), ']'));
        let info = |key: &str| {
            let rest =
                text.split_once(&format!("Info: {key} = ")).unwrap_or_else(|| panic!("{key}: {text}")).1;
            rest.split([' ', '\n']).next().unwrap().to_owned()
        };
        (
            fields,
            ["superblock features", "total FS sectors"].map(info),
            text.contains("Info: sector size = 512\n"),
        )
    };
    let ours = read(scene.ours("dump.f2fs -d 1 IMG", &path));
    let theirs = read(scene.theirs("dump.f2fs -d 1 IMG", &path));
    // The original gives the size of a sector of block devices only.
    assert_eq!((&ours.0, &ours.1, ours.2), (&theirs.0, &theirs.1, true));
    // libblockdev: `fsck.f2fs\s+([\d\.]+).+`, at least 1.11.0.
    let version = text(&scene.ours("fsck.f2fs -V", &path));
    let (name, rest) = version.split_once(' ').unwrap();
    let mut parts = rest.split(' ').next().unwrap().split('.').map(|part| part.parse::<u32>().unwrap());
    assert_eq!((name, parts.next()), ("fsck.f2fs", Some(1)));
    assert!(parts.next() >= Some(11) && version.contains("segno"));
}

#[test]
fn structures_are_shown_and_labels_changed() {
    let scene = Scene::new();
    let path = image(&scene.scratch, "image");
    assert!(scene.theirs("mkfs.f2fs -q -l first IMG", &path).status.success());
    for (line, part) in [
        ("dump.f2fs -i 3 IMG", "i_mode"),
        ("dump.f2fs -i 0x3 IMG", "i_mode"),
        ("dump.f2fs -n 0~10 -s 0~2 -f IMG", "nid"),
        ("dump.f2fs -a 0~-1 IMG", ""),
        ("dump.f2fs -b 0x1000 IMG", ""),
        ("dump.f2fs -M IMG", ""),
        ("f2fslabel IMG", "first\n"),
        ("f2fslabel IMG second", "second\n"),
        ("f2fslabel IMG", "second\n"),
    ] {
        let done = scene.ours(line, &path);
        assert!(done.status.success() && text(&done).contains(part), "{line}: {}", text(&done));
    }
    assert!(text(&scene.theirs("f2fslabel IMG", &path)).contains("volume label = second"));
    let out = scene.scratch.path("dumped");
    assert!(scene.ours(&format!("dump.f2fs -r -P -o {} IMG", out.display()), &path).status.success());
    assert!(out.is_dir());
    assert_eq!(code(&scene.ours("f2fslabel IMG a b", &path)), 1);
    assert_clean("labelled", &path);
}

/// The block map that Android's tools for updates read.
#[test]
fn the_map_of_blocks_is_that_of_the_original() {
    let scene = Scene::new();
    let path = image(&scene.scratch, "image");
    assert!(scene.ours("mkfs.f2fs -q IMG", &path).status.success());
    assert!(scene.ours("sload.f2fs -f TREE IMG", &path).status.success());
    let lines = |out: Output| {
        let text = String::from_utf8(out.stdout).unwrap();
        let mut lines: Vec<String> =
            text.lines().filter(|l| l.starts_with("/dir/") && l.contains(' ')).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (ours, theirs) =
        (lines(scene.ours("fsck.f2fs -M IMG", &path)), lines(scene.theirs("fsck.f2fs -M IMG", &path)));
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 2, "{ours:?}");
}

#[test]
fn links_are_made_where_nothing_else_is() {
    let scratch = Scratch::new();
    let dir = links(&scratch);
    let names = [
        "mkfs.f2fs",
        "make_f2fs",
        "fsck.f2fs",
        "fsck_f2fs",
        "sload_f2fs",
        "dump.f2fs",
        "f2fslabel",
        "mount.f2fs",
    ];
    for name in names {
        assert_eq!(
            dir.join(name).canonicalize().unwrap(),
            Path::new(env!("CARGO_BIN_EXE_segno")).canonicalize().unwrap()
        );
    }
    let text = dir.to_str().unwrap();
    assert_eq!(output(&["install-helper", text]), "", "they are there");
    output(&["install-helper", "-q", "--remove", text]);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    fs::write(dir.join("mkfs.f2fs"), "another program").unwrap();
    let (code, said) = refusal(&["install-helper", text]);
    assert!(code == 1 && said.contains("exists already and is not this program"), "{said}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

/// A program in place of mount(8) records what mount.f2fs hands over.
#[test]
fn what_the_kernel_has_is_mounted_by_the_kernel() {
    let scene = Scene::new();
    let (bin, dir) = (scene.scratch.path("bin"), scene.scratch.path("mnt"));
    [&bin, &dir].into_iter().for_each(|d| fs::create_dir(d).unwrap());
    let script = scene.scratch.path("script");
    fs::write(&script, "#!/bin/sh\necho mount \"$@\"\n").unwrap();
    assert!(Command::new("install").args([&script, &bin.join("mount")]).status().unwrap().success());
    let kernel = fs::read_to_string("/proc/filesystems").unwrap().lines().any(|l| l.trim() == "f2fs");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let run = |args: &[&str]| {
        let call =
            Command::new(scene.links.join("mount.f2fs")).args(args).env("PATH", &path).output().unwrap();
        text(&call)
    };
    // A remount of a mount that is not Segno's is passed to the kernel in any case.
    let said = run(&["/dev/none", "/proc", "-o", "remount,ro,noatime"]);
    assert_eq!(said, "mount -i -t f2fs -o remount,ro,noatime -- /dev/none /proc\n");
    let image = image(&scene.scratch, "image");
    assert!(scene.ours("mkfs.f2fs -q IMG", &image).status.success());
    let (image, dir) = (image.to_str().unwrap(), dir.to_str().unwrap());
    if kernel {
        assert!(run(&[image, dir]).starts_with("mount -i -t f2fs"));
    }
    if super::can_mount() {
        let said = run(&[image, dir, "-o", "segno,ro"]);
        assert_eq!(said, "", "Segno mounts");
        output(&["umount", dir]);
    }
}
