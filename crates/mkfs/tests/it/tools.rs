//! The installed f2fs-tools.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a tool; also looks where distributions put it when it is not in PATH.
pub fn run(tool: &str, args: &[&str], devices: &[PathBuf]) -> Output {
    let found = ["", "/usr/sbin/", "/sbin/"].iter().map(|dir| format!("{dir}{tool}")).find_map(|name| {
        match Command::new(&name).args(args).args(devices).output() {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            done => Some(done.unwrap_or_else(|e| panic!("{name}: {e}"))),
        }
    });
    found.unwrap_or_else(|| panic!("{tool} is not installed; this test needs f2fs-tools"))
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A sparse file.
pub fn sparse(path: &Path, bytes: u64) -> PathBuf {
    std::fs::File::create(path).unwrap().set_len(bytes).unwrap();
    path.to_owned()
}

/// Fails unless fsck.f2fs finds nothing to repair.
pub fn fsck_is_clean(context: &str, devices: &[PathBuf]) {
    // The other devices are found through the superblock.
    let output = run("fsck.f2fs", &["-f", "--dry-run"], &devices[..1]);
    let text = text(&output);
    let complaint = ["[Fail]", "[ASSERT]", "[FIX]", "[ERROR]", "Fixing", "Invalid", "mismatch"]
        .iter()
        .find(|w| text.contains(*w));
    assert!(output.status.success() && complaint.is_none(), "{context}: fsck.f2fs complains:\n{text}");
    assert!(
        text.contains("[FSCK] other corrupted bugs                           [Ok..]"),
        "{context}: {text}"
    );
}
