//! Volumes in streams, bytes and parts of devices; judged by f2fs-tools.
use segno::{Device, FormatOptions, MountOptions, Volume};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

const SIZE: u64 = 64 << 20;

fn run(program: &str, args: &[&Path]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program}: {said}");
    said
}

/// An image made by mkfs.f2fs and sload.f2fs with one file.
fn image(dir: &Path) -> std::path::PathBuf {
    let (path, tree) = (dir.join("disk.img"), dir.join("tree"));
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("hello"), "made by sload.f2fs").unwrap();
    run("mkfs.f2fs", &[Path::new("-q"), &path]);
    run("sload.f2fs", &[Path::new("-f"), &tree, &path]);
    path
}

#[test]
fn a_volume_of_f2fs_tools_is_read_from_a_reader_and_from_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(dir.path());
    let bytes = std::fs::read(&path).unwrap();
    for device in [Device::from_reader(File::open(&path).unwrap()), Device::from_bytes(bytes)] {
        let device = device.unwrap();
        assert_eq!(device.size(), SIZE);
        let volume = Volume::open(&device).unwrap();
        assert_eq!(volume.read_to_string("/hello").unwrap(), "made by sload.f2fs");
        assert_eq!(volume.write("/hello", "x").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
        assert_eq!(
            segno::format(&device.clone(), &FormatOptions::default()).unwrap_err().kind(),
            ErrorKind::ResourceBusy
        );
        volume.close().unwrap();
    }
}

#[test]
fn what_is_written_to_a_stream_is_clean_to_fsck() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(dir.path());
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let device = Device::from_stream(file).unwrap();
    let volume = Volume::open(&device).unwrap();
    volume.create_dir("/d").unwrap();
    volume.write("/d/large", vec![7; 3 << 20]).unwrap();
    volume.close().unwrap();
    assert!(segno::check(&device).unwrap().summary.clean_unmount);
    let said = run("fsck.f2fs", &[Path::new("--dry-run"), &path]);
    assert!(said.contains("[FSCK] other corrupted bugs                           [Ok..]"), "{said}");
    let again = Volume::open(&Device::open_read_only(&path).unwrap()).unwrap();
    assert_eq!(again.read("/d/large").unwrap(), vec![7; 3 << 20]);
}

#[test]
fn a_window_of_a_device_is_a_volume_and_nothing_around_it_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, alone) = (dir.path().join("disk"), dir.path().join("alone"));
    std::fs::write(&path, vec![0xa5; 3 * SIZE as usize]).unwrap();
    let disk = Device::open(&path).unwrap();
    let windows = [disk.window(4096, SIZE).unwrap(), disk.window(4096 + SIZE, SIZE).unwrap()];
    let open = |device: &Device| {
        segno::format(device, &FormatOptions { force: true, ..Default::default() }).unwrap();
        let volume = Volume::open(device).unwrap();
        volume.write("/a", vec![1; 5 << 20]).unwrap();
        volume
    };
    let both = windows.each_ref().map(open);
    let overlapping = disk.window(SIZE, SIZE).unwrap();
    for busy in [&disk, &overlapping, &windows[0]] {
        assert_eq!(Volume::open(busy).unwrap_err().kind(), ErrorKind::ResourceBusy);
    }
    both.into_iter().for_each(|volume| volume.close().unwrap());
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes[..4096].iter().chain(&bytes[4096 + 2 * SIZE as usize..]).all(|&b| b == 0xa5));
    std::fs::write(&alone, &bytes[4096..4096 + SIZE as usize]).unwrap();
    run("fsck.f2fs", &[Path::new("--dry-run"), &alone]);
    let inner = windows[0].window(0, SIZE).unwrap();
    let volume = Volume::open_with(&inner, &MountOptions::new().read_only(true)).unwrap();
    assert_eq!(Volume::open(&disk).unwrap_err().kind(), ErrorKind::ResourceBusy);
    assert_eq!(volume.read("/a").unwrap(), vec![1; 5 << 20]);
}

#[test]
fn windows_beyond_the_device_or_between_blocks_are_refused() {
    let disk = Device::in_memory(SIZE);
    for (offset, bytes) in [(1, 4096), (0, 4095), (SIZE, 4096), (0, SIZE + 4096), (u64::MAX - 4095, 4096)] {
        let error = disk.window(offset, bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().starts_with("cannot use a part of the device: "), "{error}");
    }
}

/// A stream that fails from a byte on.
struct Failing(io::Cursor<Vec<u8>>, u64);

impl Read for Failing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.0.position() >= self.1 {
            return Err(io::Error::other("the cable is out"));
        }
        self.0.read(into)
    }
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::Error::other("the cable is out"))
    }
}

impl Seek for Failing {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn errors_of_a_stream_are_those_of_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(image(dir.path())).unwrap();
    let failing = |from| Failing(io::Cursor::new(bytes.clone()), from);
    let error = Volume::open(&Device::from_reader(failing(8192)).unwrap()).unwrap_err();
    assert!(format!("{error:?}").contains("the cable is out"), "{error:?}");
    let error = Volume::open(&Device::from_stream(failing(u64::MAX)).unwrap()).unwrap_err();
    assert!(error.to_string().contains("flush") && error.to_string().contains("the cable is out"), "{error}");
}
