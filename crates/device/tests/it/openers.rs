//! All storage is opened by crate `device`, where others are kept out. The other crates open files of other
//! kinds, listed here.
use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// Calls that open a file, or storage without keeping others out.
const CALLS: [&str; 7] = [
    "File::open(",
    "File::options()",
    "fs::OpenOptions::new()",
    "FileDevice::observe(",
    "observe_storage(",
    "observe_partition(",
    "FileDevice::open_held(",
];

/// Sources with calls that open files, the number of calls, and the opened file.
const ALLOWED: [(&str, usize, &str); 19] = [
    ("cli/src/commands/check/feedback.rs", 1, "the descriptor for progress"),
    ("cli/src/commands/check/judge.rs", 1, "a block device that is mounted read-only, for its repair"),
    ("cli/src/commands/check/repair.rs", 2, "an undo file"),
    ("cli/src/commands/sparse.rs", 1, "an image that is held, or a sparse file"),
    ("cli/src/commands/sync.rs", 1, "a directory of a mount"),
    ("cli/src/mount/background.rs", 2, "/dev/null and the log"),
    ("cli/src/mount/supervisor.rs", 1, "the superblock, whose UUID is compared before a new mount"),
    ("cli/src/segments/mod.rs", 1, "an observed mount"),
    ("cli/src/tag.rs", 1, "a superblock, whose label and UUID are compared"),
    ("fuse/src/probe.rs", 1, "a file of a mount"),
    ("host/src/entry.rs", 1, "a file of a tree that is copied"),
    ("host/src/mode.rs", 1, "a list, a map or a scan that a command writes"),
    ("image/src/build.rs", 1, "a new image, which its caller made"),
    ("image/src/content.rs", 1, "sources on the host"),
    ("image/src/new_file.rs", 3, "a new image and its directory, and what a killed run left there"),
    ("image/src/source/mod.rs", 2, "an archive"),
    ("image/src/source/tar/spool.rs", 1, "an archive"),
    ("segno/src/find.rs", 5, "disk images whose volumes are listed"),
    ("segno/src/open.rs", 1, "a file of a volume"),
];

#[test]
fn storage_is_opened_where_others_are_kept_out() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    let mut found = BTreeMap::new();
    for name in [
        "capi", "check", "cli", "dump", "engine", "fuse", "host", "image", "mkfs", "python", "repair",
        "rescue", "segno", "virtiofs",
    ] {
        count(&crates.join(name).join("src"), &crates, &mut found);
    }
    let allowed: BTreeMap<String, usize> =
        ALLOWED.iter().map(|(path, n, _)| ((*path).to_owned(), *n)).collect();
    assert_eq!(found, allowed, "open images and devices through segno-device, or list what else is opened");
}

fn count(dir: &Path, crates: &Path, found: &mut BTreeMap<String, usize>) {
    let paths: Vec<PathBuf> = read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    for path in paths {
        if path.is_dir() {
            if !path.ends_with("tests") {
                count(&path, crates, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            let text = read_to_string(&path).unwrap();
            let product = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let n: usize = CALLS.iter().map(|call| product.matches(call).count()).sum();
            if n > 0 {
                found.insert(path.strip_prefix(crates).unwrap().display().to_string(), n);
            }
        }
    }
}
