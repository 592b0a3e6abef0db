//! Ioctls on the whole volume, issued on directories and files.
use super::protocol::ask_ioctl;
use super::{Mount, unmount_idle};
use crate::block::Backing;
use crate::options::Choice;
use crate::server::Server;
use crate::{SHUTDOWN_XATTR, trusted_name};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use segno_device::{BlockDevice, MemDevice};
use segno_engine::{MountOptions, Volume};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::{Event, RecordDevice};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

const FITRIM: u32 = 0xc018_5879;
const SHUTDOWN: u32 = 0x8004_587d;
const GETFSLABEL: u32 = 0x8100_9431;
const SETFSLABEL: u32 = 0x4100_9432;
const SEGMENT: u64 = 2 << 20;

/// A mounted volume and its device.
struct Scene {
    device: Arc<RecordDevice<MemDevice>>,
    mount: Mount,
}

fn format() -> Arc<RecordDevice<MemDevice>> {
    let device = Arc::new(RecordDevice::new(MemDevice::new(128 * 256)));
    let member = Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &MkfsOptions::default()).unwrap();
    device
}

/// Runs a test on a mount of each transport.
fn each(permits_shutdown: bool, test: impl Fn(&Scene)) {
    for choice in [Choice::Classic, Choice::IoUring] {
        let device = format();
        let volume = Volume::mount(device.clone(), MountOptions::default()).unwrap();
        let server = Server::new(volume).permit_shutdown(permits_shutdown);
        if let Some(mount) = Mount::served(server, choice, &[], &Backing::Nothing("a test".into())) {
            test(&Scene { device, mount });
        }
    }
}

impl Scene {
    fn path(&self) -> &Path {
        self.mount.path()
    }

    /// The volume, mounted again.
    fn again(&self) -> Arc<Volume> {
        let device: Arc<dyn BlockDevice> = self.device.clone();
        Volume::mount(device, MountOptions::default()).unwrap()
    }
}

fn ioctl<const N: usize>(path: &Path, cmd: u32, mut argument: [u8; N]) -> io::Result<[u8; N]> {
    let file = File::open(path)?;
    // SAFETY: the kernel reads and writes the number of bytes encoded in `cmd`, which is the length of `argument`.
    match unsafe { libc::ioctl(file.as_raw_fd(), u64::from(cmd), argument.as_mut_ptr()) } {
        0 => Ok(argument),
        _ => Err(io::Error::last_os_error()),
    }
}

fn refusal<T: std::fmt::Debug>(result: io::Result<T>) -> Errno {
    Errno::from_io_error(&result.unwrap_err()).unwrap()
}

fn label_bytes(label: &[u8]) -> [u8; 256] {
    std::array::from_fn(|i| label.get(i).copied().unwrap_or(0))
}

#[test]
fn a_label_is_set_and_kept() {
    each(false, |s| {
        assert_eq!(ioctl(s.path(), GETFSLABEL, [1; 256]).unwrap(), [0; 256]);
        for label in ["backup", "Größe 𝄋", ""] {
            ioctl(s.path(), SETFSLABEL, label_bytes(label.as_bytes())).unwrap();
            assert_eq!(ioctl(s.path(), GETFSLABEL, [1; 256]).unwrap(), label_bytes(label.as_bytes()));
        }
        // From a file as well.
        fs::write(s.path().join("f"), "x").unwrap();
        ioctl(&s.path().join("f"), SETFSLABEL, label_bytes(b"last")).unwrap();
        assert_eq!(s.again().label(), "last", "durable at once");
        let endless = [b'x'; 256];
        assert_eq!(refusal(ioctl(s.path(), SETFSLABEL, endless)), Errno::INVAL);
        assert_eq!(refusal(ioctl(s.path(), SETFSLABEL, label_bytes(b"\xff"))), Errno::INVAL);
        assert_eq!(s.again().label(), "last");
    });
}

#[test]
fn a_label_that_does_not_fit_the_call_is_cut_at_a_character() {
    let device = Arc::new(MemDevice::new(128 * 256));
    let member = Member { device: device.clone(), path: String::new(), zeroed: true };
    let options = MkfsOptions { label: "€".repeat(200), ..MkfsOptions::default() };
    segno_mkfs::format(&[member], &options).unwrap();
    let server = Server::new(Volume::mount(device, MountOptions::default()).unwrap());
    let (error, out) = ask_ioctl(&server, 1000, GETFSLABEL, &[]);
    assert_eq!(error, 0);
    assert_eq!(out, label_bytes("€".repeat(85).as_bytes()));
}

fn range(start: u64, len: u64, min_len: u64) -> [u8; 24] {
    let words = [start, len, min_len].map(u64::to_le_bytes).concat();
    words.try_into().unwrap()
}

/// Number of bytes trimmed.
fn trim(path: &Path, argument: [u8; 24]) -> io::Result<u64> {
    let out = ioctl(path, FITRIM, argument)?;
    Ok(u64::from_le_bytes(out[8..16].try_into().unwrap()))
}

#[test]
fn trim_discards_free_space_in_the_range() {
    each(false, |s| {
        let content = vec![5; 5 << 20];
        fs::write(s.path().join("kept"), &content).unwrap();
        s.mount.server.volume.sync().unwrap();
        let discarded = || -> u64 {
            let of = |e: &Event| if let Event::Discard { count, .. } = e { *count * 4096 } else { 0 };
            s.device.log().iter().map(of).sum()
        };
        let before = discarded();
        let all = trim(s.path(), range(0, u64::MAX, 0)).unwrap();
        assert!(all > 0 && all.is_multiple_of(SEGMENT));
        assert_eq!(discarded() - before, all);
        // Part of the volume, no whole segment, and runs that are too short.
        let half = s.device.block_count() / 2 * 4096;
        let (lower, upper) = (range(0, half, 0), range(half, u64::MAX, 0));
        assert_eq!(trim(s.path(), lower).unwrap() + trim(s.path(), upper).unwrap(), all);
        assert_eq!(trim(s.path(), range(0, SEGMENT - 4096, 0)).unwrap(), 0);
        assert_eq!(trim(s.path(), range(0, u64::MAX, u64::MAX)).unwrap(), 0);
        assert_eq!(refusal(trim(s.path(), range(0, 4095, 0))), Errno::INVAL);
        assert_eq!(refusal(trim(s.path(), range(u64::MAX, 4096, 0))), Errno::INVAL);
        assert_eq!(fs::read(s.path().join("kept")).unwrap(), content);
        let again = s.again();
        let kept = again.lookup(again.root(), b"kept").unwrap();
        let mut bytes = vec![0; content.len()];
        again.read(kept.ino, 0, &mut bytes).unwrap();
        assert_eq!(bytes, content);
    });
}

/// A file with fsync and one without.
fn make_files(s: &Scene) {
    let new = |name: &str| {
        fs::write(s.path().join(name), vec![3; 8192]).unwrap();
        File::open(s.path().join(name)).unwrap()
    };
    new("fsynced").sync_all().unwrap();
    new("unsynced");
}

/// Sizes of the files after another mount.
fn found(s: &Scene) -> [Option<u64>; 2] {
    let volume = s.again();
    [&b"fsynced"[..], b"unsynced"].map(|name| volume.lookup(volume.root(), name).ok().map(|a| a.size))
}

#[test]
fn a_shutdown_is_like_a_power_cut() {
    each(true, |s| {
        make_files(s);
        let writes = s.device.log().len();
        ioctl(s.path(), SHUTDOWN, [0; 4]).unwrap();
        assert_eq!(refusal(fs::write(s.path().join("new"), "x")), Errno::IO);
        assert_eq!(refusal(fs::read_dir(s.path()).unwrap().next().unwrap()), Errno::IO);
        assert_eq!(refusal(File::open(s.path().join("unsynced")).unwrap().sync_all()), Errno::IO);
        s.mount.server.volume.unmount().unwrap();
        unmount_idle(s.path()).unwrap();
        assert_eq!(s.device.log().len(), writes, "no write reaches the device");
        assert_eq!(found(s), [Some(8192), None]);
    });
}

#[test]
fn a_shutdown_without_the_option_is_refused() {
    each(false, |s| {
        assert_eq!(refusal(ioctl(s.path(), SHUTDOWN, [0; 4])), Errno::OPNOTSUPP);
        assert_eq!(shut_down(s, "2"), Err(Errno::OPNOTSUPP));
        fs::write(s.path().join("f"), "x").unwrap();
    });
}

/// By the attribute, under the name that the user of the test may set.
fn shut_down(s: &Scene, how: &str) -> rustix::io::Result<()> {
    let root = rustix::process::geteuid().is_root();
    let name = if root { trusted_name(SHUTDOWN_XATTR) } else { SHUTDOWN_XATTR.to_owned() };
    setxattr(s.path(), &*name, how.as_bytes(), XattrFlags::empty())
}

#[test]
fn a_shutdown_by_attribute_takes_the_amount_to_write() {
    for (how, left) in [("0", Some(8192)), ("1", Some(0)), ("2", None)] {
        each(true, |s| {
            make_files(s);
            assert_eq!(shut_down(s, "3"), Err(Errno::INVAL));
            shut_down(s, how).unwrap();
            let mut state = [0; 32];
            let n = getxattr(s.path(), SHUTDOWN_XATTR, &mut state).unwrap();
            assert_eq!(&state[..n], b"shut down");
            assert_eq!(refusal(fs::create_dir(s.path().join("d"))), Errno::IO);
            assert_eq!(found(s), [Some(8192), left], "level {how}");
        });
    }
}
