//! Limits on the size of source files. That of functions is clippy's `too_many_lines`.
use std::fs;
use std::path::{Path, PathBuf};

/// A longer file is hard to keep in mind.
const LONGEST: usize = 600;
/// Half of all files are shorter.
const MEDIAN: usize = 150;

/// The source files below a directory.
pub fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            // Packages outside the workspace build into separate directories.
            if entry.file_name() != "target" {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn source_files_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    sources(&root.join("crates"), &mut paths);
    sources(&root.join("xtask"), &mut paths);
    assert!(paths.len() > 500, "the sources were not found");
    let mut lines: Vec<(usize, &PathBuf)> =
        paths.iter().map(|p| (fs::read_to_string(p).unwrap().lines().count(), p)).collect();
    lines.sort();
    let long: Vec<_> = lines.iter().filter(|(n, _)| *n > LONGEST).collect();
    assert!(long.is_empty(), "more than {LONGEST} lines: {long:?}");
    let (median, _) = lines[lines.len() / 2];
    assert!(median < MEDIAN, "half of all files have {median} lines or more, not below {MEDIAN}");
}
