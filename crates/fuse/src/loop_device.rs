//! A loop device that stands for an image file where the kernel wants a block device as the source of a mount. It is
//! backed by an empty file in memory whose name is the path of the image: the server alone reads and writes the image,
//! and a write to the loop device by mistake changes nothing.
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create, open};
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
const NAME_PREFIX: &str = "segno:";
/// What memfd_create(2) takes.
const NAME_MAX: usize = 249;
/// How sysfs spells the backing file.
const SHOWN_PREFIX: &[u8] = b"/memfd:segno:";
const SHOWN_SUFFIX: &[u8] = b" (deleted)\n";

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
    /// Takes a free device to stand for an image of so many bytes.
    pub fn stand_for(image: &Path, bytes: u64) -> io::Result<Self> {
        let mut name = OsString::from(NAME_PREFIX);
        name.push(image);
        if name.len() > NAME_MAX {
            return Err(io::Error::other("the path of the image is too long for a loop device to show"));
        }
        let backing = memfd_create(name.as_os_str(), MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)?;
        ftruncate(&backing, bytes)?;
        let named = |e: Errno| io::Error::new(io::Error::from(e).kind(), format!("{CONTROL}: {e}"));
        let control = open(CONTROL, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(named)?;
        for _ in 0..TRIES {
            let path = PathBuf::from(format!("/dev/loop{}", free_number(&control)?));
            let shown =
                |e: Errno| io::Error::new(io::Error::from(e).kind(), format!("{}: {e}", path.display()));
            let device = open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(shown)?;
            match configure(&device, &backing) {
                Ok(()) => return Ok(Self { path, _open: device }),
                Err(e) if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::other("every loop device that is free is taken by others at once"))
    }
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
        offset: 0,
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
    image_in(&fs::read(format!("/sys/block/{name}/loop/backing_file")).ok()?)
}

fn image_in(shown: &[u8]) -> Option<PathBuf> {
    let path = shown.strip_prefix(SHOWN_PREFIX)?.strip_suffix(SHOWN_SUFFIX)?;
    Some(PathBuf::from(OsString::from_vec(path.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_backing_files_name_an_image() {
        assert_eq!(
            image_in(b"/memfd:segno:/srv/a b (deleted) (deleted)\n"),
            Some("/srv/a b (deleted)".into())
        );
        assert_eq!(image_in(b"/srv/image\n"), None);
        assert_eq!(image_in(b"/memfd:segno:/srv/a\n"), None);
    }

    #[test]
    fn a_loop_device_shows_the_image_and_goes_away_when_it_is_closed() {
        let image = Path::new("/somewhere/an image");
        let device = match LoopDevice::stand_for(image, 1 << 20) {
            Ok(device) => device,
            Err(e) => return eprintln!("NOT TESTED: no loop device to be had here: {e}"),
        };
        assert_eq!(image_behind(&device.path).as_deref(), Some(image));
        let path = device.path.clone();
        drop(device);
        assert_ne!(image_behind(&path).as_deref(), Some(image));
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused() {
        let long = PathBuf::from(format!("/{}", "d".repeat(NAME_MAX)));
        assert!(LoopDevice::stand_for(&long, 4096).unwrap_err().to_string().contains("too long"));
    }
}
