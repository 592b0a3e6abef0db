//! The diffs of CONTRIBUTING.md: each applies to the sources as they are, and has as many lines as the text promises.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a section of CONTRIBUTING.md.
fn section(title: &str) -> String {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (_, rest) = text.split_once(&format!("\n## {title}\n")).unwrap();
    rest.split("\n## ").next().unwrap().to_owned()
}

/// Applies the diff of a section, in memory, and returns the lines that it adds by hand.
fn apply(section: &str) -> usize {
    let (_, diff) = section.split_once("```diff\n").unwrap();
    let (diff, _) = diff.split_once("\n```").unwrap();
    let mut added = 0;
    for file in diff.split("+++ ").skip(1) {
        let (path, hunks) = file.split_once('\n').unwrap();
        let old = fs::read_to_string(root().join(path));
        for hunk in hunks.split("@@\n").skip(1) {
            let lines: Vec<&str> = hunk.lines().collect();
            added += lines.iter().filter(|line| line.starts_with('+')).count();
            let before: Vec<&str> = lines.iter().filter(|l| !l.starts_with('+')).map(|l| &l[1..]).collect();
            match &old {
                Ok(text) => {
                    let all: Vec<&str> = text.lines().collect();
                    let places = all.windows(before.len().max(1)).filter(|w| *w == before).count();
                    assert_eq!(places, 1, "{path} has not these lines, or several times: {before:#?}");
                }
                Err(_) => assert!(before.is_empty(), "{path} is not there"),
            }
        }
    }
    added
}

#[test]
fn a_cleaning_policy_is_added_as_described() {
    let text = section("Adding a cleaning policy");
    assert_eq!(apply(&text), 20);
    assert!(text.contains("In all 20 lines by hand"));
}

#[test]
fn a_mount_option_is_added_as_described() {
    let text = section("Adding a mount option");
    assert_eq!(apply(&text), 10);
    assert!(text.contains("In all ten lines"));
}

#[test]
fn a_subcommand_is_added_as_described() {
    let text = section("Adding a subcommand");
    assert_eq!(apply(&text), 20);
    assert!(text.contains("In all 20 lines"));
}
