//! A user changes the tree that root copies, while a large file of it is copied: files that were listed become links to one that only
//! root may read, and the copy itself becomes a link. Nothing of the target enters an image, and nothing of it changes.
use super::{Scratch, output};
use std::fs::{Permissions, create_dir, read_dir, rename, set_permissions, write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SECRET: &str = "a secret that only root may read";
/// It takes a while to copy.
const LARGE: usize = 32 << 20;

/// A volume with room, and a file outside of all that is copied.
fn prepare(scratch: &Scratch) {
    output(&["mkfs", "-q", "-f", "--size", "128M", &scratch.image()]);
    create_dir(scratch.path("victim")).unwrap();
    write(scratch.path("victim/file"), SECRET).unwrap();
    set_permissions(scratch.path("victim/file"), Permissions::from_mode(0o600)).unwrap();
    set_permissions(scratch.path("victim"), Permissions::from_mode(0o700)).unwrap();
}

/// Bytes that are not holes.
fn large() -> Vec<u8> {
    (0..LARGE).map(|i| (i % 251) as u8 | 1).collect()
}

/// Runs the command, and `swap` once it has a file of this path open.
fn swapped(args: &[&str], open: &Path, swap: impl FnOnce()) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_segno"));
    let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let fds = format!("/proc/{}/fd", child.id());
    let has_opened = || {
        let all = read_dir(&fds).into_iter().flatten().flatten();
        all.map(|fd| fd.path()).any(|fd| fd.read_link().is_ok_and(|path| path == open))
    };
    while !has_opened() {
        assert!(child.try_wait().unwrap().is_none(), "{args:?} has ended");
    }
    swap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_file_that_became_a_link_after_it_was_listed_is_named_and_not_followed() {
    let scratch = Scratch::new();
    prepare(&scratch);
    create_dir(scratch.path("tree")).unwrap();
    write(scratch.path("tree/large"), large()).unwrap();
    // Some come after the large one in the order of the directory.
    let names: Vec<String> = (0..60).map(|i| format!("tree/file{i}")).collect();
    names.iter().for_each(|name| write(scratch.path(name), "public").unwrap());
    let (image, tree) = (scratch.image(), scratch.path("tree").display().to_string());
    let done = swapped(&["put", &image, &tree, "/copy"], &scratch.path("tree/large"), || {
        // At once: a name that is missing for a moment would be another error.
        for name in &names {
            symlink("../victim/file", scratch.path("link")).unwrap();
            rename(scratch.path("link"), scratch.path(name)).unwrap();
        }
    });
    let said = String::from_utf8(done.stderr).unwrap();
    let named = said.contains("tree/file") && said.contains("it was a regular file and is a symbolic link");
    assert!(done.status.code() == Some(1) && named, "{said}");
    let bytes = std::fs::read(&image).unwrap();
    assert!(!bytes.windows(SECRET.len()).any(|found| found == SECRET.as_bytes()));
    assert!(output(&["check", &image]).ends_with("clean\n"));
}

#[test]
fn attributes_are_not_set_on_a_file_that_replaced_the_copy() {
    let scratch = Scratch::new();
    prepare(&scratch);
    let source = scratch.path("tree");
    create_dir(&source).unwrap();
    write(source.join("large"), large()).unwrap();
    set_permissions(source.join("large"), Permissions::from_mode(0o646)).unwrap();
    let image = scratch.image();
    output(&["put", &image, source.to_str().unwrap(), "/tree"]);
    for command in [&["get", &image, "/tree", "OUT"][..], &["extract", "--path", "/tree", &image, "OUT"]] {
        let out = scratch.path("out");
        let args: Vec<&str> =
            command.iter().map(|w| if *w == "OUT" { out.to_str().unwrap() } else { w }).collect();
        let done = swapped(&args, &out.join("large"), || {
            rename(out.join("large"), scratch.path("moved")).unwrap();
            symlink("../victim/file", out.join("large")).unwrap();
        });
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let mode = |name: &str| scratch.path(name).metadata().unwrap().mode() & 0o7777;
        assert_eq!(
            (mode("victim/file"), mode("victim"), mode("moved")),
            (0o600, 0o700, 0o646),
            "{command:?}"
        );
        assert_eq!(std::fs::read_to_string(scratch.path("victim/file")).unwrap(), SECRET);
        assert_eq!(std::fs::read(scratch.path("moved")).unwrap(), large(), "{command:?}");
        std::fs::remove_dir_all(&out).unwrap();
    }
}
