//! sync(2), syncfs(2) and `segno sync`: each makes everything durable, including files that were never fsynced.
use super::Mount;
use super::{run, without_children};
use crate::SYNC_XATTR;
use crate::block::{Backing, MountType, is_useful};
use crate::loop_device::{LoopDevice, image_behind};
use crate::options::Choice;
use crate::server::Server;
use crate::wire::Opcode;
use rustix::fs::{XattrFlags, setxattr, sync, syncfs};
use rustix::mount::{UnmountFlags, unmount};
use segno_device::{BlockDevice, DeviceError, FileDevice, MemDevice, OpenOptions, Snapshot};
use segno_engine::options::JournalMode;
use segno_engine::{MountOptions, Volume};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::{CrashChoice, CrashLog, Kept, RecordDevice};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const BLOCKS: u64 = 128 * 256;

/// A mounted volume on a recording device.
struct Recorded {
    base: Snapshot,
    device: Arc<RecordDevice<MemDevice>>,
    journal: JournalMode,
    mount: Mount,
}

impl Recorded {
    fn new(choice: Choice, journal: JournalMode, backing: &Backing) -> Option<Self> {
        let memory = Arc::new(MemDevice::new(BLOCKS));
        let member = Member { device: memory.clone(), path: String::new(), zeroed: true };
        let gap_blocks = if matches!(journal, JournalMode::On) { 1024 } else { 0 };
        segno_mkfs::format(&[member], &MkfsOptions { gap_blocks, ..MkfsOptions::default() }).unwrap();
        let base = memory.snapshot();
        let device = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
        // Without background steps, nothing becomes durable by the passage of time.
        let options = MountOptions { journal: journal.clone(), background: false, ..MountOptions::default() };
        let volume = Volume::mount(device.clone(), options).unwrap();
        let closed = volume.clone();
        let server = Server::new(volume).on_destroy(move || closed.unmount().unwrap());
        let mount = Mount::served(server, choice, &[], backing)?;
        Some(Self { base, device, journal, mount })
    }

    /// The volume after a power cut now: writes that are not durable are lost.
    fn after_a_cut(&self) -> Arc<Volume> {
        // After the last write, which has returned.
        self.device.mark("cut");
        let log = CrashLog::new(self.base.clone(), self.device.log()).unwrap();
        let cut = CrashChoice { cut: log.events().len(), kept: Kept::Nothing, torn: None };
        let options = MountOptions { journal: self.journal.clone(), ..MountOptions::default() };
        Volume::mount(Arc::new(log.image(&cut)), options).unwrap()
    }
}

/// An image file for a loop device; the volume is elsewhere.
fn image() -> (tempfile::NamedTempFile, Backing) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let backing = Backing::Image(file.path().to_owned());
    (file, backing)
}

/// Whether a mount is of type `fuseblk`. It must be if sync(2) needs it and loop devices are available.
fn is_block(mount: &Mount) -> bool {
    let MountType::Plain { why } = &mount.mount_type else { return true };
    let (image, _) = image();
    let possible = is_useful().is_ok() && LoopDevice::attach(image.path()).is_ok();
    assert!(!possible, "{why}");
    eprintln!("NOT TESTED: {why}");
    false
}

/// Each transport, without and with a journal.
fn each(backing: &Backing, test: impl Fn(&Recorded)) {
    for choice in [Choice::Classic, Choice::IoUring] {
        for journal in [JournalMode::Off, JournalMode::On] {
            if let Some(recorded) = Recorded::new(choice, journal, backing) {
                test(&recorded);
            }
        }
    }
}

/// Creates files without fsync and expects `sync` to make them durable.
fn keeps_everything(r: &Recorded, sync: impl Fn(&Path)) {
    let dir = r.mount.path();
    fs::create_dir(dir.join("d")).unwrap();
    fs::write(dir.join("d/large"), vec![7; 300_000]).unwrap();
    fs::write(dir.join("small"), "small").unwrap();
    fs::rename(dir.join("small"), dir.join("d/renamed")).unwrap();
    sync(dir);
    fs::write(dir.join("later"), "later").unwrap();
    let volume = r.after_a_cut();
    let d = volume.lookup(volume.root(), b"d").unwrap().ino;
    let content = |name: &[u8]| {
        let attr = volume.lookup(d, name).unwrap();
        let mut bytes = vec![0; attr.size as usize];
        volume.read(attr.ino, 0, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(content(b"large"), vec![7; 300_000]);
    assert_eq!(content(b"renamed"), b"small");
    assert!(volume.lookup(volume.root(), b"small").is_err());
    assert!(volume.lookup(volume.root(), b"later").is_err(), "the cut lost nothing at all");
}

#[test]
fn changes_before_syncfs_survive_a_cut() {
    let (_image, backing) = image();
    each(&backing, |r| {
        if is_block(&r.mount) {
            keeps_everything(r, |dir| syncfs(File::open(dir).unwrap()).unwrap());
        }
    });
}

#[test]
fn changes_before_the_sync_attribute_survive_a_cut() {
    each(&Backing::Nothing("a test".into()), |r| {
        keeps_everything(r, |dir| setxattr(dir, SYNC_XATTR, b"", XattrFlags::empty()).unwrap());
        assert_eq!(r.mount.requests(Opcode::SyncFs), 0);
    });
}

#[test]
fn sync_and_syncfs_are_reported_on_a_block_mount() {
    let (_image, backing) = image();
    each(&backing, |r| {
        if !is_block(&r.mount) {
            return;
        }
        // Other processes may call sync(2) as well, so there may be more.
        let count = || r.mount.requests(Opcode::SyncFs);
        let before = count();
        syncfs(File::open(r.mount.path()).unwrap()).unwrap();
        let one = count();
        assert!(one > before);
        sync();
        assert!(count() > one);
    });
}

#[test]
fn a_block_mount_names_its_image_and_has_a_large_readahead() {
    let (image, backing) = image();
    let _alone = without_children();
    each(&backing, |r| {
        if !is_block(&r.mount) {
            return;
        }
        let MountType::Block { device } = &r.mount.mount_type else { return };
        assert_eq!(image_behind(device).as_deref(), Some(image.path()));
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let dir = r.mount.path().to_str().unwrap();
        let line = table.lines().find(|l| l.contains(dir)).unwrap();
        assert!(line.contains(&format!("- fuseblk {} ", device.display())), "{line}");
        // The readahead window of the loop device stays as it was.
        let setting = r.mount.bdi().join("read_ahead_kb");
        assert!(setting.to_str().unwrap().contains("-fuseblk") && setting.exists(), "{}", setting.display());
    });
}

#[test]
fn a_block_mount_is_closed_when_umount_returns_and_its_loop_device_is_gone() {
    let (image, backing) = image();
    let _alone = without_children();
    each(&backing, |r| {
        if !is_block(&r.mount) {
            return;
        }
        let MountType::Block { device } = &r.mount.mount_type else { return };
        fs::write(r.mount.path().join("f"), "x").unwrap();
        unmount(r.mount.path(), UnmountFlags::empty()).unwrap();
        assert_eq!(r.mount.requests(Opcode::Destroy), 1);
        assert!(r.mount.server.volume.is_stopped());
        assert_ne!(image_behind(device).as_deref(), Some(image.path()));
        r.mount.session.wait().unwrap();
        let volume = r.after_a_cut();
        assert!(volume.lookup(volume.root(), b"f").is_ok());
    });
}

#[test]
fn without_a_loop_device_the_mount_is_of_type_fuse() {
    each(&Backing::Image(PathBuf::from("/nowhere/image")), |r| {
        let MountType::Plain { why } = &r.mount.mount_type else { panic!("mounted as fuseblk") };
        assert!(!why.is_empty());
        fs::write(r.mount.path().join("f"), "x").unwrap();
    });
}

/// A loop device, detached on drop.
struct Disk {
    path: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl Disk {
    fn new() -> Option<Self> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(BLOCKS * 4096).unwrap();
        let made = run(Command::new("losetup").args(["--find", "--show"]).arg(file.path()));
        let made = made.ok().filter(|m| m.status.success()).map(|m| String::from_utf8(m.stdout).unwrap());
        let Some(path) = made.map(|p| PathBuf::from(p.trim())) else {
            eprintln!("NOT TESTED: losetup cannot create a block device");
            return None;
        };
        Some(Self { path, _file: file })
    }

    fn open(&self) -> Result<FileDevice, DeviceError> {
        FileDevice::open(&self.path, OpenOptions::default())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run(Command::new("losetup").arg("--detach").arg(&self.path)).unwrap();
    }
}

/// The device stays opened exclusively from open to unmount, first by the server, then by the kernel.
#[test]
fn a_block_device_is_always_opened_exclusively() {
    for choice in [Choice::Classic, Choice::IoUring] {
        let Some(disk) = Disk::new() else { return };
        let _alone = without_children();
        // As others see it: the server has the device open until it ends.
        let in_use = || fs::File::options().read(true).custom_flags(libc::O_EXCL).open(&disk.path).is_err();
        let device = Arc::new(disk.open().unwrap());
        assert!(in_use() && matches!(disk.open(), Err(DeviceError::InUse { .. })));
        let member = Member { device: device.clone(), path: String::new(), zeroed: true };
        segno_mkfs::format(&[member], &MkfsOptions::default()).unwrap();
        let (backing, exclusive) = (Backing::Device(disk.path.clone()), device.exclusive_open().unwrap());
        let volume = Volume::mount(device, MountOptions::default()).unwrap();
        let closed = volume.clone();
        let server = Server::new(volume).on_destroy(move || closed.unmount().unwrap());
        exclusive.release();
        let Some(mount) = Mount::served(server, choice, &[], &backing) else { continue };
        assert!(in_use());
        fs::write(mount.path().join("f"), "x").unwrap();
        if is_block(&mount) {
            unmount(mount.path(), UnmountFlags::empty()).unwrap();
            assert!(mount.server.volume.is_stopped() && !in_use());
        }
    }
}
