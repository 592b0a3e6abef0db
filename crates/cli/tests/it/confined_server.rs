//! Rights that the server of a mount drops, and the broker that does for it what needs them.
use super::confined::OLDER;
use super::{Scratch, can_mount, output, segno};
use rustix::fs::getxattr;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, read_dir, read_to_string};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const SEGNO: &str = env!("CARGO_BIN_EXE_segno");
const SYS_NICE: u64 = 1 << 23;
/// Options of mounts whose servers differ in what they need.
const MOUNTS: [&str; 6] = [
    "transport=classic",
    "transport=io_uring",
    "transport=io_uring,blk=off,writeback_cache",
    "transport=classic,auto_unmount,discard=never",
    "ro",
    "sched_idle=off",
];

fn scene() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let dir = scratch.path("mnt");
    fs::create_dir(&dir).unwrap();
    let dir = dir.canonicalize().unwrap();
    (scratch, dir)
}

fn is_mounted(dir: &Path) -> bool {
    let mounts = read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == dir.to_str())
}

fn server_of(dir: &Path) -> Pid {
    let mut value = [0; 64];
    let n = getxattr(dir, "system.segno.server", &mut value).unwrap();
    Pid::from_raw(std::str::from_utf8(&value[..n]).unwrap().split(' ').next().unwrap().parse().unwrap())
        .unwrap()
}

/// Processes that are the broker of a directory.
fn brokers_of(dir: &Path) -> Vec<PathBuf> {
    let words = format!("segno-broker\0{}\0", dir.display());
    let processes = read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("cmdline"));
    let all = processes.filter(|line| fs::read(line).is_ok_and(|line| line.starts_with(words.as_bytes())));
    all.map(|line| line.with_file_name("")).collect()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..4000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(5));
    }
    panic!("it does not come to this: {what}");
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

/// Capabilities that a server keeps: one, unless the limit could be raised that it would be needed for.
fn kept(server: Pid, options: &str) -> u64 {
    let limits = read_to_string(format!("/proc/{}/limits", server.as_raw_nonzero())).unwrap();
    let nice = limits.lines().find_map(|line| line.strip_prefix("Max nice priority")).unwrap();
    let is_raised = nice.split_whitespace().next() != Some("0");
    if is_raised || options.contains("sched_idle=off") { 0 } else { SYS_NICE }
}

/// Descriptors of a process above standard error that lead to a file.
fn descriptors_to(process: &Path, file: &Path) -> usize {
    let all = read_dir(process.join("fd")).unwrap().map(|fd| fd.unwrap().path());
    all.filter(|fd| fs::read_link(fd).is_ok_and(|to| to == file)).count()
}

/// They would keep a lock of the caller held, and the end of its pipe open, for as long as the mount lasts.
#[test]
fn a_server_and_its_broker_keep_no_descriptor_of_the_caller() {
    if !can_mount() {
        return;
    }
    let (scratch, dir) = scene();
    let private = dir.with_file_name("private");
    fs::write(&private, "content").unwrap();
    let script = "exec 9<\"$1\" 8<\"$1\" && segno=$2 && shift 2 && exec \"$segno\" \"$@\"";
    let (mnt, image) = (dir.to_str().unwrap(), scratch.image());
    for (options, kept) in [("ro", 0), ("log=/proc/self/fd/8", 1)] {
        let args =
            ["-c", script, "sh", private.to_str().unwrap(), SEGNO, "mount", "-o", options, &image, mnt];
        let out = Command::new("sh").args(args).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let server = format!("/proc/{}", server_of(&dir).as_raw_nonzero());
        // The server opens the log a second time.
        assert!(descriptors_to(Path::new(&server), &private) <= 2 * kept, "{options}");
        for broker in brokers_of(&dir) {
            assert_eq!(descriptors_to(&broker, &private), 0, "{options}");
        }
        output(&["umount", mnt]);
    }
}

#[test]
fn each_thread_of_a_server_has_no_rights_but_those_of_its_mount() {
    if !can_mount() {
        return;
    }
    let own = field(&read_to_string("/proc/self/status").unwrap(), "CapPrm");
    let (scratch, dir) = scene();
    for options in MOUNTS {
        let out = segno(&["mount", "-o", options, &scratch.image(), dir.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&out.stderr);
        if said.contains("transport=io_uring: ") {
            println!("NOT TESTED: {said}");
            continue;
        }
        assert!(out.status.success(), "{options}: {said}");
        let server = server_of(&dir);
        let capabilities = own & kept(server, options);
        let tasks = read_dir(format!("/proc/{}/task", server.as_raw_nonzero())).unwrap();
        let mut threads = 0;
        for task in tasks {
            let status = read_to_string(task.unwrap().path().join("status")).unwrap();
            threads += 1;
            // One of the filters replaces clone3, and two refuse rings: first further rings, then changes of
            // existing ones.
            let found = ["Seccomp", "Seccomp_filters", "NoNewPrivs"].map(|name| field(&status, name));
            assert_eq!(found, [2, 4, 1], "{options}\n{status}");
            let found = ["CapEff", "CapPrm", "CapInh"].map(|name| field(&status, name));
            assert_eq!(found, [capabilities, capabilities, 0], "{options}\n{status}");
        }
        assert!(threads > 8, "{options}: {threads}");
        assert_eq!(brokers_of(&dir).len(), 1, "{options}");
        output(&["umount", dir.to_str().unwrap()]);
        wait_until("the broker ends with the mount", || brokers_of(&dir).is_empty());
    }
    assert!(output(&["check", &scratch.image()]).ends_with("clean\n"));
}

#[test]
fn a_signal_unmounts_and_a_kill_leaves_the_mount() {
    if !can_mount() {
        return;
    }
    let (scratch, dir) = scene();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::KILL] {
        output(&["mount", &scratch.image(), dir.to_str().unwrap()]);
        // It does not keep the mount.
        let open = fs::File::create(dir.join("file")).unwrap();
        kill_process(server_of(&dir), signal).unwrap();
        wait_until("the broker ends", || brokers_of(&dir).is_empty());
        drop(open);
        if signal == Signal::KILL {
            assert!(is_mounted(&dir));
            output(&["umount", dir.to_str().unwrap()]);
        } else {
            wait_until("the mount ends", || !is_mounted(&dir));
            assert!(output(&["check", &scratch.image()]).contains("after a clean unmount"), "{signal:?}");
        }
    }
}

#[test]
fn a_volume_that_cannot_be_mounted_leaves_neither_a_mount_nor_a_process() {
    if !can_mount() {
        return;
    }
    let (scratch, dir) = scene();
    let refused = |args: &[&str]| {
        let out = segno(&[&["mount"], args, &[dir.to_str().unwrap()]].concat());
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        assert!(!is_mounted(&dir), "{args:?}");
        wait_until("the broker ends", || brokers_of(&dir).is_empty());
        String::from_utf8(out.stderr).unwrap()
    };
    let said = refused(&["-o", "log=/nowhere/log", &scratch.image()]);
    assert!(said.contains("cannot open the log /nowhere/log"), "{said}");
    // The checkpoint packs follow the superblocks.
    let mut bytes = fs::read(scratch.image()).unwrap();
    bytes[1 << 20..6 << 20].fill(0x5a);
    fs::write(scratch.image(), bytes).unwrap();
    for args in [&[scratch.image().as_str()][..], &["-f", "-o", "auto_unmount", &scratch.image()]] {
        let said = refused(args);
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// A mount over the server's mount is left in place. The reason is in the log, which was opened before the
/// restrictions.
#[test]
fn a_mount_that_is_covered_is_left_and_the_log_has_the_reason() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let (scratch, dir) = scene();
    let log = scratch.path("log");
    let options = format!("log={}", log.display());
    output(&["mount", "-o", &options, &scratch.image(), dir.to_str().unwrap()]);
    let server = server_of(&dir);
    mount("none", &dir, "tmpfs", MountFlags::empty(), c"").unwrap();
    fs::write(dir.join("kept"), "kept").unwrap();
    kill_process(server, Signal::TERM).unwrap();
    wait_until("the broker ends", || brokers_of(&dir).is_empty());
    assert_eq!(fs::read(dir.join("kept")).unwrap(), b"kept");
    let said = read_to_string(log).unwrap();
    assert!(said.contains("cannot unmount") && said.contains("another mount is there"), "{said}");
    unmount(&dir, UnmountFlags::empty()).unwrap();
    unmount(&dir, UnmountFlags::DETACH).unwrap();
}

/// Runs a server in the foreground under strace(1) until it is unmounted; gives what both said. `None` without strace.
fn traced(scratch: &Scratch, dir: &Path, options: &[&str]) -> Option<(String, String)> {
    let log = scratch.path("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&log).args(options).args([
        SEGNO,
        "mount",
        "-f",
        "-v",
        &scratch.image(),
    ]);
    let Ok(mut child) = command.arg(dir).stderr(Stdio::piped()).spawn() else {
        println!("NOT TESTED: strace is not installed");
        return None;
    };
    wait_until("it is mounted or over", || is_mounted(dir) || child_has_ended(child.id()));
    if !is_mounted(dir) {
        child.wait().unwrap();
        println!("NOT TESTED: strace may not trace");
        return None;
    }
    fs::write(dir.join("file"), "text").unwrap();
    output(&["umount", dir.to_str().unwrap()]);
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    Some((said, read_to_string(&log).unwrap()))
}

fn child_has_ended(pid: u32) -> bool {
    read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

/// Landlock would not restrict a thread that was there before; and the connection belongs to a server that is restricted.
#[test]
fn a_server_is_confined_before_it_starts_threads_and_before_it_is_mounted() {
    if !can_mount() {
        return;
    }
    let (scratch, dir) = scene();
    let calls = "trace=clone,clone3,landlock_restrict_self,seccomp,mount,umount2,execve";
    let Some((_, trace)) = traced(&scratch, &dir, &["-e", calls]) else { return };
    let server = trace.split_whitespace().next().unwrap().to_owned();
    let of_server: Vec<_> =
        trace.lines().filter(|line| line.starts_with(&server)).filter(|line| line.contains('(')).collect();
    let first = |what: &str| of_server.iter().position(|line| line.contains(what));
    let Some(restricted) = first("landlock_restrict_self(") else {
        return println!("NOT TESTED: this kernel has no Landlock");
    };
    assert!(first("CLONE_THREAD").unwrap() > restricted, "{trace}");
    assert!(first("seccomp(").unwrap() > restricted && first("seccomp(") < first("CLONE_THREAD"), "{trace}");
    // Programs are started before.
    let later = &of_server[restricted..];
    assert!(later.iter().all(|line| !line.contains(" mount(") && !line.contains("umount2(")), "{trace}");
    assert!(later.iter().all(|line| !line.contains("CLONE_VFORK") && !line.contains("execve(")), "{trace}");
    let at = |what: &str| trace.lines().position(|line| line.contains(what));
    assert!(at(" mount(") > at("landlock_restrict_self("), "{trace}");
}

/// Operations of a ring are seen by no filter, and a volume may lead its reader astray.
#[test]
fn no_ring_can_be_made_when_the_volume_is_read() {
    if !can_mount() {
        return;
    }
    let (scratch, dir) = scene();
    let calls = "trace=io_uring_setup,seccomp,pread64,preadv,preadv2,io_submit";
    let Some((_, trace)) = traced(&scratch, &dir, &["-y", "-e", calls]) else { return };
    let lines: Vec<_> = trace.lines().collect();
    let Some(last_ring) = lines.iter().rposition(|line| line.contains("io_uring_setup(")) else {
        return println!("NOT TESTED: this kernel has no FUSE over io_uring, or it is off");
    };
    // The offset is the largest argument that is a plain number.
    let offset = |line: &str| line.split([',', ')']).filter_map(|word| word.trim().parse::<u64>().ok()).max();
    // The superblocks are at the start.
    let read = |line: &&str| line.contains(&scratch.image()) && offset(line).is_some_and(|at| at > 8192);
    let first_read = lines.iter().position(read).expect("the volume was read");
    assert!(last_ring < first_read, "{trace}");
    let refused = lines.iter().skip(last_ring).position(|line| line.contains("seccomp("));
    assert!(refused.is_some_and(|after| last_ring + after < first_read), "{trace}");
}

#[test]
fn a_server_runs_on_a_kernel_without_the_restrictions_and_names_them() {
    if !can_mount() {
        return;
    }
    let (scratch, dir) = scene();
    let Some((said, _)) = traced(&scratch, &dir, &OLDER) else { return };
    let notes: Vec<_> = said.lines().filter(|line| line.contains("note: not restricted: ")).collect();
    assert_eq!(notes.len(), 2, "{said}");
    assert!(notes[0].contains("has no Landlock") && notes[1].contains("system calls"), "{said}");
    assert_eq!(output(&["cat", &scratch.image(), "/file"]), "text");
}
