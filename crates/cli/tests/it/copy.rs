//! A tree put into an image and taken out again is the same tree.
use super::{Scratch, json, output, refusal};
use std::collections::BTreeMap;
use std::fs::{File, Permissions, create_dir, create_dir_all, hard_link, read_link, set_permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const HOLE: u64 = 30 << 20;

/// Files of all sizes and shapes; an ancient time, a mode without write permission, a hole, several links, odd names.
pub fn plant(root: &Path) {
    create_dir_all(root.join("deep/er")).unwrap();
    for (name, size) in [("empty", 0), ("inline", 3000), ("block", 4096), ("deep/er/large", 3_000_000)] {
        let bytes: Vec<u8> = (0..size).map(|i: u32| b'a' + ((i * 7 + size) % 26) as u8).collect();
        std::fs::write(root.join(name), bytes).unwrap();
    }
    let holes = File::create(root.join("deep/holes")).unwrap();
    holes.write_all_at(b"in the middle", HOLE / 2).unwrap();
    holes.set_len(HOLE).unwrap();
    hard_link(root.join("inline"), root.join("deep/second name")).unwrap();
    symlink("../../inline", root.join("deep/er/link")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    for i in 0..500 {
        std::fs::write(root.join("deep/er").join(format!("{i:0>240}")), i.to_string()).unwrap();
    }
    set_permissions(root.join("block"), Permissions::from_mode(0o4511)).unwrap();
    File::open(root.join("empty")).unwrap().set_modified(UNIX_EPOCH + Duration::new(3, 5)).unwrap();
    File::open(root.join("deep"))
        .unwrap()
        .set_modified(UNIX_EPOCH + Duration::new(1_000_000_000, 7))
        .unwrap();
}

/// The visible properties of a tree, by path. Sizes of directories and times of symbolic links depend on
/// where they are.
pub fn look(root: &Path) -> BTreeMap<String, String> {
    let (mut seen, mut dirs) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in dir.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let common = format!("{:o} {}:{} {} links", meta.mode(), meta.uid(), meta.gid(), meta.nlink());
            let time = format!("{}.{}", meta.mtime(), meta.mtime_nsec());
            let what = if meta.is_dir() {
                dirs.push(path.clone());
                format!("{common} {time}")
            } else if meta.is_symlink() {
                read_link(&path).unwrap().display().to_string()
            } else if !meta.is_file() {
                format!("{common} {time} device {}", meta.rdev())
            } else {
                let bytes = std::fs::read(&path).unwrap();
                let sum = bytes.iter().fold(0u64, |s, &b| s.rotate_left(5) ^ u64::from(b));
                format!("{common} {time} {} bytes, sum {sum:x}", bytes.len())
            };
            seen.insert(path.strip_prefix(root).unwrap().display().to_string(), what);
        }
    }
    seen
}

#[test]
fn a_tree_survives_put_and_get() {
    let scratch = Scratch::new();
    let (image, source, back) = (scratch.image(), scratch.path("tree"), scratch.path("back"));
    create_dir(&source).unwrap();
    plant(&source);
    let put = json(&["put", "--json", &image, source.to_str().unwrap()]);
    assert_eq!(put["files"], 511);
    assert!(output(&["check", &image]).ends_with(", after a clean unmount\nclean\n"));
    output(&["get", "--preserve=all", &image, "tree", back.to_str().unwrap()]);
    assert_eq!(look(&back), look(&source));
    let holes = back.join("deep/holes").metadata().unwrap();
    assert!(holes.blocks() < 64, "the hole was filled: {} sectors", holes.blocks());
}

#[test]
fn files_are_found_and_shown_without_a_mount() {
    let scratch = Scratch::new();
    let (image, source) = (scratch.image(), scratch.path("tree"));
    create_dir(&source).unwrap();
    plant(&source);
    symlink("here/deep/er", scratch.path("shortcut")).unwrap();
    output(&["put", &image, source.to_str().unwrap(), "/here"]);
    assert_eq!(output(&["ls", &image]), "here\n");
    assert_eq!(output(&["ls", &image, "here"]), "block\ndangling\ndeep\nempty\ninline\n");
    assert!(output(&["ls", "-l", &image, "/here"]).contains("-r-s--x--x   1"));
    // Through a symbolic link to a directory, up again, and through one at the end.
    output(&["put", "-P", &image, scratch.path("shortcut").to_str().unwrap()]);
    assert_eq!(output(&["cat", &image, "shortcut/../er/link"]), output(&["cat", &image, "/here/inline"]));
    let stat = json(&["stat", "--json", &image, "/here/empty"]);
    assert_eq!((&stat["mtime"]["sec"], &stat["mtime"]["nsec"]), (&3.into(), &5.into()));
    let extents = json(&["extents", "--json", "--image", &image, "/here/deep/holes"]);
    let list = extents["files"][0]["extents"].as_array().unwrap();
    assert_eq!((list.len(), list[0]["file_block"].as_u64().unwrap()), (1, HOLE / 2 / 4096));
    let all = json(&["extents", "--json", "--all", "--image", &image, "/"]);
    assert_eq!(all["files"].as_array().unwrap().len(), 506);
}

#[test]
fn paths_that_lead_nowhere_are_named() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let (code, said) = refusal(&["cat", &image, "/no/such"]);
    assert_eq!((code, said.as_str()), (1, "segno: /no/such on the volume: no such file or directory\n"));
    let (code, said) = refusal(&["cat", &image, "/"]);
    assert_eq!((code, said.as_str()), (1, "segno: / on the volume is not a file but a directory\n"));
    let (code, said) = refusal(&["put", &image, "/nonexistent"]);
    assert!(code == 1 && said.starts_with("segno: cannot read /nonexistent: No such file"), "{said}");
}

/// The last operand is a destination only if it begins with a slash.
#[test]
fn several_sources_are_all_stored_under_their_names() {
    let scratch = Scratch::new();
    let (image, back) = (scratch.image(), scratch.path("back"));
    let put = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_segno"));
        let done = command.arg("put").args(args).current_dir(scratch.dir.path()).output().unwrap();
        (done.status.code().unwrap(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
    };
    for name in ["a.jpg", "b.jpg"] {
        std::fs::write(scratch.path(name), name).unwrap();
    }
    assert_eq!(put(&["image", "a.jpg", "b.jpg"]), (0, "2 files, 10 B of data\n".into()));
    assert_eq!(output(&["ls", &image]), "a.jpg\nb.jpg\n");
    assert_eq!(["a.jpg", "b.jpg"].map(|name| output(&["cat", &image, name])), ["a.jpg", "b.jpg"]);
    let (code, said) = put(&["image", "a.jpg", "c.jpg"]);
    let expected = "c.jpg: no such file on the host; a destination in the image begins with /: /c.jpg";
    assert!(code == 1 && said.contains(expected), "{said}");
    assert_eq!(put(&["image", "a.jpg", "/c.jpg"]), (0, "1 file, 5 B of data\n".into()));
    let (code, said) = put(&["-f", "image", "a.jpg", "b.jpg", "/c.jpg"]);
    assert!(
        code == 1 && said.contains("/c.jpg on the volume is not a directory: several files need one"),
        "{said}"
    );
    create_dir(scratch.path("dir")).unwrap();
    std::fs::write(scratch.path("dir/a.jpg"), "other").unwrap();
    let (code, said) = put(&["-f", "image", "a.jpg", "dir/a.jpg"]);
    assert!(code == 1 && said.contains("several sources have the name a.jpg"), "{said}");
    put(&["image", "dir"]);
    assert_eq!(put(&["-f", "image", "a.jpg", "b.jpg", "/dir"]), (0, "2 files, 10 B of data\n".into()));
    assert_eq!(output(&["cat", &image, "/dir/a.jpg"]), "a.jpg");
    let dest = back.to_str().unwrap();
    let (code, said) = refusal(&["get", &image, "a.jpg", "b.jpg", dest]);
    assert!(code == 1 && said.contains("back is not a directory: several files need one"), "{said}");
    create_dir(&back).unwrap();
    assert_eq!(output(&["get", &image, "a.jpg", "b.jpg", dest]), "2 files, 10 B of data\n");
    assert_eq!(["a.jpg", "b.jpg"].map(|name| std::fs::read(back.join(name)).unwrap()), [b"a.jpg", b"b.jpg"]);
    let (code, said) = refusal(&["get", "-f", &image, "a.jpg", "dir/a.jpg", dest]);
    assert!(code == 1 && said.contains("several sources have the name"), "{said}");
}

/// Links below a source stay links.
#[test]
fn a_source_that_is_a_symbolic_link_is_followed_unless_it_is_to_be_stored() {
    let scratch = Scratch::new();
    let image = scratch.image();
    create_dir(scratch.path("tree")).unwrap();
    std::fs::write(scratch.path("tree/file"), "content").unwrap();
    symlink("file", scratch.path("tree/inner")).unwrap();
    symlink("tree/file", scratch.path("to-file")).unwrap();
    symlink("tree", scratch.path("to-tree")).unwrap();
    symlink("nowhere", scratch.path("dangling")).unwrap();
    let host = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    let (code, said) = refusal(&["put", &image, &host("to-file"), &host("to-tree")]);
    assert!(
        code == 1 && said.contains("is the path on the volume; add / behind it to copy it from the host"),
        "{said}"
    );
    output(&["put", &image, &host("to-file"), &host("to-tree"), "/"]);
    let kind = |path: &str| json(&["stat", "--json", &image, path])["type"].as_str().unwrap().to_owned();
    let kinds = ["/to-file", "/to-tree", "/to-tree/file", "/to-tree/inner"].map(kind);
    assert_eq!(kinds, ["file", "directory", "file", "symlink"]);
    for option in ["-P", "-a", "--no-dereference"] {
        output(&["put", "-f", option, &image, &host("to-file")]);
        assert_eq!(kind("/to-file"), "symlink");
    }
    let (code, said) = refusal(&["put", &image, &host("dangling")]);
    assert!(code == 1 && said.contains("dangling (-P stores the link): No such file"), "{said}");
    output(&["put", "-P", &image, &host("dangling")]);
}

#[test]
fn put_and_get_fill_directories_and_replace_on_request() {
    let scratch = Scratch::new();
    let (image, tree, back) = (scratch.image(), scratch.path("tree"), scratch.path("back"));
    create_dir(&tree).unwrap();
    std::fs::write(tree.join("old"), "one").unwrap();
    let tree_text = tree.to_str().unwrap();
    output(&["put", &image, tree_text]);
    std::fs::write(tree.join("new"), "two").unwrap();
    std::fs::write(tree.join("secret"), "three").unwrap();
    let (code, said) = refusal(&["put", &image, tree_text]);
    assert!(code == 1 && said.contains("exists already on the volume; overwrite it with -f"), "{said}");
    std::fs::write(tree.join("old"), "changed").unwrap();
    output(&["put", "-f", "--exclude-path", "secret", &image, tree_text]);
    assert_eq!(output(&["ls", &image, "tree"]), "new\nold\n");
    assert_eq!(output(&["cat", &image, "tree/old"]), "changed");
    output(&["get", "--preserve=all", &image, "tree", back.to_str().unwrap()]);
    output(&[
        "get",
        "--preserve=all",
        "-f",
        "--exclude-regex",
        "^new$",
        &image,
        "tree",
        scratch.dir.path().to_str().unwrap(),
    ]);
    assert_eq!(std::fs::read_to_string(back.join("new")).unwrap(), "two");
}

#[test]
fn a_put_without_room_changes_nothing() {
    let scratch = Scratch::new();
    let (image, large) = (scratch.image(), scratch.path("large"));
    std::fs::write(&large, vec![7; 60 << 20]).unwrap();
    let before = output(&["ls", &image]);
    let (code, said) = refusal(&["put", &image, large.to_str().unwrap()]);
    assert!(code == 1 && said.contains("nothing was changed"), "{said}");
    let put = "\"$0\" put \"$1\" - large < \"$2\"";
    let piped = std::process::Command::new("sh")
        .args(["-c", put, env!("CARGO_BIN_EXE_segno"), &image, large.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(!piped.status.success(), "{piped:?}");
    assert_eq!(output(&["ls", &image]), before);
    assert!(output(&["check", &image]).ends_with("clean\n"));
}

/// procfs reports a size of 0 bytes for files that have content.
#[test]
fn a_file_without_a_size_is_copied_to_its_end_or_fails() {
    let scratch = Scratch::new();
    let image = scratch.image();
    output(&["put", &image, "/proc/version", "/kept"]);
    let version = std::fs::read_to_string("/proc/version").unwrap();
    assert_eq!(output(&["cat", &image, "/kept"]), version);
    let (code, said) = refusal(&["put", &image, "/proc/self/mem", "/other"]);
    assert!(code == 1 && said.contains("copying /proc/self/mem"), "{said}");
}
