//! The restrictions as a confined process meets them. It is a separate process, as they are permanent.
use super::*;
use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::process::Command;

/// The test that runs in a separate process, and the variable that names its directory.
const INSIDE: (&str, &str) = ("confine::tests::inside", "SEGNO_CONFINED_IN");

fn has_landlock() -> bool {
    let all = AccessFs::from_all(ABI::V3);
    let made = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .and_then(|ruleset| ruleset.create());
    if made.is_err() {
        println!("NOT TESTED: this kernel has no Landlock");
    }
    made.is_ok()
}

#[test]
fn a_confined_process_has_what_was_left_to_it_and_nothing_else() {
    if !has_landlock() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    ["read", "made", "filled", "other"].iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    ["read/file", "made/old", "other/file"].iter().for_each(|name| fs::write(at(name), "content").unwrap());
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", INSIDE.0, "--ignored", "--nocapture"])
        .env(INSIDE.1, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
#[ignore = "runs in a separate process, which the test before starts"]
fn inside() {
    let dir = PathBuf::from(std::env::var_os(INSIDE.1).unwrap());
    let at = |name: &str| dir.join(name);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Confinement::new(&ConfineOption::default())
        .reads(&at("read"))
        .makes(&at("made/new"))
        .fills(&at("filled"), Preserve::empty())
        .enter();
    let refused = |done: std::io::Result<()>, what: &str| {
        assert_eq!(done.map_err(|e| e.kind()), Err(ErrorKind::PermissionDenied), "{what}");
    };
    assert_eq!(fs::read(at("read/file")).unwrap(), b"content");
    refused(fs::write(at("read/file"), "x"), "a file that is only read");
    refused(fs::read(at("other/file")).map(drop), "a file beside");
    refused(fs::read_dir(at("other")).map(drop), "a directory beside");
    refused(fs::write(at("other/new"), "x"), "a new file beside");
    fs::write(at("made/part"), "new").unwrap();
    fs::rename(at("made/part"), at("made/new")).unwrap();
    refused(fs::create_dir(at("made/dir")), "a directory where a file is made");
    refused(std::os::unix::fs::symlink("x", at("made/link")), "a link where a file is made");
    fs::create_dir(at("filled/dir")).unwrap();
    fs::write(at("filled/dir/file"), "x").unwrap();
    fs::hard_link(at("filled/dir/file"), at("filled/link")).unwrap();
    std::os::unix::fs::symlink("x", at("filled/symlink")).unwrap();
    refused(fs::hard_link(at("filled/dir/file"), at("other/link")), "a name beside");
    fs::read_to_string("/proc/self/mountinfo").unwrap();
    refused(fs::read("/proc/1/environ").map(drop), "another process");
    refused(fs::write("/proc/self/oom_score_adj", "0"), "a setting of the kernel");
    refused(Command::new("/bin/true").spawn().map(drop), "a program");
    refused(UdpSocket::bind("127.0.0.1:0").map(drop), "a socket");
    refused(
        rustix::mount::unmount(&dir, rustix::mount::UnmountFlags::empty()).map_err(Into::into),
        "unmounting",
    );
    // Open descriptors stay usable.
    assert!(listener.local_addr().is_ok());
    let other = at("other/file");
    std::thread::spawn(move || assert!(fs::read(other).is_err())).join().unwrap();
}

/// Calls with another number in x32 are refused by both.
#[test]
fn no_call_passes_by_another_table_of_numbers() {
    if std::env::consts::ARCH == "x86_64" {
        assert_eq!(calls::numbers(59), [59, 59 | 1 << 30, 520 | 1 << 30], "execve");
        assert_eq!(calls::numbers(165), [165, 165 | 1 << 30], "mount");
    }
}
