//! Rights that commands drop once their storage is open, as the kernel and strace(1) show them.
use super::{Scratch, fsck, output, segno};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

const SEGNO: &str = env!("CARGO_BIN_EXE_segno");

const DAC_OVERRIDE: u64 = 1 << 1;
const DAC_READ_SEARCH: u64 = 1 << 2;
const FOWNER: u64 = 1 << 3;
const SYS_ADMIN: u64 = 1 << 21;
/// Needed for files in a directory of another user.
const FILES: u64 = DAC_OVERRIDE | DAC_READ_SEARCH | FOWNER;
/// Needed for their owners and labels of SELinux, too.
const TREE: u64 = FILES | 1 | SYS_ADMIN;
const FSETID: u64 = 1 << 4;
const MKNOD: u64 = 1 << 27;
const SETFCAP: u64 = 1 << 31;

/// Commands on DIR, and the capabilities that root's keep.
pub(super) const COMMANDS: &[(&str, u64)] = &[
    ("check DIR/volume", 0),
    ("check -y DIR/volume", 0),
    ("check -fy --to DIR/copy --undo DIR/undo DIR/volume", FILES),
    ("get DIR/volume / DIR/got", TREE),
    ("get --preserve=setid,caps DIR/volume /dir DIR/kept", TREE | FSETID | SETFCAP),
    ("extract DIR/volume DIR/extracted", TREE),
    ("extract --preserve=all DIR/volume DIR/all", TREE | FSETID | MKNOD | SETFCAP),
    ("extract --manifest DIR/manifest --tar DIR/tar DIR/volume", FILES),
    ("rescue --list DIR/volume", 0),
    ("rescue --map DIR/map --scan DIR/scan DIR/volume DIR/rescued", TREE),
    ("rescue --to-image DIR/new DIR/volume", FILES),
    ("find DIR/volume", DAC_READ_SEARCH),
    ("build DIR/tree DIR/built", FILES | SYS_ADMIN),
    ("build DIR/tree.tar DIR/of-tar", FILES),
    ("build --order DIR/order DIR/volume DIR/of-image", FILES),
];

/// Arguments of strace(1) for a kernel without Landlock and filters of system calls.
pub(super) const OLDER: [&str; 6] = [
    "-e",
    "trace=landlock_create_ruleset,seccomp",
    "-e",
    "inject=landlock_create_ruleset:error=EOPNOTSUPP",
    "-e",
    "inject=seccomp:error=EINVAL",
];

/// A volume and a tree, also as an archive.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path(name);
    fs::create_dir_all(at("tree/dir")).unwrap();
    fs::write(at("tree/dir/file"), vec![7; 100_000]).unwrap();
    fs::write(at("order"), "/dir/file\n").unwrap();
    let path = |name: &str| at(name).to_str().unwrap().to_owned();
    output(&["build", &path("tree"), &path("volume")]);
    output(&["extract", "--tar", &path("tree.tar"), &path("volume")]);
    scratch
}

fn args(command: &str, dir: &Path) -> Vec<String> {
    command.split(' ').map(|arg| arg.replace("DIR", dir.to_str().unwrap())).collect()
}

/// A pipe that takes nothing more: a writer waits until it is read.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    loop {
        match writer.write(&[b'.'; 4096]) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) => panic!("{e}"),
        }
    }
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

/// The status of each thread once the process has a filter of system calls, which is the last restriction.
fn confined(child: &mut Child) -> Vec<String> {
    loop {
        let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        let status = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")));
        let status: Vec<_> = status.filter_map(Result::ok).collect();
        if status.iter().any(|of| field(of, "Seccomp") == 2) {
            return status;
        }
        assert_eq!(child.try_wait().unwrap(), None, "it has ended without being confined");
        sleep(Duration::from_millis(5));
    }
}

fn assert_confined(command: &str, child: &mut Child, keeps: u64) {
    let own = field(&fs::read_to_string("/proc/self/status").unwrap(), "CapPrm");
    for status in confined(child) {
        assert_eq!((field(&status, "Seccomp"), field(&status, "NoNewPrivs")), (2, 1), "{command}");
        for set in ["CapEff", "CapPrm"] {
            assert_eq!(field(&status, set), own & keeps, "{set} of {command}");
        }
        assert_eq!(field(&status, "CapInh"), 0, "{command}");
    }
}

#[test]
fn each_command_gives_up_what_it_does_not_need() {
    let scratch = scratch();
    for &(command, keeps) in COMMANDS {
        // The report at the end waits for its reader.
        let (mut reader, writer) = full_pipe();
        let args = args(command, &scratch.path(""));
        let mut child = Command::new(SEGNO).args(args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        assert_confined(command, &mut child, keeps);
        let mut said = Vec::new();
        reader.read_to_end(&mut said).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{command}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// The thread of a get has the rights of the command `get`. The shell keeps the user's rights, except for
/// some system calls.
#[test]
fn a_shell_confines_each_get_in_a_thread() {
    let scratch = scratch();
    let (mut reader, writer) = full_pipe();
    let args = args("shell -c get\t/\tDIR/got DIR/volume", &scratch.path(""));
    let mut child = Command::new(SEGNO).args(args).stdout(writer).spawn().unwrap();
    let own = field(&fs::read_to_string("/proc/self/status").unwrap(), "CapPrm");
    let rights =
        |status: &String| (field(status, "Seccomp"), field(status, "NoNewPrivs"), field(status, "CapEff"));
    let expected = [(2, 1, own), (2, 1, own & TREE)];
    loop {
        let mut found: Vec<_> = confined(&mut child).iter().map(rights).collect();
        found.sort_by_key(|of| std::cmp::Reverse(of.2));
        if found == expected {
            break;
        }
        sleep(Duration::from_millis(5));
    }
    reader.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(scratch.path("got/dir/file").exists());
}

#[cfg(feature = "vhost")]
#[test]
fn the_server_of_a_guest_has_no_capability() {
    let scratch = scratch();
    let (mut reader, writer) = full_pipe();
    let args = args("export --vhost-user DIR/socket DIR/volume", &scratch.path(""));
    let mut child = Command::new(SEGNO).args(args).stderr(writer).spawn().unwrap();
    assert_confined("export", &mut child, 0);
    let read = std::thread::spawn(move || reader.read_to_end(&mut Vec::new()).unwrap());
    drop(std::os::unix::net::UnixStream::connect(scratch.path("socket")).unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(read.join().unwrap() > 0);
}

/// A name where a file is made leads elsewhere.
#[test]
fn no_file_is_made_outside_of_the_directories_that_are_named() {
    let scratch = scratch();
    let elsewhere = Scratch::new();
    for (command, link) in [
        ("rescue --map DIR/out/map DIR/volume DIR/rescued", "out/map"),
        ("extract --manifest DIR/out/manifest --tar DIR/out/tar DIR/volume", "out/manifest"),
        ("extract --fs-config DIR/out/config DIR/volume DIR/extracted", "out/config"),
    ] {
        let target = elsewhere.path("target");
        fs::create_dir_all(scratch.path("out")).unwrap();
        symlink(&target, scratch.path(link)).unwrap();
        let out = segno(&args(command, &scratch.path("")));
        let said = String::from_utf8(out.stderr).unwrap();
        if !said.contains("Permission denied") && !has_landlock(&scratch) {
            println!("NOT TESTED: this kernel has no Landlock");
            return;
        }
        assert_eq!(out.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains(link) && said.contains("Permission denied"), "{command}: {said}");
        assert!(!target.exists(), "{command}");
    }
}

fn has_landlock(scratch: &Scratch) -> bool {
    let out = segno(&args("check -v DIR/volume", &scratch.path("")));
    !String::from_utf8_lossy(&out.stderr).contains("has no Landlock")
}

/// Runs a command under strace(1), and gives what it recorded; nothing without strace.
fn traced(scratch: &Scratch, options: &[&str], command: &str) -> Option<(Output, String)> {
    let dir = scratch.path("");
    let log = dir.join("trace");
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-o"]).arg(&log).args(options).arg(SEGNO).args(args(command, &dir));
    match traced.output() {
        Ok(out) if log.exists() && fs::metadata(&log).unwrap().len() > 0 => {
            Some((out, fs::read_to_string(&log).unwrap()))
        }
        _ => {
            println!("NOT TESTED: strace is not installed, or may not trace");
            None
        }
    }
}

/// A thread that was there before would not be confined by Landlock.
#[test]
fn no_thread_is_started_before_its_command_is_confined() {
    let scratch = scratch();
    for (command, _) in COMMANDS {
        let traces = ["-e", "trace=clone,clone3,landlock_restrict_self,seccomp"];
        let Some((_, trace)) = traced(&scratch, &traces, command) else { return };
        let calls = trace.lines().filter_map(|line| line.split_whitespace().nth(1));
        // For a thread that ends while strace inspects it, the call is unknown.
        let calls: Vec<_> =
            calls.filter_map(|call| call.split('(').next()).filter(|call| *call != "???").collect();
        if !calls.contains(&"landlock_restrict_self") {
            println!("NOT TESTED: this kernel has no Landlock");
            return;
        }
        assert_eq!(calls[..3], ["landlock_restrict_self", "seccomp", "seccomp"], "{command}\n{trace}");
        assert!(calls[3..].iter().all(|call| call.starts_with("clone")), "{command}\n{trace}");
    }
}

#[test]
fn a_kernel_without_the_restrictions_is_named_on_request() {
    let scratch = scratch();
    for (command, notes) in
        [("check DIR/volume", 0), ("check -v DIR/volume", 2), ("extract -v DIR/volume DIR/out", 2)]
    {
        let Some((out, _)) = traced(&scratch, &OLDER, command) else { return };
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(0), "{command}: {said}");
        let found: Vec<_> = said.lines().filter(|line| line.contains("note: not restricted: ")).collect();
        assert_eq!(found.len(), notes, "{command}: {said}");
        assert!(
            notes == 0 || found[0].contains("has no Landlock") && found[1].contains("system calls"),
            "{said}"
        );
    }
}

/// The number of the interface is that of an older kernel, so only its restrictions are requested. The first version refuses links and
/// renames between directories, which `rescue` and hard links need.
#[test]
fn commands_do_their_work_with_each_version_of_landlock() {
    let scratch = scratch();
    fs::create_dir(scratch.path("tree/other")).unwrap();
    fs::hard_link(scratch.path("tree/dir/file"), scratch.path("tree/other/link")).unwrap();
    output(&[
        "build",
        "-f",
        scratch.path("tree").to_str().unwrap(),
        scratch.path("volume").to_str().unwrap(),
    ]);
    for version in [1, 2, 6] {
        let older = format!("inject=landlock_create_ruleset:retval={version}:when=1");
        let traces = ["-e", "trace=landlock_create_ruleset,landlock_restrict_self", "-e", &older];
        for (command, fills) in [
            ("extract -v DIR/volume DIR/OUT", true),
            ("get -v DIR/volume / DIR/OUT", true),
            ("rescue -v DIR/volume DIR/OUT", true),
            ("rescue -v --to-image DIR/OUT DIR/volume", false),
            ("build -v DIR/tree DIR/OUT", false),
        ] {
            let out = scratch.path(&format!("out-{version}"));
            let line = command.replace("DIR/OUT", out.to_str().unwrap());
            let Some((done, trace)) = traced(&scratch, &traces, &line) else { return };
            let said = String::from_utf8(done.stderr).unwrap();
            assert_eq!(done.status.code(), Some(0), "{line}: {said}");
            assert_eq!(said.contains("note: not restricted: "), version < 6, "{line}: {said}");
            let restricts = trace.contains("landlock_restrict_self");
            assert_eq!(restricts, version > 1 || !fills, "{line}\n{trace}");
            if fills {
                let links = |name: &str| fs::metadata(out.join(name)).unwrap().nlink();
                assert_eq!((links("dir/file"), links("other/link")), (2, 2), "{line}");
                fs::remove_dir_all(out).unwrap();
            } else {
                assert!(output(&["check", out.to_str().unwrap()]).ends_with("clean\n"), "{line}");
                fs::remove_file(out).unwrap();
            }
        }
    }
}

/// On a terminal, the user decides about a repair after the check; the volume is opened again for it.
#[test]
fn a_volume_is_opened_again_for_a_repair_that_its_user_agrees_to() {
    let scratch = Scratch::new();
    let image = fsck::damaged(&scratch);
    let script = Command::new("script")
        .args(["-qec", &format!("{SEGNO} check {image}"), "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut script) = script else {
        return println!("NOT TESTED: script(1) is not installed");
    };
    script.stdin.as_mut().unwrap().write_all(b"y\n").unwrap();
    let out = script.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("repair the volume? [y/N]") && said.contains("repaired, "), "{said}");
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(output(&["check", &image]).ends_with("clean\n"));
}
