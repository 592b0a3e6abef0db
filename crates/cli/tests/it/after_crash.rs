//! After a crash, before any writable mount: every command that reads shows what was fsynced, and writes nothing.
use super::{Scratch, can_mount, output, refusal, segno};
use segno_device::{FileDevice, OpenOptions, open_volume};
use segno_engine::options::JournalMode;
use segno_engine::{Compression, MountOptions, Owner, Volume};
use segno_journal::Area;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// A volume whose writer is gone.
pub struct Crashed {
    scratch: Scratch,
    pub image: String,
    /// Every file of the volume: members and an external journal.
    storage: Vec<PathBuf>,
    /// The second device of two.
    second: Option<String>,
    pub side: Option<String>,
    /// Names and contents of files that were fsynced since the last checkpoint.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Crashed {
    pub fn new(mkfs: &[&str], second: bool) -> Self {
        let scratch = Scratch::new();
        let image = scratch.path("volume").to_str().unwrap().to_owned();
        let mut storage = vec![PathBuf::from(&image)];
        let other = scratch.path("second").to_str().unwrap().to_owned();
        let mut args = [&["mkfs", "-q"], mkfs].concat();
        if second {
            for path in [&image, &other] {
                File::create(path).unwrap().set_len(64 << 20).unwrap();
            }
            storage.push(PathBuf::from(&other));
            args.extend(["-f", "-c", &other]);
        } else {
            args.extend(["--size", "64M"]);
        }
        output(&[&args[..], &[&image]].concat());
        let second = second.then_some(other);
        Self { scratch, image, storage, second, side: None, files: Vec::new() }
    }

    pub fn options(&self) -> MountOptions {
        MountOptions { background: false, ..MountOptions::default() }
    }

    /// Writes and fsyncs files in this process, which then forgets the volume.
    fn fill(mut self, options: MountOptions) -> Self {
        let device = open_volume(&self.members(), OpenOptions::default()).unwrap();
        let volume = Volume::mount(device, options).unwrap();
        for i in 0..12_usize {
            let (name, content) = (format!("file{i:02}"), vec![b'a' + i as u8; 1 + i * i * 100]);
            let owner = Owner::default();
            let ino = volume.mknod(volume.root(), name.as_bytes(), 0o100_644, (0, 0), owner).unwrap().ino;
            assert_eq!(volume.write(ino, 0, &content).unwrap(), content.len());
            volume.fsync(ino).unwrap();
            self.files.push((name, content));
        }
        self
    }

    /// Options of a mount with a new external journal.
    pub fn beside(&mut self) -> MountOptions {
        let side = self.path("side");
        let area = Area::whole(Arc::new(FileDevice::create(&side, 8 << 20, false).unwrap()));
        self.storage.push(PathBuf::from(&side));
        self.side = Some(side);
        MountOptions { journal: JournalMode::External(area), ..self.options() }
    }

    pub fn read_storage(&self) -> Vec<Vec<u8>> {
        self.storage.iter().map(|path| fs::read(path).unwrap()).collect()
    }

    pub fn path(&self, name: &str) -> String {
        self.scratch.path(name).to_str().unwrap().to_owned()
    }

    fn members(&self) -> Vec<&String> {
        std::iter::once(&self.image).chain(&self.second).collect()
    }

    /// A command with the options for the second device and the external journal, if there are any.
    pub fn with_side(&self, args: &[&str]) -> Vec<String> {
        let device = self.second.iter().flat_map(|second| ["--device".to_owned(), second.clone()]);
        let journal = self.side.iter().flat_map(|side| ["--journal".to_owned(), side.clone()]);
        args.iter().map(|arg| (*arg).to_owned()).chain(device).chain(journal).collect()
    }

    fn mount_options(&self) -> String {
        let device = self.second.iter().map(|second| format!(",device={second}"));
        let journal = self.side.iter().map(|side| format!(",journal={side}"));
        ["ro".to_owned()].into_iter().chain(device).chain(journal).collect()
    }

    pub fn output(&self, args: &[&str]) -> String {
        output(&self.with_side(args))
    }
}

fn chain() -> Crashed {
    let new = Crashed::new(&[], false);
    let options = new.options();
    new.fill(options)
}

pub fn journal() -> Crashed {
    let new = Crashed::new(&["--journal", "8M"], false);
    let options = MountOptions { journal: JournalMode::Auto, ..new.options() };
    new.fill(options)
}

fn compressed() -> Crashed {
    let new = Crashed::new(&["--journal", "8M", "-O", "extra_attr,compression"], false);
    let compression = Compression { extensions: vec!["*".into()], ..Compression::default() };
    let options = MountOptions { journal: JournalMode::Auto, compression, ..new.options() };
    new.fill(options)
}

fn several() -> Crashed {
    let new = Crashed::new(&[], true);
    let options = new.options();
    new.fill(options)
}

pub fn external() -> Crashed {
    let mut new = Crashed::new(&[], false);
    let options = new.beside();
    new.fill(options)
}

type Made = (&'static str, fn() -> Crashed);
const ALL: [Made; 5] = [
    ("chain", chain),
    ("journal", journal),
    ("journal of compressed files", compressed),
    ("chain on several devices", several),
    ("external journal", external),
];

/// One way to read a volume: all files, by name.
type Reader = fn(&Crashed) -> Vec<(String, Vec<u8>)>;
const READERS: [(&str, Reader); 10] = [
    ("ls and cat", cat),
    ("stat", stat),
    ("extents", extents),
    ("get", get),
    ("extract", extract),
    ("extract --tar", extract_tar),
    ("build of an image", build),
    ("the library", library),
    ("rescue", rescue),
    ("check -n", check),
];

fn cat(v: &Crashed) -> Vec<(String, Vec<u8>)> {
    let names = v.output(&["ls", &v.image]);
    let files = names.lines().filter(|name| name.starts_with("file"));
    files.map(|name| (name.to_owned(), v.output(&["cat", &v.image, name]).into_bytes())).collect()
}

/// It shows sizes; the contents are those expected.
fn stat(v: &Crashed) -> Vec<(String, Vec<u8>)> {
    let of = |(name, content): &(String, Vec<u8>)| {
        let said = v.output(&["stat", &v.image, name]);
        assert!(said.contains(&content.len().to_string()), "{said}");
        (name.clone(), content.clone())
    };
    v.files.iter().map(of).collect()
}

fn extents(v: &Crashed) -> Vec<(String, Vec<u8>)> {
    let said = v.output(&["extents", "--image", &v.image, "--all", "/"]);
    let shown = v.files.iter().filter(|(name, _)| said.contains(name.as_str()));
    shown.cloned().collect()
}

fn tree(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut files: Vec<_> = entries.map(|path| (name(&path), path)).collect();
    files.retain(|(name, _)| name.starts_with("file"));
    files.sort();
    files.into_iter().map(|(name, path)| (name, fs::read(path).unwrap())).collect()
}

fn get(v: &Crashed) -> Vec<(String, Vec<u8>)> {
    let to = v.path("got");
    v.output(&["get", &v.image, "/", &to]);
    tree(to.as_ref())
}

fn extract(v: &Crashed) -> Vec<(String, Vec<u8>)> {
    let to = v.path("extracted");
    let out = segno(&v.with_side(&["extract", &v.image, &to]));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success() && said.contains("replayed in memory"), "{said}");
    tree(to.as_ref())
}

fn extract_tar(v: &Crashed) -> Vec<(String, Vec<u8>)> {
    let (archive, to) = (v.path("archive.tar"), v.path("untarred"));
    v.output(&["extract", "--tar", &archive, &v.image]);
    fs::create_dir(&to).unwrap();
    assert!(Command::new("tar").args(["-xf", &archive, "-C", &to]).status().unwrap().success());
    tree(to.as_ref())
}

fn build(v: &Crashed) -> Vec<(String, Vec<u8>)> {
    let (built, to) = (v.path("built"), v.path("rebuilt"));
    v.output(&["build", &v.image, &built]);
    output(&["get", &built, "/", &to]);
    tree(to.as_ref())
}

fn library(v: &Crashed) -> Vec<(String, Vec<u8>)> {
    let device = segno::Device::open_several_read_only(&v.members()).unwrap();
    let mut options = segno::MountOptions::new();
    if let Some(side) = &v.side {
        options = options.journal(&segno::Device::open_read_only(side).unwrap());
    }
    let volume = segno::Volume::open_with(&device, &options).unwrap();
    assert!(volume.write("/new", "x").is_err());
    let read = |(name, _): &(String, Vec<u8>)| (name.clone(), volume.read(format!("/{name}")).unwrap());
    let files = v.files.iter().map(read).collect();
    volume.close().unwrap();
    files
}

/// It finds the nodes of a chain, and replays a journal.
fn rescue(v: &Crashed) -> Vec<(String, Vec<u8>)> {
    let to = v.path("rescued");
    segno(&v.with_side(&["rescue", &v.image, &to]));
    tree(to.as_ref())
}

fn check(v: &Crashed) -> Vec<(String, Vec<u8>)> {
    let said = v.output(&["check", "-n", &v.image]);
    assert!(said.contains(&format!("{} files", v.files.len())) && said.ends_with("clean\n"), "{said}");
    v.files.clone()
}

#[test]
fn every_command_that_reads_shows_what_was_fsynced() {
    for (case, made) in ALL {
        let crashed = made();
        let before = crashed.read_storage();
        for (reader, read) in READERS {
            assert!(read(&crashed) == crashed.files, "{case}: {reader}");
            assert!(crashed.read_storage() == before, "{case}: {reader} has written");
        }
    }
}

/// A mount, unmounted when dropped.
pub struct Mount(pub String);

impl Mount {
    pub fn at(dir: String) -> Self {
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        segno(&["umount", &self.0]);
    }
}

#[test]
fn a_read_only_mount_shows_what_was_fsynced_and_stays_read_only() {
    if !can_mount() {
        return;
    }
    for (case, made) in ALL {
        let crashed = made();
        let before = crashed.read_storage();
        let mount = Mount::at(crashed.path("mnt"));
        let options = crashed.mount_options();
        output(&["mount", "-o", &options, &crashed.image, &mount.0]);
        assert!(tree(mount.0.as_ref()) == crashed.files, "{case}");
        let refused = File::create(Path::new(&mount.0).join("new")).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{case}");
        // The state in memory cannot be written to the device: the server refuses, independently of the
        // kernel's flag.
        let mut helper = Command::new(env!("CARGO_BIN_EXE_segno"));
        let _only_root =
            helper.arg0("mount.segno").args([&crashed.image, &mount.0, "-o", "remount,rw"]).output();
        let refused = File::create(Path::new(&mount.0).join("new")).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{case}");
        drop(mount);
        assert!(crashed.read_storage() == before, "{case}: the mount has written");
    }
}

/// Runs a server until its files are fsynced, and kills it.
fn killed(mkfs: &[&str], options: &str) -> Crashed {
    let mut crashed = Crashed::new(mkfs, false);
    let mount = Mount::at(crashed.path("served"));
    let program = env!("CARGO_BIN_EXE_segno");
    let args = ["mount", "-f", "-o", options, &crashed.image, &mount.0];
    let mut server = Command::new(program).args(args).spawn().unwrap();
    let mounted = || fs::read_to_string("/proc/self/mounts").unwrap().contains(&mount.0);
    while !mounted() {
        assert!(server.try_wait().unwrap().is_none(), "the server has ended");
        sleep(Duration::from_millis(20));
    }
    for i in 0..5 {
        let (name, content) = (format!("file{i}"), vec![b'A' + i; 5000 * usize::from(i) + 1]);
        let mut file = File::create(Path::new(&mount.0).join(&name)).unwrap();
        file.write_all(&content).unwrap();
        file.sync_all().unwrap();
        crashed.files.push((name, content));
    }
    server.kill().unwrap();
    server.wait().unwrap();
    drop(mount);
    crashed
}

#[test]
fn after_a_killed_server_too() {
    if !can_mount() {
        return;
    }
    for (mkfs, options) in [(&[][..], "commit=1000"), (&["--journal", "8M"], "journal=auto,commit=1000")] {
        let crashed = killed(mkfs, options);
        let before = crashed.read_storage();
        for (reader, read) in READERS {
            assert!(read(&crashed) == crashed.files, "{options}: {reader}");
        }
        assert!(crashed.read_storage() == before, "{options}");
    }
}

/// As Linux does: the option alone is accepted, and the mount refused while there is something to recover.
#[test]
fn disable_roll_forward_recovers_nothing_and_gives_up_nothing() {
    if !can_mount() {
        return;
    }
    for (case, made) in [ALL[0], ALL[1]] {
        let crashed = made();
        let before = crashed.read_storage();
        let mount = Mount::at(crashed.path("mnt"));
        let (code, said) =
            refusal(&["mount", "-o", "disable_roll_forward", crashed.image.as_str(), mount.0.as_str()]);
        assert!(code == 1 && said.contains("left fsynced data to recover"), "{case}: {code} {said}");
        output(&["mount", "-o", "ro,disable_roll_forward", &crashed.image, &mount.0]);
        assert!(tree(mount.0.as_ref()).is_empty(), "{case}");
        drop(mount);
        assert!(crashed.read_storage() == before, "{case}");
    }
}
