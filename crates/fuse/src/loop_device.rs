//! A loop device that stands for an image file where the kernel wants a block device as the source of a mount. The server
//! alone reads and writes the image: the device begins far behind the end of the image and so has no blocks, but tools
//! find the image by it.
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const CONTROL: &str = "/dev/loop-control";
const CTL_GET_FREE: u64 = 0x4c82;
const CONFIGURE: u64 = 0x4c0a;
/// The device goes away when nobody has it open any more.
const AUTOCLEAR: u32 = 4;
/// Somebody else may take the device that was free; so often another one is asked for.
const TRIES: usize = 16;
/// Where the device begins in the image.
const FAR: u64 = 1 << 62;

/// `struct loop_config` with the `struct loop_info64` in it.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt: [u32; 2],
    flags: u32,
    names_and_key: [u8; 64 + 64 + 32],
    init: [u64; 2],
    reserved: [u64; 8],
}
const _: () = assert!(size_of::<Config>() == 304);

/// A loop device, held until it is mounted.
#[derive(Debug)]
pub struct LoopDevice {
    pub path: PathBuf,
    _open: OwnedFd,
}

impl LoopDevice {
    /// Takes a free device to stand for an image.
    pub fn stand_for(image: &Path) -> io::Result<Self> {
        // A device that cannot be written could only be mounted read-only.
        let backing = open_named(image)?;
        let control = open_named(Path::new(CONTROL))?;
        for _ in 0..TRIES {
            let path = PathBuf::from(format!("/dev/loop{}", free_number(&control)?));
            let device = open_named(&path)?;
            match configure(&device, &backing) {
                Ok(()) => return Ok(Self { path, _open: device }),
                Err(e) if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::other("every loop device that is free is taken by others at once"))
    }
}

fn open_named(path: &Path) -> io::Result<OwnedFd> {
    open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| io::Error::new(io::Error::from(e).kind(), format!("{}: {e}", path.display())))
}

fn free_number(control: &OwnedFd) -> io::Result<u32> {
    // SAFETY: LOOP_CTL_GET_FREE takes no argument and returns a number.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), CTL_GET_FREE) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

fn configure(device: &OwnedFd, backing: &OwnedFd) -> io::Result<()> {
    let config = Config {
        fd: backing.as_raw_fd().cast_unsigned(),
        block_size: 0,
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: FAR,
        size_limit: 0,
        number: 0,
        encrypt: [0; 2],
        flags: AUTOCLEAR,
        names_and_key: [0; 160],
        init: [0; 2],
        reserved: [0; 8],
    };
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config` through its pointer and keeps none.
    match unsafe { libc::ioctl(device.as_raw_fd(), CONFIGURE, &raw const config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The image that a loop device stands for, if it is one of ours.
pub fn image_behind(device: &Path) -> Option<PathBuf> {
    let name = device.file_name()?.to_str().filter(|n| n.starts_with("loop"))?;
    let about = |what| fs::read(format!("/sys/block/{name}/loop/{what}")).ok();
    image_in(&about("offset")?, about("backing_file")?)
}

fn image_in(offset: &[u8], mut path: Vec<u8>) -> Option<PathBuf> {
    let is_ours = offset.trim_ascii_end() == FAR.to_string().as_bytes();
    // The line of sysfs ends.
    (is_ours && path.pop() == Some(b'\n')).then(|| PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_devices_without_blocks_stand_for_an_image() {
        let far = format!("{FAR}\n").into_bytes();
        assert_eq!(image_in(&far, b"/srv/a b\n".to_vec()), Some("/srv/a b".into()));
        assert_eq!(image_in(b"0\n", b"/srv/a\n".to_vec()), None);
    }

    #[test]
    fn a_loop_device_shows_the_image_but_cannot_change_it_and_goes_away() {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(1 << 20).unwrap();
        let device = match LoopDevice::stand_for(image.path()) {
            Ok(device) => device,
            Err(e) => return eprintln!("NOT TESTED: no loop device to be had here: {e}"),
        };
        assert_eq!(image_behind(&device.path).as_deref(), Some(image.path()));
        let mut writer = fs::File::options().write(true).open(&device.path).unwrap();
        assert_eq!(writer.write(b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        drop(writer);
        let path = device.path.clone();
        drop(device);
        assert_ne!(image_behind(&path).as_deref(), Some(image.path()));
    }

    #[test]
    fn an_image_that_is_not_there_is_refused() {
        assert!(
            LoopDevice::stand_for(Path::new("/nowhere/image"))
                .unwrap_err()
                .to_string()
                .contains("/nowhere/image")
        );
    }
}
