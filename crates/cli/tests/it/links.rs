//! The packages that the program is built from.
use std::process::Command;

/// Test devices and injected faults must not reach users' data, and experiments made up two fifths of the program.
#[test]
fn the_program_links_no_laboratory() {
    let args =
        ["tree", "--offline", "-p", "segno-cli", "-e", "normal,build", "--prefix", "none", "--format", "{p}"];
    let out = Command::new(env!("CARGO")).args(args).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let tree = String::from_utf8(out.stdout).unwrap();
    assert!(tree.contains("segno-engine"), "{tree}");
    for crate_name in ["segno-bench", "segno-sim", "segno-gcmodel", "segno-testkit", "segno-lab"] {
        assert!(!tree.contains(crate_name), "segno links {crate_name}");
    }
}
