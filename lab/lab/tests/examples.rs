//! The examples in the help of `segno bench` and `segno crashtest`, run as they are.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, Output};

fn lab(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_segno-lab")).args(words).current_dir(dir).output().unwrap()
}

#[test]
fn examples_of_the_help_run() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["bench", "crashtest"] {
        let help = String::from_utf8(lab(dir.path(), &[command, "--help"]).stdout).unwrap();
        let example =
            help.split("Example:\n").nth(1).unwrap_or_else(|| panic!("{command} has no example")).trim();
        let words: Vec<&str> = example.strip_prefix("segno ").expect(example).split(' ').collect();
        assert_eq!(words[0], command);
        let out = lab(dir.path(), &words);
        assert!(out.status.success(), "{example}: {}", String::from_utf8_lossy(&out.stderr));
    }
    assert!(dir.path().join("result/report.html").exists());
}
