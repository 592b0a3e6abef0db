//! Set-group-ID of a file without group execution: a change of content clears it unless the caller is in the group of the
//! file or has CAP_FSETID. Linux decides what is right, on a tmpfs.
use super::{each_transport, run};
use std::fs::{self, Permissions, metadata, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// A directory of a tmpfs on every Linux.
const TMPFS: &str = "/dev/shm";
/// Group of the files.
const GROUP: u32 = 100;

/// Options of setpriv(1) for each caller.
const CALLERS: [(&str, &[&str]); 5] = [
    ("a stranger", &["--reuid=65534", "--regid=65534", "--clear-groups"]),
    ("a member", &["--reuid=65534", "--regid=100", "--clear-groups"]),
    ("a member by a supplementary group", &["--reuid=65534", "--regid=65534", "--groups=7,100"]),
    ("root without capabilities", &["--bounding-set=-all", "--inh-caps=-all"]),
    ("root", &[]),
];

/// Changes of content, and one of the owner, as words of sh(1).
const CHANGES: [&str; 4] =
    ["printf new 1<>file", ": >file", "fallocate -l 9000 file", "chgrp 65534 file 2>/dev/null || :"];
const MODES: [u32; 3] = [0o2666, 0o2676, 0o6666];

/// The mode of a file after a change.
fn mode_after(dir: &Path, mode: u32, caller: &[&str], change: &str) -> u32 {
    let file = dir.join("file");
    fs::write(&file, "content").unwrap();
    chown(&file, Some(65_534), Some(GROUP)).unwrap();
    set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    assert_eq!(metadata(&file).unwrap().mode() & 0o7777, mode);
    let mut command = Command::new("setpriv");
    let out = run(command.args(caller).args(["sh", "-c", change]).current_dir(dir)).unwrap();
    assert!(out.status.success(), "{change}: {}", String::from_utf8_lossy(&out.stderr));
    let mode = metadata(&file).unwrap().mode() & 0o7777;
    fs::remove_file(&file).unwrap();
    mode
}

/// The mode after each change of a file with each mode by each caller, in octal.
fn all(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (name, caller) in CALLERS {
        for change in CHANGES {
            for mode in MODES {
                let after = mode_after(dir, mode, caller, change);
                found.push(format!("{mode:o} after `{change}` by {name}: {after:o}"));
            }
        }
    }
    found
}

#[test]
fn a_change_clears_set_group_id_as_on_a_tmpfs() {
    if !rustix::process::geteuid().is_root() {
        return println!("NOT TESTED: only root can become other callers");
    }
    let tmpfs = match tempfile::tempdir_in(TMPFS) {
        Ok(dir) => dir,
        Err(e) => return println!("NOT TESTED: {TMPFS}: {e}"),
    };
    set_permissions(tmpfs.path(), Permissions::from_mode(0o755)).unwrap();
    // Since Linux 6.2.
    if mode_after(tmpfs.path(), 0o2666, CALLERS[0].1, CHANGES[0]) != 0o666 {
        return println!("NOT TESTED: this kernel leaves the bit to strangers");
    }
    let expected = all(tmpfs.path());
    each_transport(|mount| assert_eq!(all(mount.path()), expected), &["allow_other", "default_permissions"]);
}
