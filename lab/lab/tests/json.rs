//! JSON documents of the experiments, judged by their schemas in docs/schema.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use segno_testkit::documents;
use std::process::Command;

#[test]
fn documents_follow_their_schemas() {
    let mut printed = Vec::new();
    for line in ["bench run --quick --rounds 1 --json fsync32", "crashtest --json --case scene:0@default"] {
        let words = line.split(' ');
        let out = Command::new(env!("CARGO_BIN_EXE_segno-lab")).args(words).output().unwrap();
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        printed.push(String::from_utf8(out.stdout).unwrap());
    }
    assert_eq!(documents::wrong(&printed).unwrap(), "");
}
