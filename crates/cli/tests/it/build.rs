//! An image holds the tree that it was built of, and the same tree gives the same image.
use super::copy::{look, plant};
use super::{json, output, refusal};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, mkfifoat, mknodat};
use std::fs::{File, create_dir, hard_link};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

const SEGMENT: u64 = 2 << 20;

struct TestDir {
    dir: tempfile::TempDir,
}

impl TestDir {
    fn new() -> Self {
        let temp = Self { dir: tempfile::tempdir().unwrap() };
        create_dir(temp.path("tree")).unwrap();
        temp
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Builds an image of a directory with these options and returns the report.
    #[track_caller]
    fn build(&self, from: &str, to: &str, options: &[&str]) -> serde_json::Value {
        let (from, to) = (self.text(from), self.text(to));
        json(&[&["build", "--json"], options, &[from.as_str(), to.as_str()]].concat())
    }
}

#[track_caller]
fn assert_clean(image: &Path) {
    let image = image.to_str().unwrap();
    let said = output(&["check", image]);
    assert!(said.ends_with(", after a clean unmount\nclean\n"), "{said}");
    segno_testkit::f2fs_tools::assert_clean("a built image", image.as_ref());
}

#[test]
fn an_image_holds_the_tree() {
    let temp = TestDir::new();
    let tree = temp.path("tree");
    plant(&tree);
    mkfifoat(CWD, tree.join("fifo"), Mode::RUSR).unwrap();
    symlink("t".repeat(4000), tree.join("long link")).unwrap();
    File::create(tree.join(std::ffi::OsStr::from_bytes(b"\xff\xfe"))).unwrap();
    let labelled = lsetxattr(tree.join("deep"), "user.origin", b"camera", XattrFlags::empty()).is_ok();
    // Only root may make devices.
    let device = rustix::fs::makedev(300, 70_000);
    let has_device = mknodat(CWD, tree.join("device"), FileType::BlockDevice, Mode::RUSR, device).is_ok();
    let report = temp.build("tree", "image", &["--owner", "keep", "-l", "system"]);
    assert_clean(&temp.path("image"));
    let (image, back) = (temp.text("image"), temp.text("back"));
    output(&["get", "--preserve=all", &image, "/", &back]);
    assert_eq!(look(&temp.path("back")), look(&tree));
    // One of the names is a second one, and the root has none.
    let names = 513 + u64::from(has_device);
    assert_eq!(report["files"], names);
    let info = json(&["info", "--json", &image]);
    assert_eq!(info["superblock"]["volume_name"], "system");
    assert_eq!(
        info["superblock"]["block_count"].as_u64().unwrap() * 4096,
        report["image_bytes"].as_u64().unwrap()
    );
    if labelled {
        let attributes = output(&["stat", &image, "/deep"]);
        assert!(attributes.contains("user.origin"), "{attributes}");
    }
}

#[test]
fn the_same_tree_gives_the_same_bytes() {
    let temp = TestDir::new();
    create_dir(temp.path("other")).unwrap();
    let names: Vec<String> = (0..300).map(|i| format!("name {}", i * 7919 % 300)).collect();
    let fill = |dir: &str, names: &mut dyn Iterator<Item = &String>| {
        let dir = temp.path(dir);
        for name in names {
            let path = dir.join(name);
            std::fs::write(&path, name.repeat(name.len() * 40)).unwrap();
            File::open(path).unwrap().set_modified(UNIX_EPOCH + Duration::new(1_000_000, 7)).unwrap();
        }
        hard_link(dir.join("name 5"), dir.join("a link")).unwrap();
        File::open(dir).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(2_000_000)).unwrap();
    };
    // The order in which a directory lists its names differs, and so do inode numbers.
    fill("tree", &mut names.iter());
    fill("other", &mut names.iter().rev());
    temp.build("tree", "one", &[]);
    let (other, two) = (temp.text("other"), temp.text("two"));
    let elsewhere = Command::new("sh")
        .args(["-c", "umask 077; exec \"$0\" build \"$1\" \"$2\"", env!("CARGO_BIN_EXE_segno"), &other, &two])
        .env("TZ", "Asia/Tokyo")
        .env("LC_ALL", "C")
        .status()
        .unwrap();
    assert!(elsewhere.success());
    let one = std::fs::read(temp.path("one")).unwrap();
    assert!(one == std::fs::read(temp.path("two")).unwrap(), "the images differ");
    assert_eq!(json(&["stat", "--json", &temp.text("one"), "name 5"])["mtime"]["nsec"], 7);
}

#[test]
fn zeros_are_holes_wherever_the_source_has_holes() {
    let temp = TestDir::new();
    create_dir(temp.path("other")).unwrap();
    std::fs::write(temp.path("tree/file"), vec![0; 100_000]).unwrap();
    let file = File::create(temp.path("other/file")).unwrap();
    file.set_len(100_000).unwrap();
    for (dir, image) in [("tree", "one"), ("other", "two")] {
        let path = temp.path(dir).join("file");
        File::options().write(true).open(path).unwrap().write_all_at(b"data", 50_000).unwrap();
        temp.build(dir, image, &["-T", "1700000000"]);
    }
    let one = std::fs::read(temp.path("one")).unwrap();
    assert!(one == std::fs::read(temp.path("two")).unwrap(), "the images differ");
    let stat = json(&["stat", "--json", &temp.text("one"), "file"]);
    assert_eq!((&stat["size"], &stat["mtime"]["sec"]), (&100_000.into(), &1_700_000_000.into()));
    let extents = json(&["extents", "--json", "--image", &temp.text("one"), "file"]);
    assert_eq!(extents["files"][0]["extents"].as_array().unwrap().len(), 1);
}

#[test]
fn the_smallest_size_is_found_and_named() {
    let temp = TestDir::new();
    let noise: Vec<u8> = (0..40_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(temp.path("tree/noise"), noise).unwrap();
    let smallest = temp.build("tree", "image", &[])["image_bytes"].as_u64().unwrap();
    assert_eq!(std::fs::metadata(temp.path("image")).unwrap().len(), smallest);
    assert_clean(&temp.path("image"));
    let (less, tree, small) = ((smallest - SEGMENT).to_string(), temp.text("tree"), temp.text("small"));
    let (code, said) = refusal(&["build", "--size", &less, &tree, &small]);
    let wanted = format!(
        "segno: the tree does not fit in {less} bytes: {SEGMENT} bytes are missing, {smallest} bytes (--size {smallest}) suffice\n"
    );
    assert_eq!((code, said), (1, wanted));
    // Nothing is left of the image that failed.
    let names: Vec<_> = temp.dir.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let roomy = temp.build("tree", "roomy", &["--headroom", "20M"]);
    assert!(roomy["free_bytes"].as_u64().unwrap() >= 20 << 20, "{roomy}");
}

#[test]
fn what_is_excluded_is_missing_with_all_below_it() {
    let temp = TestDir::new();
    plant(&temp.path("tree"));
    let options = ["--exclude-path", "/deep/er/", "--exclude-regex", "^emp.y$", "--owner", "5:70000"];
    temp.build("tree", "image", &options);
    let image = temp.text("image");
    assert_eq!(output(&["ls", &image]), "block\ndangling\ndeep\ninline\n");
    assert_eq!(output(&["ls", &image, "deep"]), "holes\nsecond name\n");
    assert_eq!(json(&["stat", "--json", &image, "block"])["gid"], 70_000);
    let (code, said) = refusal(&["build", "--exclude-regex", "(", &temp.text("tree"), &temp.text("no")]);
    assert!(code != 0 && said.contains("unclosed group"), "{said}");
}

#[test]
fn an_existing_image_is_replaced_on_request_only() {
    let temp = TestDir::new();
    std::fs::write(temp.path("image"), "precious").unwrap();
    let (tree, image) = (temp.text("tree"), temp.text("image"));
    let (code, said) = refusal(&["build", &tree, &image]);
    assert_eq!((code, said), (1, format!("segno: {image} exists already; overwrite it with -f\n")));
    let (_, said) = refusal(&["build", "-f", "--size", "20M", &tree, &image]);
    assert!(said.contains("suffice"), "{said}");
    let inside = temp.text("tree/image");
    let (_, said) = refusal(&["build", &tree, &inside]);
    assert_eq!(said, format!("segno: {inside} is inside {tree}; put the image elsewhere\n"));
    assert_eq!(std::fs::read(&image).unwrap(), b"precious");
    temp.build("tree", "image", &["-f", "-O", "extra_attr,lost_found"]);
    assert_clean(&temp.path("image"));
    assert!(std::fs::metadata(&image).unwrap().blocks() < 4096, "the image file is not sparse");
}

#[test]
fn an_image_goes_through_archives_and_directories_unchanged() {
    let temp = TestDir::new();
    plant(&temp.path("tree"));
    let options = ["--read-only", "--compress", "zstd:3", "--cluster", "4", "--owner", "keep"];
    let report = temp.build("tree", "one", &options);
    assert!(report["compressed_files"].as_u64().unwrap() > 0, "{report}");
    assert_clean(&temp.path("one"));
    let (one, two, dir, meta) = (temp.text("one"), temp.text("two"), temp.text("dir"), temp.text("meta"));
    let piped = Command::new("sh")
        .args([
            "-c",
            "\"$0\" extract --tar - \"$1\" | \"$0\" build \"$3\" \"$4\" \"$5\" \"$6\" \"$7\" - \"$2\"",
        ])
        .args([env!("CARGO_BIN_EXE_segno"), &one, &two])
        .args(&options[..5])
        .status()
        .unwrap();
    assert!(piped.success());
    let bytes = |name: &str| std::fs::read(temp.path(name)).unwrap();
    assert!(bytes("one") == bytes("two"), "the images differ");
    let said = json(&["extract", "--json", "--manifest", &meta, &one, &dir]);
    assert_eq!(said["files"], report["files"]);
    temp.build("dir", "three", &[&options[..], &["--manifest", &meta]].concat());
    assert!(bytes("one") == bytes("three"), "the images differ");
    let (code, said) = refusal(&["extract", &one, &dir]);
    assert!(code == 1 && said.contains("not empty"), "{said}");
    temp.build("one", "four", &options);
    assert!(bytes("one") == bytes("four"), "the images differ");
}

#[test]
fn a_sparse_image_is_opened_by_other_commands() {
    let temp = TestDir::new();
    plant(&temp.path("tree"));
    temp.build("tree", "sparse", &["--sparse"]);
    assert!(output(&["check", &temp.text("sparse")]).ends_with("clean\n"));
    assert_eq!(output(&["cat", &temp.text("sparse"), "deep/second name"]).len(), 3000);
}

/// Aligned sections leave such an image room for the summaries that a writable volume has.
#[test]
fn a_read_only_image_with_sections_of_several_segments_is_used() {
    let temp = TestDir::new();
    plant(&temp.path("tree"));
    for segments in ["1", "2", "3", "4", "8"] {
        let options = ["-f", "--read-only", "-s", segments, "--size", "128M"];
        temp.build("tree", "image", &options);
        assert_clean(&temp.path("image"));
        let image = temp.text("image");
        assert!(output(&["check", &image]).ends_with("clean\n"), "{segments} segments a section");
        assert!(!output(&["ls", &image]).is_empty());
    }
}
