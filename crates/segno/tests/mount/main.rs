//! Mounts by a program that embeds the library. `cargo test -p segno --test mount -- WORD` runs the tests whose names have this word.
//!
//! The broker of a mount executes this program, and so do the test programs that are killed or run by another
//! user. Files are used by other processes: a process that waits for its own mount cannot be killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use rustix::process::{Pid, Signal, getegid, geteuid, kill_process};
use segno::fuse::{Mount, Options, run_broker_if_called};
use segno::{Device, FormatOptions, MountOptions, Volume};
use segno_testkit::OPEN_FUSE;
use segno_testkit::f2fs_tools::assert_clean;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const TESTS: &[(&str, fn())] = &[
    ("files_written_through_the_mount_are_read_after_it", files_written_through_the_mount_are_read_after_it),
    ("two_mounts_of_one_program_are_independent", two_mounts_of_one_program_are_independent),
    ("a_mount_is_read_only_by_option_or_device", a_mount_is_read_only_by_option_or_device),
    ("a_mounted_volume_has_no_second_user", a_mounted_volume_has_no_second_user),
    ("a_directory_that_cannot_be_mounted_at_is_refused", a_directory_that_cannot_be_mounted_at_is_refused),
    (
        "what_was_in_the_directory_is_there_again_after_the_mount",
        what_was_in_the_directory_is_there_again_after_the_mount,
    ),
    (
        "umount_from_outside_ends_the_wait_with_a_closed_volume",
        umount_from_outside_ends_the_wait_with_a_closed_volume,
    ),
    ("a_mount_in_use_stays", a_mount_in_use_stays),
    ("a_dropped_mount_ends_even_while_it_is_in_use", a_dropped_mount_ends_even_while_it_is_in_use),
    ("a_killed_program_leaves_no_mount", a_killed_program_leaves_no_mount),
    ("an_ordinary_user_mounts", an_ordinary_user_mounts),
    ("a_program_without_the_call_is_refused", a_program_without_the_call_is_refused),
    ("signals_and_descriptors_stay_those_of_the_program", signals_and_descriptors_stay_those_of_the_program),
    ("words_are_those_of_segno_mount", words_are_those_of_segno_mount),
    (
        "a_block_device_is_opened_exclusively_again_after_the_mount",
        a_block_device_is_opened_exclusively_again_after_the_mount,
    ),
];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|word| word == "unprepared") {
        return println!("{:?}", spawn(&args[2], &args[3]).unwrap_err().kind());
    }
    run_broker_if_called();
    if args.get(1).is_some_and(|word| word == "program") {
        return program(&args[2], &args[3]);
    }
    // Options of the usual harness have no meaning here.
    let words: Vec<&String> = args.iter().skip(1).filter(|word| !word.starts_with('-')).collect();
    if !can_mount() {
        return println!("NOT TESTED: /dev/fuse cannot be opened");
    }
    for (name, test) in TESTS {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            println!("test {name}");
            test();
        }
    }
}

/// Mounts and prints a line. For each line of its input it tries to unmount, and prints the result.
fn program(image: &str, dir: &str) {
    let mount = Arc::new(spawn(image, dir).unwrap());
    println!("mounted");
    let asked = Arc::clone(&mount);
    thread::spawn(move || {
        for _ in std::io::stdin().lines() {
            println!("{:?}", asked.unmount().map_err(|e| e.kind()));
        }
    });
    mount.wait().unwrap();
}

fn can_mount() -> bool {
    fs::File::options().read(true).write(true).open("/dev/fuse").is_ok()
}

fn spawn(image: &str, dir: &str) -> segno::Result<Mount> {
    Mount::spawn(&Device::open(image)?, dir, &Options::default())
}

/// An image with a new volume, and an empty directory.
struct Scene {
    root: TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.dir()).unwrap();
        let device = Device::create(scene.image(), 64 << 20).unwrap();
        segno::format(&device, &FormatOptions::default()).unwrap();
        scene
    }

    fn image(&self) -> PathBuf {
        self.root.path().join("image")
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("mnt")
    }

    fn mount(&self) -> Mount {
        Mount::spawn(&Device::open(self.image()).unwrap(), self.dir(), &Options::default()).unwrap()
    }

    /// Runs this program again, which mounts and prints a line.
    fn program(&self, uid: Option<u32>) -> Program {
        let mut command = Command::new("/proc/self/exe");
        command.arg("program").arg(self.image()).arg(self.dir());
        uid.into_iter().for_each(|id| _ = command.uid(id).gid(id));
        let mut program = Program(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        assert_eq!(program.said(), "mounted\n");
        program
    }

    /// The volume was closed, nothing is damaged, and a file has this content.
    #[track_caller]
    fn assert_closed(&self, name: &str, content: &str) {
        assert_eq!(mounts_at(&self.dir()), 0);
        assert_clean("after the mount", &self.image());
        let device = Device::open(self.image()).unwrap();
        let report = segno::check(&device).unwrap();
        assert!(report.is_clean() && report.summary.clean_unmount, "{:?}", report.problems);
        let volume = Volume::open(&device).unwrap();
        assert_eq!(volume.read_to_string(Path::new("/").join(name)).unwrap(), content);
        volume.close().unwrap();
    }
}

/// A program that mounts. It ends with the test.
struct Program(Child);

impl Program {
    /// Its next line.
    fn said(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended unless the test has failed.
        let _ended = self.0.kill();
    }
}

/// Number of mounts at a directory.
fn mounts_at(dir: &Path) -> usize {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().filter(|line| line.split(' ').nth(4) == dir.to_str()).count()
}

/// Runs a shell in a directory; its standard output, or its standard error if it fails.
fn shell(dir: &Path, script: &str) -> Result<String, String> {
    let out = Command::new("sh").args(["-c", script]).current_dir(dir).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr)) }
}

/// A process that works in a directory until it is dropped.
struct Worker(Child);

impl Worker {
    fn new(dir: &Path) -> Self {
        Self::of_user(dir, geteuid().as_raw(), getegid().as_raw())
    }

    fn of_user(dir: &Path, uid: u32, gid: u32) -> Self {
        let mut command = Command::new("cat");
        Self(command.current_dir(dir).uid(uid).gid(gid).stdin(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

fn files_written_through_the_mount_are_read_after_it() {
    let scene = Scene::new();
    let mount = scene.mount();
    assert_eq!((mount.dir(), mounts_at(&scene.dir())), (&*scene.dir(), 1));
    shell(
        mount.dir(),
        "mkdir a && cp /bin/sh a/sh && cmp /bin/sh a/sh && ln -s a/sh link && echo hello >file",
    )
    .unwrap();
    mount.unmount().unwrap();
    // Nothing happens when it has ended.
    mount.unmount().unwrap();
    mount.wait().unwrap();
    scene.assert_closed("file", "hello\n");
    let volume = Volume::open(&Device::open(scene.image()).unwrap()).unwrap();
    assert_eq!(volume.read("/a/sh").unwrap(), fs::read("/bin/sh").unwrap());
    assert_eq!(volume.read_link("/link").unwrap(), Path::new("a/sh"));
}

fn two_mounts_of_one_program_are_independent() {
    let (one, two) = (Scene::new(), Scene::new());
    let (first, second) = (one.mount(), two.mount());
    shell(first.dir(), "echo 1 >file").unwrap();
    shell(second.dir(), "echo 2 >file").unwrap();
    first.unmount().unwrap();
    one.assert_closed("file", "1\n");
    assert_eq!(shell(second.dir(), "echo 3 >>file && cat file").unwrap(), "2\n3\n");
    second.unmount().unwrap();
    two.assert_closed("file", "2\n3\n");
}

fn a_mount_is_read_only_by_option_or_device() {
    let scene = Scene::new();
    let before = fs::read(scene.image()).unwrap();
    let open: [fn(PathBuf) -> segno::Result<Device>; 2] = [Device::open, Device::open_read_only];
    let by_word = "ro".parse().unwrap();
    let by_volume = Options::from(MountOptions::new().read_only(true));
    for (open, options) in [(open[0], by_word), (open[0], by_volume), (open[1], Options::default())] {
        let mount = Mount::spawn(&open(scene.image()).unwrap(), scene.dir(), &options).unwrap();
        assert!(shell(mount.dir(), "echo x >file").unwrap_err().contains("Read-only file system"));
        mount.unmount().unwrap();
    }
    assert!(before == fs::read(scene.image()).unwrap(), "a read-only mount wrote");
}

fn a_mounted_volume_has_no_second_user() {
    let scene = Scene::new();
    let device = Device::open(scene.image()).unwrap();
    let mount = Mount::spawn(&device, scene.dir(), &Options::default()).unwrap();
    assert_eq!(Device::open(scene.image()).unwrap_err().kind(), ErrorKind::ResourceBusy);
    assert_eq!(Volume::open(&device).unwrap_err().kind(), ErrorKind::ResourceBusy);
    assert_eq!(segno::check(&device).unwrap_err().kind(), ErrorKind::ResourceBusy);
    let other = scene.root.path().join("other");
    fs::create_dir(&other).unwrap();
    let again = Mount::spawn(&device, &other, &Options::default()).unwrap_err();
    assert_eq!((again.kind(), again.path(), mounts_at(&other)), (ErrorKind::ResourceBusy, Some(&*other), 0));
    mount.unmount().unwrap();
    Volume::open(&device).unwrap().close().unwrap();
    drop(device);
    Device::open(scene.image()).unwrap();
}

fn a_directory_that_cannot_be_mounted_at_is_refused() {
    let scene = Scene::new();
    let device = Device::open(scene.image()).unwrap();
    let (missing, file) = (scene.root.path().join("missing"), scene.image());
    for (dir, kind, why) in [
        (&*missing, ErrorKind::NotFound, "there is no such directory: `mkdir"),
        (&*file, ErrorKind::NotADirectory, "it is not a directory"),
        (scene.root.path(), ErrorKind::InvalidInput, "that would hide the image itself"),
    ] {
        let refused = Mount::spawn(&device, dir, &Options::default()).unwrap_err();
        assert_eq!((refused.kind(), refused.path()), (kind, Some(dir)), "{refused}");
        assert!(
            refused.to_string().starts_with(&format!("cannot mount at {}: {why}", dir.display())),
            "{refused}"
        );
    }
    // The device is free, and one without a volume is refused, too.
    Volume::open(&device).unwrap().close().unwrap();
    let empty = Device::in_memory(64 << 20);
    assert_eq!(Mount::spawn(&empty, scene.dir(), &Options::default()).unwrap_err().errno(), 117);
    assert_eq!(mounts_at(&scene.dir()), 0);
}

fn what_was_in_the_directory_is_there_again_after_the_mount() {
    let scene = Scene::new();
    fs::write(scene.dir().join("below"), "below").unwrap();
    let device = Device::in_memory(64 << 20);
    segno::format(&device, &FormatOptions::default()).unwrap();
    let mount = Mount::spawn(&device, scene.dir(), &Options::default()).unwrap();
    assert_eq!(shell(mount.dir(), "ls && touch file && ls").unwrap(), "file\n");
    mount.unmount().unwrap();
    assert_eq!(fs::read_to_string(scene.dir().join("below")).unwrap(), "below");
    assert_eq!(Volume::open(&device).unwrap().read("/file").unwrap(), b"");
}

fn umount_from_outside_ends_the_wait_with_a_closed_volume() {
    let mut programs = vec!["fusermount3 -u"];
    programs.extend(geteuid().is_root().then_some("umount"));
    for program in programs {
        let scene = Scene::new();
        let mount = Arc::new(scene.mount());
        let waiting = Arc::clone(&mount);
        let waits = thread::spawn(move || waiting.wait());
        shell(mount.dir(), "echo kept >file").unwrap();
        shell(Path::new("/"), &format!("{program} {}", mount.dir().display())).unwrap();
        waits.join().unwrap().unwrap();
        scene.assert_closed("file", "kept\n");
    }
}

fn a_mount_in_use_stays() {
    let scene = Scene::new();
    let mount = scene.mount();
    let worker = Worker::new(mount.dir());
    for _ in 0..2 {
        let refused = mount.unmount().unwrap_err();
        assert_eq!(
            (refused.kind(), refused.path()),
            (ErrorKind::ResourceBusy, Some(&*scene.dir())),
            "{refused}"
        );
    }
    shell(mount.dir(), "echo later >file").unwrap();
    drop(worker);
    mount.unmount().unwrap();
    scene.assert_closed("file", "later\n");
}

fn a_dropped_mount_ends_even_while_it_is_in_use() {
    let scene = Scene::new();
    let mount = scene.mount();
    shell(mount.dir(), "echo kept >file").unwrap();
    let worker = Worker::new(mount.dir());
    drop(mount);
    assert_eq!(mounts_at(&scene.dir()), 0);
    drop(worker);
    // The last use of the directory has ended, and with it the connection and the use of the image.
    while Device::open(scene.image()).is_err() {
        thread::sleep(Duration::from_millis(10));
    }
    scene.assert_closed("file", "kept\n");
}

fn a_killed_program_leaves_no_mount() {
    for signal in [Signal::KILL, Signal::TERM] {
        let scene = Scene::new();
        let mut program = scene.program(None);
        shell(&scene.dir(), "echo synced >file && sync file").unwrap();
        // An open file does not keep the mount.
        let _worker = Worker::new(&scene.dir());
        kill_process(Pid::from_child(&program.0), signal).unwrap();
        assert!(!program.0.wait().unwrap().success());
        while mounts_at(&scene.dir()) > 0 {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(fs::read_dir(scene.dir()).unwrap().count(), 0);
        let volume = Volume::open(&Device::open(scene.image()).unwrap()).unwrap();
        assert_eq!(volume.read_to_string("/file").unwrap(), "synced\n");
        volume.close().unwrap();
        scene.assert_closed("file", "synced\n");
    }
}

/// Runs a test in a new mount namespace where all users may open /dev/fuse: some machines permit that to root only.
fn again_where_all_users_open_fuse(dir: &Path, test: &str) {
    let script = format!("{OPEN_FUSE} || exit 99; exec \"$0\" {test}");
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).arg(program).env("D", dir);
    let status = command.status().unwrap();
    if status.code() == Some(99) {
        return println!("NOT TESTED: /dev/fuse is closed to users, and this machine permits no other");
    }
    assert!(status.success(), "{status}");
}

fn an_ordinary_user_mounts() {
    const USER: u32 = 65534;
    if !geteuid().is_root() {
        // All other tests have shown it.
        return;
    }
    let scene = Scene::new();
    fs::set_permissions(scene.root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if fs::metadata("/dev/fuse").unwrap().permissions().mode() & 0o006 != 0o006 {
        return again_where_all_users_open_fuse(scene.root.path(), "an_ordinary_user_mounts");
    }
    for path in [scene.image(), scene.dir()] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    let mut program = scene.program(Some(USER));
    let by_user = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg("sh").arg(scene.dir()).uid(USER).gid(USER).output().unwrap()
    };
    // The root of a new volume is root's.
    let done = by_user("ls \"$1\" && stat -c %u \"$1\"");
    assert!(done.status.success(), "{done:?}");
    let options = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = options.lines().find(|line| line.split(' ').nth(4) == scene.dir().to_str()).unwrap();
    assert!(line.contains("nosuid,nodev") && line.contains("user_id=65534"), "{line}");
    let worker = Worker::of_user(&scene.dir(), USER, USER);
    program.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(program.said(), "Err(ResourceBusy)\n");
    drop(worker);
    let ended = by_user("fusermount3 -u \"$1\"");
    assert!(ended.status.success(), "{ended:?}");
    assert!(program.0.wait().unwrap().success());
    assert_eq!(mounts_at(&scene.dir()), 0);
    assert_clean("after the mount of a user", &scene.image());
}

fn a_program_without_the_call_is_refused() {
    let scene = Scene::new();
    let out = Command::new("/proc/self/exe")
        .arg("unprepared")
        .arg(scene.image())
        .arg(scene.dir())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "Unsupported\n");
    assert_eq!(mounts_at(&scene.dir()), 0);
    let report = segno::check(&Device::open(scene.image()).unwrap()).unwrap();
    assert!(report.is_clean() && report.summary.clean_unmount, "{:?}", report.problems);
}

/// Handlers and masks of signals, and the descriptors that children inherit.
fn surroundings() -> (Vec<String>, String) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let signals = status.lines().filter(|line| line.starts_with("Sig") || line.starts_with("Shd"));
    let inherited = shell(Path::new("/"), "ls /proc/self/fd | wc -l").unwrap();
    (signals.map(str::to_owned).collect(), inherited)
}

fn signals_and_descriptors_stay_those_of_the_program() {
    let scene = Scene::new();
    // A descriptor that children of this program shall have.
    let passed_on = fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&passed_on, rustix::io::FdFlags::empty()).unwrap();
    let before = surroundings();
    let mount = scene.mount();
    assert_eq!(surroundings(), before);
    let words = format!("segno-broker\0{}\0", mount.dir().display());
    let brokers = |_: ()| {
        let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        all.filter(|process| {
            fs::read(process.join("cmdline")).is_ok_and(|line| line.starts_with(words.as_bytes()))
        })
        .collect::<Vec<_>>()
    };
    let [broker] = &brokers(())[..] else { panic!("{:?}", brokers(())) };
    let links = fs::read_dir(broker.join("fd")).unwrap().map(|fd| fs::read_link(fd.unwrap().path()).unwrap());
    let files: Vec<PathBuf> =
        links.filter(|link| link.starts_with("/") && link != Path::new("/dev/null")).collect();
    assert!(files.is_empty(), "the broker has files open: {files:?}");
    mount.unmount().unwrap();
    assert_eq!(brokers(()), Vec::<PathBuf>::new(), "a broker outlives its mount");
    assert_eq!(surroundings(), before);
}

fn words_are_those_of_segno_mount() {
    let scene = Scene::new();
    for (words, said) in [
        ("sparkle", "unknown mount option sparkle"),
        ("threads=0", "mount option threads=0: a number from 1 is needed"),
        ("transport=x", "mount option transport=x: choose auto, classic or io_uring"),
        ("mode=fast", "mount option mode=fast: choose adaptive or lfs"),
        ("norecovery", "norecovery needs a read-only mount: add ro"),
    ] {
        let refused = words.parse::<Options>().unwrap_err();
        assert_eq!(refused.to_string(), format!("cannot read the mount options: {said}"));
    }
    // Options of the server are no options of a volume that is only opened.
    assert!("threads=2".parse::<MountOptions>().is_err());
    let options = "blk=off,uid=1234,dmask=077,noexec,transport=classic,threads=2,commit=30".parse().unwrap();
    let mount = Mount::spawn(&Device::open(scene.image()).unwrap(), scene.dir(), &options).unwrap();
    assert_eq!(shell(mount.dir(), "stat -c '%u %a' .").unwrap(), "1234 700\n");
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|line| line.split(' ').nth(4) == scene.dir().to_str()).unwrap();
    assert!(line.contains("noexec") && line.contains(scene.image().to_str().unwrap()), "{line}");
    mount.unmount().unwrap();
}

/// Frees a loop device when dropped.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        shell(Path::new("/"), &format!("losetup -d {}", self.0)).unwrap();
    }
}

/// A mount of type fuseblk takes the exclusive open of the device over. `blk=off` leaves it.
fn a_block_device_is_opened_exclusively_again_after_the_mount() {
    if !geteuid().is_root() {
        return println!("NOT TESTED: only root has loop devices");
    }
    let scene = Scene::new();
    let attached = shell(scene.root.path(), "losetup -f --show image");
    let Ok(path) = attached else { return println!("NOT TESTED: {attached:?}") };
    let attached = Loop(path.trim().to_owned());
    for options in ["", "blk=off"] {
        let device = Device::open(&attached.0).unwrap();
        let mount = Mount::spawn(&device, scene.dir(), &options.parse().unwrap()).unwrap();
        shell(mount.dir(), "echo kept >file && sync").unwrap();
        for _ in 0..2 {
            assert_eq!(Device::open(&attached.0).unwrap_err().kind(), ErrorKind::ResourceBusy, "{options}");
            mount.unmount().unwrap();
        }
        assert_eq!(Volume::open(&device).unwrap().read("/file").unwrap(), b"kept\n");
    }
    drop(attached);
    scene.assert_closed("file", "kept\n");
}
