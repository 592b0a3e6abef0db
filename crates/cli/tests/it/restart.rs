//! `-o restart=remount`: a mount whose server dies is mounted again, with a message; and the list of mounts.
use super::{Scratch, can_mount, json, output, refusal, segno};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::getxattr;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs::{self, File, create_dir, read_to_string};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const MOUNTS: &str = "/proc/self/mountinfo";
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
const OPTIONS: &str = "restart=remount,blk=off";

fn server_of(dir: &Path) -> Option<i32> {
    let mut value = [0; 64];
    let n = getxattr(dir, "system.segno.server", &mut value).ok()?;
    std::str::from_utf8(&value[..n]).ok()?.split(' ').next()?.parse().ok()
}

fn process(pid: i32) -> OwnedFd {
    pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap()
}

fn wait_for_end(process: &OwnedFd) {
    poll(&mut [PollFd::new(process, PollFlags::IN)], None).unwrap();
}

/// Kills the server, and returns when another one serves the directory.
fn kill_and_wait(dir: &Path) -> i32 {
    let old = server_of(dir).unwrap();
    let ended = process(old);
    kill_process(Pid::from_raw(old).unwrap(), Signal::KILL).unwrap();
    wait_for_end(&ended);
    let table = File::open(MOUNTS).unwrap();
    loop {
        match server_of(dir) {
            Some(new) if new != old => return new,
            // The kernel reports each change of its table.
            _ => poll(&mut [PollFd::new(&table, PollFlags::PRI)], Some(&POLL)).map(drop).unwrap(),
        }
    }
}

/// Returns the log when it has these words.
fn wait_for_line(log: &Path, words: &str) -> String {
    loop {
        let said = read_to_string(log).unwrap();
        if said.contains(words) {
            return said;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

struct Kept {
    scratch: Scratch,
    dir: PathBuf,
}

impl Kept {
    fn new(options: &str) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let scratch = Scratch::new();
        let dir = scratch.path("mnt");
        create_dir(&dir).unwrap();
        let dir = dir.canonicalize().unwrap();
        output(&["mount", "-o", options, &scratch.image(), dir.to_str().unwrap()]);
        Some(Self { scratch, dir })
    }

    fn unmount(&self) {
        output(&["umount", self.dir.to_str().unwrap()]);
    }
}

#[test]
fn a_mount_comes_back_with_all_that_was_synced() {
    for transport in ["classic", "io_uring"] {
        let Some(kept) = Kept::new(&format!("{OPTIONS},transport={transport}")) else { return };
        let (dir, first) = (&kept.dir, server_of(&kept.dir).unwrap());
        let synced = File::create(dir.join("synced")).unwrap();
        fs::write(dir.join("synced"), "content").unwrap();
        synced.sync_all().unwrap();
        let second = kill_and_wait(dir);
        assert_ne!(first, second);
        assert_eq!(read_to_string(dir.join("synced")).unwrap(), "content");
        // The descriptor of the dead mount. With io_uring the kernel may close its connection after the call has begun.
        let error = synced.metadata().map_err(|e| e.kind()).err();
        assert!(matches!(error, Some(ErrorKind::NotConnected | ErrorKind::ConnectionAborted)), "{error:?}");
        fs::write(dir.join("after"), "more").unwrap();
        drop(synced);
        let supervisor = process(parent_of(second));
        kept.unmount();
        // The process that keeps the mount ends with it.
        wait_for_end(&supervisor);
        assert!(output(&["check", &kept.scratch.image()]).contains("after a clean unmount"));
        assert_eq!(output(&["cat", &kept.scratch.image(), "/after"]), "more");
    }
}

fn parent_of(pid: i32) -> i32 {
    let status = read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|l| l.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
}

/// Returns when a process has at most `most` kilobytes resident, which is the case while it waits.
fn wait_until_small(pid: i32, kind: &str, most: u64) {
    loop {
        let status = read_to_string(format!("/proc/{pid}/status")).unwrap();
        let said = status.lines().find_map(|l| l.strip_prefix(kind)).unwrap().trim();
        if said.split(' ').next().unwrap().parse::<u64>().unwrap() <= most {
            println!("{kind} {said}");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Memory and descriptors of the process while it waits.
#[test]
fn the_process_that_keeps_a_mount_is_small_and_has_nothing_of_the_volume() {
    let Some(kept) = Kept::new(OPTIONS) else { return };
    let supervisor = parent_of(server_of(&kept.dir).unwrap());
    // The program of the tests has more relocations than that of users; how many pages of a file one access maps is the kernel's choice.
    // 0.8 MiB of it are structures of the allocator.
    wait_until_small(supervisor, "RssAnon:", 2560);
    wait_until_small(supervisor, "RssFile:", 3072);
    let image = fs::canonicalize(kept.scratch.image()).unwrap();
    let open = fs::read_dir(format!("/proc/{supervisor}/fd")).unwrap();
    let holds = |fd: std::io::Result<fs::DirEntry>| {
        fs::read_link(fd.unwrap().path()).is_ok_and(|to| to == image || to == Path::new("/dev/fuse"))
    };
    assert_eq!(open.map(holds).filter(|holds| *holds).count(), 0);
    kept.unmount();
}

#[test]
fn three_deaths_within_a_minute_end_it() {
    let Some(kept) = Kept::new(OPTIONS) else { return };
    kept.unmount();
    let log = kept.scratch.path("log");
    output(&[
        "mount",
        "-o",
        &format!("{OPTIONS},log={}", log.display()),
        &kept.scratch.image(),
        kept.dir.to_str().unwrap(),
    ]);
    fs::write(kept.dir.join("synced"), "content").unwrap();
    File::open(kept.dir.join("synced")).unwrap().sync_all().unwrap();
    let supervisor = process(parent_of(kill_and_wait(&kept.dir)));
    wait_for_line(&log, &format!("what a crash left on {} was replayed", kept.scratch.image()));
    kill_and_wait(&kept.dir);
    let last = server_of(&kept.dir).unwrap();
    kill_process(Pid::from_raw(last).unwrap(), Signal::KILL).unwrap();
    wait_for_end(&supervisor);
    let said = read_to_string(&log).unwrap();
    assert_eq!(said.matches("was killed by signal 9; mounting again").count(), 2, "{said}");
    assert!(
        said.contains(
            "is not started again: it ended 3 times within a minute, the last time: was killed by signal 9"
        ),
        "{said}"
    );
    assert!(!read_to_string(MOUNTS).unwrap().contains(kept.dir.to_str().unwrap()), "the dead mount is there");
}

/// The file system of the image is full.
#[test]
fn a_volume_that_stopped_comes_back_read_only() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (host, dir, log) = (scratch.path("host"), scratch.path("mnt"), scratch.path("log"));
    [&host, &dir].into_iter().for_each(|d| create_dir(d).unwrap());
    let dir = dir.canonicalize().unwrap();
    mount("none", &host, "tmpfs", MountFlags::empty(), c"size=12M").unwrap();
    let image = host.join("image");
    let (image, at) = (image.to_str().unwrap(), dir.to_str().unwrap());
    output(&["mkfs", "-q", "--size", "128M", image]);
    output(&["mount", "-o", &format!("{OPTIONS},log={}", log.display()), image, at]);
    let server = server_of(&dir).unwrap();
    fs::write(dir.join("synced"), "content").unwrap();
    File::open(dir.join("synced")).unwrap().sync_all().unwrap();
    let ended = process(server);
    let large = File::create(dir.join("large")).unwrap();
    let _too_large = std::io::Write::write_all(&mut &large, &vec![7; 40 << 20]);
    assert!(large.sync_all().is_err());
    drop(large);
    wait_for_end(&ended);
    let table = File::open(MOUNTS).unwrap();
    while server_of(&dir).is_none() {
        poll(&mut [PollFd::new(&table, PollFlags::PRI)], Some(&POLL)).unwrap();
    }
    assert_eq!(read_to_string(dir.join("synced")).unwrap(), "content");
    let e = fs::write(dir.join("new"), "x").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ReadOnlyFilesystem);
    // The last line is written after the mount responds.
    let said = wait_for_line(&log, "is mounted again read-only");
    assert!(said.contains("stopped its volume; mounting again"), "{said}");
    output(&["umount", at]);
    // A reader that was just ended may still have it open.
    unmount(&host, UnmountFlags::DETACH).unwrap();
}

/// Somebody mounts at the directory before the dead mount is replaced: here at once, over it.
#[test]
fn a_mount_that_somebody_else_made_is_left_alone() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let Some(kept) = Kept::new(OPTIONS) else { return };
    let server = server_of(&kept.dir).unwrap();
    let supervisor = process(parent_of(server));
    mount("none", &kept.dir, "tmpfs", MountFlags::empty(), c"").unwrap();
    fs::write(kept.dir.join("kept"), "kept").unwrap();
    kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
    wait_for_end(&supervisor);
    assert_eq!(read_to_string(kept.dir.join("kept")).unwrap(), "kept");
    unmount(&kept.dir, UnmountFlags::empty()).unwrap();
    // That of the server, if the broker could not reach it below the other one.
    let _gone = unmount(&kept.dir, UnmountFlags::DETACH);
}

/// Children of a process.
fn children_of(pid: i32) -> Vec<i32> {
    let all = read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    all.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The out-of-memory killer may take the broker before the server.
#[test]
fn a_mount_whose_broker_was_killed_first_comes_back() {
    let Some(kept) = Kept::new(OPTIONS) else { return };
    let server = server_of(&kept.dir).unwrap();
    let supervisor = parent_of(server);
    let brokers: Vec<i32> =
        [supervisor, server].into_iter().flat_map(children_of).filter(|&pid| pid != server).collect();
    assert_eq!(brokers.len(), 1, "{brokers:?}");
    let broker = process(brokers[0]);
    kill_process(Pid::from_raw(brokers[0]).unwrap(), Signal::KILL).unwrap();
    wait_for_end(&broker);
    kill_and_wait(&kept.dir);
    kept.unmount();
    assert!(fs::read_dir(&kept.dir).unwrap().next().is_none(), "no dead mount is left");
}

#[test]
fn another_volume_at_the_path_of_the_image_is_not_mounted() {
    let Some(kept) = Kept::new(OPTIONS) else { return };
    let server = server_of(&kept.dir).unwrap();
    let supervisor = process(parent_of(server));
    let image = kept.scratch.image();
    fs::rename(&image, kept.scratch.path("first")).unwrap();
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    output(&["mkfs", "-q", &image]);
    kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
    wait_for_end(&supervisor);
    assert_eq!(server_of(&kept.dir), None);
}

/// As systemd runs it: notified when the mount responds, and ended by a signal to the process that it
/// started.
#[test]
fn a_service_is_ready_when_the_mount_responds_and_ends_clean_by_a_signal() {
    if !can_mount() {
        return;
    }
    for options in ["blk=off", OPTIONS] {
        let scratch = Scratch::new();
        let (dir, socket) = (scratch.path("mnt"), scratch.path("notify"));
        create_dir(&dir).unwrap();
        let dir = dir.canonicalize().unwrap();
        let systemd = UnixDatagram::bind(&socket).unwrap();
        let mut service: Child = Command::new(env!("CARGO_BIN_EXE_segno"))
            .args(["mount", "-f", "-o", options, &scratch.image()])
            .arg(&dir)
            .env("NOTIFY_SOCKET", &socket)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut message = [0; 64];
        let n = systemd.recv(&mut message).unwrap();
        assert_eq!(&message[..n], b"READY=1");
        fs::write(dir.join("file"), "text").unwrap();
        if options == OPTIONS {
            kill_and_wait(&dir);
        }
        kill_process(Pid::from_child(&service), Signal::TERM).unwrap();
        assert_eq!(service.wait().unwrap().code(), Some(0), "{options}");
        assert!(output(&["check", &scratch.image()]).contains("after a clean unmount"), "{options}");
    }
}

/// Of a unit that was started too often, `systemctl status` shows the status, and no line of the attempts.
#[test]
fn a_service_that_cannot_mount_gives_systemd_the_reason() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (dir, image, socket) = (scratch.path("mnt"), scratch.path("garbage"), scratch.path("notify"));
    create_dir(&dir).unwrap();
    fs::write(&image, vec![7; 1 << 20]).unwrap();
    let systemd = UnixDatagram::bind(&socket).unwrap();
    let service = Command::new(env!("CARGO_BIN_EXE_segno"))
        .args(["mount", "-f"])
        .args([&image, &dir])
        .env("NOTIFY_SOCKET", &socket)
        .output()
        .unwrap();
    assert_eq!(service.status.code(), Some(1));
    let mut message = [0; 256];
    let n = systemd.recv(&mut message).unwrap();
    let why = format!("{} holds data that is not recognised, not an F2FS volume", image.display());
    assert_eq!(std::str::from_utf8(&message[..n]).unwrap(), format!("STATUS={why}"));
    assert_eq!(String::from_utf8(service.stderr).unwrap(), format!("segno: {why}\n"));
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let scratch = Scratch::new();
    let dir = scratch.path("mnt");
    create_dir(&dir).unwrap();
    if rustix::process::geteuid().is_root() {
        let (code, said) =
            refusal(&["mount", "-o", "restart=remount", &scratch.image(), dir.to_str().unwrap()]);
        assert!(code == 2 && said.contains("restart=remount needs blk=off"), "{said}");
    }
}

#[test]
fn mounts_are_listed_with_the_options_in_force() {
    let Some(kept) = Kept::new("blk=off,commit=17,noacl,cache=64M") else { return };
    let (dir, image) = (kept.dir.to_str().unwrap(), kept.scratch.image());
    let is_it = |line: &&str| line.contains(dir);
    for args in [&["mounts"][..], &["mount"]] {
        let list = output(args);
        let line = list.lines().find(is_it).unwrap_or_else(|| panic!("{list}"));
        assert!(line.starts_with(&format!("{image} on {dir} type fuse.segno (rw,")), "{line}");
        for word in ["blk=off", "commit=17", "noacl", "cache=64M"] {
            assert!(line.contains(word), "{word}: {line}");
        }
    }
    let list = json(&["mounts", "--json"]);
    let mount = list["mounts"].as_array().unwrap().iter().find(|m| m["dir"] == dir).unwrap();
    assert_eq!((&mount["state"], &mount["read_only"]), (&"mounted".into(), &false.into()));
    let options = &mount["options"];
    assert_eq!(options["commit"], serde_json::json!({ "value": "17", "given": "commit=17" }));
    assert_eq!(options["fsync_mode"], serde_json::json!({ "value": "strict", "given": null }));
    let server = i32::try_from(mount["server"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
    wait_for_end(&process(server));
    let list = output(&["mounts"]);
    assert!(list.lines().find(is_it).unwrap().ends_with(": its server has died"), "{list}");
    assert!(segno(&["umount", dir]).status.success());
}
