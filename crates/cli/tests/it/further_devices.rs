//! A superblock may record any paths of the host as further devices of its volume. A command opens the devices that the caller names and
//! no other path, and a refusal proposes the command line that names them.
use super::foreign::tools::{Pieces, pieces};
use super::loop_devices::Loop;
use super::{Scratch, can_mount, output, segno};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, read};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A command for the volume on IMAGE, its exit code without the further devices, and with them unless it would wait for a guest.
/// OUT is a new path, FILE a file of the host.
pub(super) type Row = (&'static [&'static str], i32, Option<i32>);

pub(super) const COMMANDS: &[Row] = &[
    (&["ls", "IMAGE"], 1, Some(0)),
    (&["cat", "IMAGE", "/file"], 1, Some(0)),
    (&["stat", "IMAGE", "/file"], 1, Some(0)),
    (&["extents", "--image", "IMAGE", "/file"], 1, Some(0)),
    (&["get", "IMAGE", "/file", "OUT"], 1, Some(0)),
    (&["put", "-f", "IMAGE", "FILE", "/new"], 1, Some(0)),
    (&["rm", "-f", "IMAGE", "/none"], 1, Some(0)),
    (&["mv", "-n", "IMAGE", "/file", "/file"], 1, Some(0)),
    (&["mkdir", "-p", "IMAGE", "/made"], 1, Some(0)),
    (&["ln", "-sf", "IMAGE", "file", "/link"], 1, Some(0)),
    (&["chmod", "IMAGE", "644", "/file"], 1, Some(0)),
    (&["chown", "IMAGE", "1:2", "/file"], 1, Some(0)),
    (&["touch", "IMAGE", "/file"], 1, Some(0)),
    (&["setfattr", "-n", "user.x", "IMAGE", "/file"], 1, Some(0)),
    (&["getfattr", "IMAGE", "/file"], 1, Some(0)),
    (&["shell", "-c", "ls", "IMAGE"], 1, Some(0)),
    (&["extract", "IMAGE", "OUT"], 1, Some(0)),
    (&["extract", "--tar", "OUT", "IMAGE"], 1, Some(0)),
    (&["build", "IMAGE", "OUT"], 1, Some(0)),
    (&["info", "IMAGE"], 1, Some(0)),
    (&["map", "IMAGE"], 1, Some(0)),
    (&["label", "IMAGE"], 1, Some(0)),
    (&["label", "IMAGE", "new"], 1, Some(0)),
    (&["report", "IMAGE"], 1, Some(0)),
    // With a note: the structure is on the first device.
    (&["dump", "IMAGE", "sb"], 0, Some(0)),
    (&["check", "IMAGE"], 8, Some(0)),
    (&["check", "-n", "IMAGE"], 8, Some(0)),
    (&["check", "-a", "IMAGE"], 8, Some(0)),
    (&["check", "-fy", "IMAGE"], 8, Some(0)),
    (&["check", "--to", "OUT", "IMAGE"], 8, Some(0)),
    (&["rescue", "--list", "IMAGE"], 1, Some(0)),
    (&["rescue", "IMAGE", "OUT"], 1, Some(0)),
    (&["undelete", "IMAGE"], 1, Some(0)),
    // A volume of several devices has no room for a journal after its end.
    (&["journal", "info", "IMAGE"], 1, Some(1)),
    (&["journal", "create", "IMAGE"], 1, Some(1)),
    (&["journal", "replay", "IMAGE"], 1, Some(1)),
    (&["journal", "discard", "IMAGE"], 1, Some(1)),
    #[cfg(feature = "vhost")]
    (&["export", "--vhost-user", "OUT", "IMAGE"], 1, None),
    // The volume is not zoned.
    #[cfg(feature = "store")]
    (&["store", "import", "file:///nowhere", "IMAGE"], 1, Some(1)),
];
const REFUSAL: &str = "a path that an image records is not opened unless it is named";

/// Offset of the table in a superblock copy, and the size of an entry.
const TABLE: u64 = 1024 + 2201;
const ENTRY: u64 = 68;

/// A volume of three devices with a file.
pub(super) struct Several {
    pub scratch: Scratch,
    pub devices: [String; 3],
}

impl Several {
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let devices =
            ["first", "second", "third"].map(|name| scratch.path(name).to_str().unwrap().to_owned());
        for (path, mib) in devices.iter().zip([64, 16, 8]) {
            File::create(path).unwrap().set_len(mib << 20).unwrap();
        }
        let [first, second, third] = &devices;
        output(&["mkfs", "-q", "-f", "-c", second, "-c", third, first]);
        fs::write(scratch.path("file"), "content").unwrap();
        let file = scratch.path("file").to_str().unwrap().to_owned();
        output(&["put", "--device", second, "--device", third, first, &file, "/"]);
        Self { scratch, devices }
    }

    fn first(&self) -> &str {
        &self.devices[0]
    }

    fn record(&self, index: u64, path: &[u8]) {
        record_on(self.first(), index, path);
    }

    fn out(&self) -> PathBuf {
        let out = self.scratch.path("out");
        let (_no_dir, _no_file) = (fs::remove_dir_all(&out), fs::remove_file(&out));
        out
    }

    pub fn words(&self, row: &[&str], first: &str) -> Vec<String> {
        let place = |word: &&str| match *word {
            "IMAGE" => first.to_owned(),
            "OUT" => self.out().to_str().unwrap().to_owned(),
            "FILE" => self.scratch.path("file").to_str().unwrap().to_owned(),
            word => word.to_owned(),
        };
        row.iter().map(place).collect()
    }

    fn content(&self) -> Vec<Pieces> {
        self.devices.iter().map(|path| pieces(path.as_ref())).collect()
    }

    /// Runs each command without the further devices: it is refused, opens none of these files and writes nothing.
    fn assert_refused(&self, commands: &[Row], first: &str, watched: &[&Path]) {
        for (row, code, _) in commands {
            let (before, out) = (self.content(), self.out());
            let watches: Vec<OpenWatch> = watched.iter().map(|path| OpenWatch::of(path)).collect();
            let refused = segno(&self.words(row, first));
            let said = stderr(&refused);
            assert_eq!(refused.status.code(), Some(*code), "{row:?}: {said}");
            assert!(said.contains(REFUSAL) && said.lines().count() == 1, "{row:?}: {said}");
            assert!(said.trim_end().chars().all(|c| !c.is_control()), "{row:?}: {said:?}");
            assert!(watches.iter().all(|w| !w.was_opened()), "{row:?} has opened a recorded path");
            assert!(self.content() == before, "{row:?} has written");
            assert!(!out.exists(), "{row:?} has made its target");
        }
    }
}

/// Changes an entry of the table, in both superblocks.
fn record_on(first: &str, index: u64, path: &[u8]) {
    let first = File::options().write(true).open(first).unwrap();
    let entry = [path, &[0; 64][path.len()..]].concat();
    for copy in [0, 4096] {
        first.write_all_at(&entry, copy + TABLE + index * ENTRY).unwrap();
    }
}

/// Whether a file is opened from now on.
struct OpenWatch(OwnedFd);

impl OpenWatch {
    fn of(path: &Path) -> Self {
        let events = inotify::init(CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&events, path, WatchFlags::OPEN).unwrap();
        Self(events)
    }

    fn was_opened(&self) -> bool {
        match read(&self.0, &mut [0; 4096]) {
            Ok(bytes) => bytes > 0,
            Err(e) => {
                assert_eq!(e, Errno::AGAIN);
                false
            }
        }
    }
}

fn stderr(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

/// Runs the command that a message proposes, as a user who pastes it.
fn proposed(said: &str) -> Output {
    let (_, command) = said.split_once('`').unwrap();
    let (command, _) = command.rsplit_once('`').unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_segno")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    Command::new("bash").args(["-c", command]).env("PATH", path).output().unwrap()
}

#[test]
fn every_command_proposes_the_command_line_that_names_the_devices() {
    let several = Several::new();
    let [first, second, third] = &several.devices;
    several.assert_refused(COMMANDS, first, &[second.as_ref(), third.as_ref()]);
    for (row, _, code) in COMMANDS {
        let Some(code) = *code else { continue };
        let watch = OpenWatch::of(second.as_ref());
        let refused = stderr(&segno(&several.words(row, first)));
        several.out();
        let named = proposed(&refused);
        let said = stderr(&named);
        assert_eq!(named.status.code(), Some(code), "{row:?}: {said}");
        assert!(!said.contains(REFUSAL) && watch.was_opened(), "{row:?}: {said}");
    }
    // The devices as operands.
    for command in ["info", "check"] {
        output(&[command, first, second, third]);
    }
}

#[test]
fn recorded_paths_are_not_opened_whatever_they_lead_to() {
    let several = Several::new();
    let (target, link) = (several.scratch.path("target"), several.scratch.path("link"));
    fs::rename(&several.devices[1], &target).unwrap();
    fs::write(&several.devices[1], "of another user").unwrap();
    let second = PathBuf::from(&several.devices[1]);
    several.assert_refused(COMMANDS, several.first(), &[&second]);
    symlink(&target, &link).unwrap();
    several.record(1, link.to_str().unwrap().as_bytes());
    several.assert_refused(COMMANDS, several.first(), &[&target]);
    let dots = format!("/dev/..{}", target.display());
    several.record(1, dots.as_bytes());
    several.assert_refused(COMMANDS, several.first(), &[&target]);
    let fifo = several.scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [fifo.to_str().unwrap(), "relative", "/nowhere", several.first()] {
        several.record(1, path.as_bytes());
        several.assert_refused(&COMMANDS[..4], several.first(), &[]);
    }
}

/// The bytes reach neither terminal nor shell as commands.
#[test]
fn a_recorded_path_of_any_bytes_is_quoted() {
    let several = Several::new();
    let hostile: &[u8] = b"it's `id` $(touch pwned) \x1b[2J\xff\n";
    let moved = several.scratch.dir.path().join(OsStr::from_bytes(hostile));
    fs::rename(&several.devices[1], &moved).unwrap();
    several.record(1, moved.as_os_str().as_encoded_bytes());
    for (row, code, named) in [COMMANDS[0], COMMANDS[12], COMMANDS[13], COMMANDS[19]] {
        let refused = segno(&several.words(row, several.first()));
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(code), "{said}");
        assert!(said.trim_end().chars().all(|c| !c.is_control()), "{said:?}");
        let done = proposed(&said);
        assert_eq!(done.status.code(), named, "{said}: {}", stderr(&done));
    }
    let info = segno(&["info", several.first()]);
    assert!(!info.stderr.contains(&0x1b) && info.stdout.is_empty());
    assert!(!Path::new("pwned").exists());
}

/// Of a table of three, with other devices than it needs.
#[test]
fn devices_that_do_not_fit_the_table_are_refused() {
    let several = Several::new();
    let [first, second, third] = &several.devices;
    let larger = several.scratch.path("larger").to_str().unwrap().to_owned();
    File::create(&larger).unwrap().set_len(32 << 20).unwrap();
    for (given, why) in [
        (&[second][..], "has 3 devices but 2 paths were given"),
        (&[second, third, &larger], "has 3 devices but 4 paths were given"),
        (&[third, second], "device 1 of the volume"),
        (&[second, second], "is named twice"),
        (&[second, first], "is named twice"),
        (&[second, &"/dev/null".to_owned()], "device 2 of the volume: /dev/null is neither"),
    ] {
        let before = several.content();
        for (row, _, _) in COMMANDS.iter().filter(|(row, ..)| row[0] != "dump") {
            let words = several.words(row, first);
            let commands = if ["journal", "store"].contains(&row[0]) { 2 } else { 1 };
            let devices = given.iter().flat_map(|path| ["--device".to_owned(), (*path).clone()]);
            let args = [&words[..commands], &devices.collect::<Vec<_>>(), &words[commands..]].concat();
            let out = segno(&args);
            let code = if row[0] == "check" { 8 } else { 1 };
            assert_eq!(out.status.code(), Some(code), "{args:?}: {}", stderr(&out));
            assert!(stderr(&out).contains(why), "{args:?}: {}", stderr(&out));
            assert!(!several.scratch.path("out").exists(), "{args:?}");
        }
        assert!(several.content() == before, "{why}");
    }
}

#[test]
fn the_library_opens_the_devices_that_are_named_and_no_other() {
    let several = Several::new();
    let [first, second, third] = &several.devices;
    let before = several.content();
    let (watch, target) = (OpenWatch::of(second.as_ref()), several.out());
    let device = segno::Device::open_read_only(first).unwrap();
    let extract = |options| segno::extract(first, &target, &options).map(|_| ());
    let build = |options| segno::build(first, several.scratch.path("built"), &options).map(|_| ());
    for refused in [
        segno::Volume::open(&device).map(|_| ()),
        segno::check(&device).map(|_| ()),
        extract(segno::ExtractOptions::default()),
        build(segno::BuildOptions::default()),
    ] {
        let e = refused.unwrap_err();
        let said = e.to_string();
        assert!(
            e.errno() == 22 && said.contains("opened only if the caller names them, in order: "),
            "{said}"
        );
        assert!(said.ends_with(&format!("\"{second}\", \"{third}\"")), "{said}");
    }
    assert!(!watch.was_opened() && several.content() == before);
    drop(device);
    let device = segno::Device::open_several_read_only(&several.devices).unwrap();
    assert!(segno::check(&device).unwrap().is_clean());
    assert_eq!(segno::Volume::open(&device).unwrap().read("/file").unwrap(), b"content");
    let devices = vec![second.into(), third.into()];
    extract(segno::ExtractOptions { devices: devices.clone(), ..Default::default() }).unwrap();
    build(segno::BuildOptions { devices, ..Default::default() }).unwrap();
    assert!(watch.was_opened() && several.content() == before);
    drop(device);
    // A format needs no other device.
    let device = segno::Device::open(first).unwrap();
    segno::format(&device, &segno::FormatOptions { force: true, ..Default::default() }).unwrap();
    assert!(segno::check(&device).unwrap().is_clean());
    assert!(several.content()[1..] == before[1..]);
}

#[test]
fn a_mount_of_an_image_opens_the_devices_that_are_named() {
    if !can_mount() {
        return;
    }
    let several = Several::new();
    let [first, second, third] = &several.devices;
    let dir = several.scratch.path("mnt").to_str().unwrap().to_owned();
    fs::create_dir(&dir).unwrap();
    for mount in
        [&["mount", first, &dir][..], &["mount", "-o", "ro", first, &dir], &["mount", "-f", first, &dir]]
    {
        let (before, watch) = (several.content(), OpenWatch::of(second.as_ref()));
        let refused = segno(mount);
        let said = stderr(&refused);
        assert!(refused.status.code() == Some(1) && said.contains(REFUSAL), "{mount:?}: {said}");
        assert!(!watch.was_opened() && several.content() == before, "{mount:?}");
        if mount.contains(&"-f") {
            continue;
        }
        let mounted = proposed(&said);
        assert!(mounted.status.success(), "{said}: {}", stderr(&mounted));
        assert_eq!(fs::read(Path::new(&dir).join("file")).unwrap(), b"content");
        output(&["umount", &dir]);
    }
    output(&["mount", "-o", &format!("device={second},device={third}"), first, &dir]);
    assert_eq!(fs::read(Path::new(&dir).join("file")).unwrap(), b"content");
    output(&["umount", &dir]);
}

/// A mount or check of a block device, as fstab(5) starts them, opens the recorded block devices, as Linux
/// does. No other command does, and no image file leads to one.
#[test]
fn recorded_block_devices_are_opened_for_root_by_a_mount_and_a_check_of_a_block_device() {
    let several = Several::new();
    let loops: Vec<Loop> = several.devices[1..].iter().filter_map(|path| Loop::of(path)).collect();
    let [second, third] = &loops[..] else {
        println!("NOT TESTED: no loop devices");
        return;
    };
    if !can_mount() {
        return;
    }
    let dir = several.scratch.path("mnt").to_str().unwrap().to_owned();
    fs::create_dir(&dir).unwrap();
    let mount = |first: &str| segno(&["mount", "-o", "ro", first, &dir]);
    let (checks, others): (Vec<Row>, Vec<Row>) =
        COMMANDS.iter().copied().partition(|(row, ..)| row[0] == "check");
    let assert_refused = |first: &str| {
        let said = stderr(&mount(first));
        assert!(said.contains(REFUSAL), "{said}");
        several.assert_refused(&checks, first, &[]);
        several.assert_refused(&others, first, &[]);
    };
    several.record(1, second.0.as_bytes());
    several.record(2, third.0.as_bytes());
    assert_refused(several.first());
    let first = Loop::of(several.first()).unwrap();
    several.assert_refused(&others, &first.0, &[]);
    for (row, ..) in &checks {
        output(&several.words(row, &first.0));
    }
    let mounted = mount(&first.0);
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    assert_eq!(fs::read(Path::new(&dir).join("file")).unwrap(), b"content");
    output(&["umount", &dir]);
    // A file, and a node in a directory where another user may replace it.
    let node = several.scratch.path("node");
    assert!(Command::new("cp").args(["-R", &third.0]).arg(&node).status().unwrap().success());
    for path in [&several.devices[2], node.to_str().unwrap(), &format!("/dev/..{}", node.display())] {
        record_on(&first.0, 2, path.as_bytes());
        assert_refused(&first.0);
    }
}
