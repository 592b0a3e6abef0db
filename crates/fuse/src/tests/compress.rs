//! Ioctls of F2FS on compressed files.
use super::Mount;
use super::attributes::compare;
use super::volume_with;
use crate::options::Choice;
use segno_device::MemDevice;
use segno_engine::{CompressMode, Compression, MountOptions, Volume};
use segno_format::Features;
use segno_mkfs::{Member, MkfsOptions};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

const SETFLAGS: u32 = 0x4008_6602;
const COMPR: u64 = 4;
const GET_BLOCKS: u32 = 0x8008_f511;
const RELEASE: u32 = 0x8008_f512;
const RESERVE: u32 = 0x8008_f513;
const GET_OPTION: u32 = 0x8002_f515;
const SET_OPTION: u32 = 0x4002_f516;
const DECOMPRESS: u32 = 0xf517;
const COMPRESS: u32 = 0xf518;

fn ioctl<const N: usize>(file: &File, cmd: u32, mut argument: [u8; N]) -> Result<[u8; N], i32> {
    // SAFETY: the kernel reads and writes the number of bytes encoded in `cmd`, which is the length of `argument` or 0.
    match unsafe { libc::ioctl(file.as_raw_fd(), u64::from(cmd), argument.as_mut_ptr()) } {
        0 => Ok(argument),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

#[test]
fn compressed_files_on_a_mount() {
    let features = Features::EXTRA_ATTR | Features::COMPRESSION;
    for choice in [Choice::Classic, Choice::IoUring] {
        let volume = volume_with(&MkfsOptions { features, ..MkfsOptions::default() });
        let Some(mount) = Mount::of(volume, choice, &[]) else { continue };
        let path = mount.path().join("f");
        let file = File::create_new(&path).unwrap();
        assert_eq!(ioctl(&file, GET_OPTION, [0; 2]), Err(61));
        ioctl(&file, SETFLAGS, COMPR.to_le_bytes()).unwrap();
        assert_eq!(ioctl(&file, GET_OPTION, [0; 2]), Ok([1, 2]));
        ioctl(&file, SET_OPTION, [2, 4]).unwrap();
        assert_eq!(ioctl(&file, SET_OPTION, [9, 4]), Err(22));
        file.write_all_at(&[7; 1 << 18], 0).unwrap();
        file.sync_all().unwrap();
        let count = |n: u64| Ok(n.to_le_bytes());
        assert_eq!(ioctl(&file, GET_BLOCKS, [0; 8]), count(60));
        assert_eq!(ioctl(&file, DECOMPRESS, [0; 0]), Err(95));
        assert_eq!(fs::metadata(&path).unwrap().blocks(), 64 * 8);
        assert_eq!(ioctl(&file, RELEASE, [0; 8]), count(60));
        assert_eq!(fs::metadata(&path).unwrap().blocks(), 4 * 8);
        let again = OpenOptions::new().write(true).open(&path).unwrap();
        assert_eq!(again.write_at(b"x", 5).unwrap_err().raw_os_error(), Some(1));
        assert_eq!(ioctl(&file, RESERVE, [0; 8]), count(60));
        assert_eq!(again.write_at(b"x", 5).unwrap(), 1);
        let mut expected = vec![7; 1 << 18];
        expected[5] = b'x';
        assert!(fs::read(&path).unwrap() == expected);
        file.set_len(1000).unwrap();
        file.set_len(5000).unwrap();
        expected.truncate(1000);
        expected.resize(5000, 0);
        assert!(fs::read(&path).unwrap() == expected);
    }
}

type Step = fn(&File);

const STEPS: [(&str, Step); 10] = [
    ("write", |f| f.write_all_at(&[7; 100_000], 0).unwrap()),
    ("compression", |f| assert!(ioctl(f, COMPRESS, []).is_ok())),
    ("release", |f| assert!(ioctl(f, RELEASE, [0; 8]).is_ok())),
    ("reservation", |f| assert!(ioctl(f, RESERVE, [0; 8]).is_ok())),
    ("part of a cluster", |f| f.write_all_at(&[8; 5000], 50_000).unwrap()),
    ("truncation within a cluster", |f| f.set_len(70_000).unwrap()),
    ("compression again", |f| assert!(ioctl(f, COMPRESS, []).is_ok())),
    ("decompression", |f| assert!(ioctl(f, DECOMPRESS, []).is_ok())),
    ("truncation", |f| f.set_len(0).unwrap()),
    ("parameters", |f| assert!(ioctl(f, SET_OPTION, [2, 3]).is_ok())),
];

/// Compression changes the number of blocks without a request that changes content.
#[test]
fn the_kernel_knows_the_attributes_of_a_compressed_file() {
    let features = Features::EXTRA_ATTR | Features::COMPRESSION;
    for choice in [Choice::Classic, Choice::IoUring] {
        let device = Arc::new(MemDevice::new(128 * 256));
        let member = Member { device: device.clone(), path: String::new(), zeroed: true };
        segno_mkfs::format(&[member], &MkfsOptions { features, ..MkfsOptions::default() }).unwrap();
        let compression =
            Compression { mode: CompressMode::User, extensions: vec!["*".into()], ..Compression::default() };
        let volume = Volume::mount(device, MountOptions { compression, ..MountOptions::default() }).unwrap();
        let Some(mount) = Mount::of(volume, choice, &[]) else { continue };
        let file =
            File::options().read(true).write(true).create_new(true).open(mount.path().join("f")).unwrap();
        for (name, step) in STEPS {
            compare(&mount, &file.metadata().unwrap(), "nothing");
            step(&file);
            compare(&mount, &file.metadata().unwrap(), name);
            mount.server.volume.sync().unwrap();
            compare(&mount, &file.metadata().unwrap(), &format!("writeback after {name}"));
        }
    }
}
