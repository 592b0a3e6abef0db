//! Exit codes of command lines that are not accepted.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use std::process::Command;

#[test]
fn a_usage_error_of_every_command_is_2() {
    for words in [
        "",
        "nonsense",
        "bench --no-such-option",
        "bench run --no-such-option",
        "bench device --no-such-option",
        "crashtest --no-such-option",
        "crashtest --only nonsense",
        "hunt --no-such-option",
        "mount-ceiling",
        "mount-zoned",
    ] {
        let words: Vec<&str> = words.split_terminator(' ').collect();
        let out = Command::new(env!("CARGO_BIN_EXE_segno-lab")).args(&words).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
}
