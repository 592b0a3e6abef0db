//! The commit that the program is built from, for pictures, pages and reports.
use std::path::Path;
use std::process::Command;

fn main() {
    let git = Path::new("../../.git");
    println!("cargo:rerun-if-changed=build.rs");
    for file in [git.join("HEAD"), git.join("logs/HEAD")].iter().filter(|f| f.exists()) {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    let described = Command::new("git").args(["describe", "--always", "--abbrev=12"]).output();
    if let Ok(commit) = described.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
        && git.exists()
        && !commit.is_empty()
    {
        println!("cargo:rustc-env=SEGNO_COMMIT={commit}");
    }
}
