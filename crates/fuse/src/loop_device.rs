//! A loop device as the source of a mount that needs a block device but whose volume is in an image file.
//! Only the server reads and writes the image: the device has an offset far beyond the end of the image and
//! so has no blocks. Tools find the image through its backing file.
use linux_raw_sys::loop_device::{LO_FLAGS_AUTOCLEAR, LOOP_CONFIGURE, LOOP_CTL_GET_FREE, loop_config};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use segno_device::{Location, STAND_IN_OFFSET};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const CONTROL: &str = "/dev/loop-control";
/// Attempts to take a free device, as another process may take it first.
const TRIES: usize = 16;

/// A loop device, held until it is mounted.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    pub path: PathBuf,
    _open: OwnedFd,
}

impl LoopDevice {
    /// Attaches a free device as a stand-in for an image, or for the part of it from a byte on.
    pub(crate) fn attach(image: &Path) -> io::Result<Self> {
        // A read-only device could only be mounted read-only.
        let at = Location::of(image);
        let backing = open_named(at.file())?;
        let control = open_named(Path::new(CONTROL))?;
        for _ in 0..TRIES {
            let path = PathBuf::from(format!("/dev/loop{}", free_number(&control)?));
            let device = open_named(&path)?;
            match configure(&device, &backing, at.offset()) {
                Ok(()) => return Ok(Self { path, _open: device }),
                Err(e) if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::other("no free loop device: other processes took each one first"))
    }
}

fn open_named(path: &Path) -> io::Result<OwnedFd> {
    open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| io::Error::new(io::Error::from(e).kind(), format!("{}: {e}", path.display())))
}

fn free_number(control: &OwnedFd) -> io::Result<u32> {
    // SAFETY: LOOP_CTL_GET_FREE takes no argument and returns a number.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as libc::Ioctl) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

fn configure(device: &OwnedFd, backing: &OwnedFd, start: u64) -> io::Result<()> {
    // SAFETY: zeros are a value of its integers.
    let mut config: loop_config = unsafe { std::mem::zeroed() };
    config.fd = backing.as_raw_fd().cast_unsigned();
    config.info.lo_offset = STAND_IN_OFFSET.saturating_add(start);
    // The device is removed with its last close.
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR as u32;
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config` through its pointer and keeps none.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as libc::Ioctl, &raw const config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The image of a loop device that a mount of this crate attached, as a location; otherwise `None`.
pub fn image_behind(device: &Path) -> Option<PathBuf> {
    let name = device.file_name()?.to_str().filter(|n| n.starts_with("loop"))?;
    let field = |what| fs::read(format!("/sys/block/{name}/loop/{what}")).ok();
    image_in(&field("offset")?, field("backing_file")?)
}

fn image_in(offset: &[u8], mut path: Vec<u8>) -> Option<PathBuf> {
    let offset: u64 = str::from_utf8(offset.trim_ascii_end()).ok()?.parse().ok()?;
    let start = offset.checked_sub(STAND_IN_OFFSET)?;
    // The sysfs file ends with a newline.
    let ends = path.pop() == Some(b'\n');
    let path = PathBuf::from(OsString::from_vec(path));
    ends.then(|| if start == 0 { path } else { Location::bytes(&path, start, None).path() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_devices_without_blocks_belong_to_an_image() {
        let offset = |start: u64| format!("{}\n", STAND_IN_OFFSET + start).into_bytes();
        assert_eq!(image_in(&offset(0), b"/srv/a b\n".to_vec()), Some("/srv/a b".into()));
        assert_eq!(image_in(&offset(4096), b"/srv/a\n".to_vec()), Some("/srv/a#@4096".into()));
        assert_eq!(image_in(b"0\n", b"/srv/a\n".to_vec()), None);
    }

    #[test]
    fn a_loop_device_names_the_image_cannot_change_it_and_is_removed() {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(1 << 20).unwrap();
        let device = match LoopDevice::attach(image.path()) {
            Ok(device) => device,
            Err(e) => return eprintln!("NOT TESTED: no loop device available: {e}"),
        };
        assert_eq!(image_behind(&device.path).as_deref(), Some(image.path()));
        let mut writer = fs::File::options().write(true).open(&device.path).unwrap();
        assert_eq!(writer.write(b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        drop(writer);
        let path = device.path.clone();
        let _alone = crate::tests::without_children();
        drop(device);
        assert_ne!(image_behind(&path).as_deref(), Some(image.path()));
    }

    #[test]
    fn a_missing_image_is_refused() {
        assert!(
            LoopDevice::attach(Path::new("/nowhere/image"))
                .unwrap_err()
                .to_string()
                .contains("/nowhere/image")
        );
    }
}
