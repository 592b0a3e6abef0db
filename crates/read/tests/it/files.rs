//! Stored files are read back.
use segno::{Device, Features, FormatOptions};
use segno_read::{Entry, Error, FileType, Inode, OutOfRange, Volume};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Content that differs from block to block.
fn content(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 7 + i / 4096 + seed) as u8).collect()
}

/// Files by path: inline, of a block and a part, and large enough for indirect nodes (from 923 + 2 * 1018 blocks on).
fn tree() -> BTreeMap<String, Vec<u8>> {
    let mut tree = BTreeMap::from([
        ("empty".into(), Vec::new()),
        ("inline".into(), content(100, 1)),
        ("dir/part".into(), content(5000, 2)),
        ("dir/sub/large".into(), content(13 << 20, 3)),
    ]);
    tree.extend((0..900).map(|i| (format!("many/file with a long name, number {i}"), content(i, i))));
    tree
}

fn run(program: &str, args: &[&Path]) {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A volume by mkfs.f2fs and sload.f2fs.
pub(crate) fn of_tools(dir: &Path) -> PathBuf {
    let (image, host) = (dir.join("disk.img"), dir.join("tree"));
    for (path, bytes) in tree() {
        let path = host.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    symlink("dir/part", host.join("link")).unwrap();
    File::create(&image).unwrap().set_len(128 << 20).unwrap();
    let features = Path::new("extra_attr,inode_checksum,sb_checksum");
    run("mkfs.f2fs", &[Path::new("-q"), Path::new("-O"), features, &image]);
    run("sload.f2fs", &[Path::new("-f"), &host, &image]);
    image
}

/// A volume by the engine.
fn of_engine(dir: &Path) -> PathBuf {
    let image = dir.join("engine.img");
    let device = Device::create(&image, 128 << 20).unwrap();
    segno::format(&device, &FormatOptions::default()).unwrap();
    let volume = segno::Volume::open(&device).unwrap();
    for (path, bytes) in tree() {
        let path = Path::new("/").join(path);
        volume.create_dir_all(path.parent().unwrap()).unwrap();
        volume.write(path, bytes).unwrap();
    }
    volume.symlink("dir/part", "/link").unwrap();
    volume.close().unwrap();
    image
}

fn read(volume: &Volume<&[u8]>, file: &Inode) -> Vec<u8> {
    let mut bytes = vec![0; file.len() as usize + 10];
    let count = volume.read(file, 0, &mut bytes).unwrap();
    bytes.truncate(count);
    bytes
}

fn walk(volume: &Volume<&[u8]>, dir: &Inode, at: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    let mut names = Vec::new();
    let each =
        |e: Entry<'_>| names.push((format!("{at}{}", str::from_utf8(e.name).unwrap()), e.ino, e.file_type));
    volume.read_dir(dir, each).unwrap();
    for (path, ino, file_type) in names {
        let inode = volume.inode(ino).unwrap();
        assert_eq!(Some(inode.file_type()), file_type, "{path}");
        assert_eq!(volume.lookup(path.as_bytes()).unwrap().ino(), ino, "{path}");
        match inode.file_type() {
            FileType::Directory => walk(volume, &inode, &format!("{path}/"), found),
            _ => _ = found.insert(path, read(volume, &inode)),
        }
    }
}

#[test]
fn volumes_of_f2fs_tools_and_of_the_engine_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = tree();
    expected.insert("link".into(), b"dir/part".to_vec());
    for image in [of_tools(dir.path()), of_engine(dir.path())] {
        let bytes = fs::read(&image).unwrap();
        let volume = Volume::open(&bytes[..]).unwrap();
        let mut found = BTreeMap::new();
        walk(&volume, &volume.root().unwrap(), "", &mut found);
        found.retain(|path, _| !path.starts_with("lost+found"));
        assert_eq!(found.len(), expected.len());
        assert!(found == expected, "content differs: {}", image.display());
    }
}

#[test]
fn parts_of_files_are_read_and_nothing_beyond_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = fs::read(of_tools(dir.path())).unwrap();
    let volume = Volume::open(&bytes[..]).unwrap();
    let (file, expected) = (volume.lookup(b"/dir//sub/large").unwrap(), content(13 << 20, 3));
    for (offset, len) in
        [(0, 1), (4095, 2), (5 << 20, 9000), ((13 << 20) - 5, 10), (13 << 20, 1), (1 << 60, 1)]
    {
        let mut part = vec![0xee; len];
        let count = volume.read(&file, offset as u64, &mut part).unwrap();
        let start = offset.min(expected.len());
        let end = (start + len).min(expected.len());
        assert_eq!((count, &part[..count]), (end - start, &expected[start..end]), "{offset}");
        assert!(part[count..].iter().all(|&b| b == 0xee), "{offset}");
    }
}

fn refused(image: &[u8], path: &str) -> Error<OutOfRange> {
    let volume = match Volume::open(image) {
        Ok(volume) => volume,
        Err(e) => return e,
    };
    match volume.lookup(path.as_bytes()) {
        Ok(inode) => volume.read(&inode, 0, &mut [0; 100]).unwrap_err(),
        Err(e) => e,
    }
}

/// Text of 13 MiB and a part, with clusters between that do not compress: the first slots of indirect nodes
/// are reached.
fn compressed_content() -> Vec<u8> {
    let mut bytes = content(13 << 20, 5);
    bytes.extend(b"the end");
    let mut random = super::damage::Random(7);
    for cluster in bytes.chunks_mut(65536).step_by(5) {
        cluster.iter_mut().for_each(|b| *b = random.below(256) as u8);
    }
    bytes
}

/// A volume on which compressed files are possible.
fn compressed_device(dir: &Path, mib: u64) -> (PathBuf, Device) {
    let path = dir.join("disk.img");
    let device = Device::create(&path, mib << 20).unwrap();
    let features = Features::EXTRA_ATTR | Features::COMPRESSION;
    segno::format(&device, &FormatOptions { features, ..Default::default() }).unwrap();
    (path, device)
}

/// A volume with files that the engine compressed, and their paths.
pub(crate) fn compressed_by_engine(dir: &Path, content: &[u8]) -> (PathBuf, Vec<String>) {
    let (path, device) = compressed_device(dir, 256);
    let mut written = Vec::new();
    for (algorithm, log) in [("lzo", 2), ("lz4", 4), ("zstd", 2), ("zstd:19", 8), ("lzo-rle", 3)] {
        let words = format!(
            "compress_extension=z,compress_algorithm={algorithm},compress_log_size={log},compress_chksum"
        );
        let volume = segno::Volume::open_with(&device, &words.parse().unwrap()).unwrap();
        written.push(format!("/{algorithm}.z"));
        volume.write(written.last().unwrap(), content).unwrap();
        volume.close().unwrap();
    }
    (path, written)
}

#[test]
fn files_that_the_engine_compressed_are_read() {
    let (dir, expected) = (tempfile::tempdir().unwrap(), compressed_content());
    let (path, written) = compressed_by_engine(dir.path(), &expected);
    let image = fs::read(&path).unwrap();
    let in_use = image.chunks(4096).filter(|block| block.iter().any(|&b| b != 0)).count();
    assert!(in_use * 4096 < 2 * expected.len(), "{in_use} blocks in use");
    let volume = Volume::open(&image[..]).unwrap();
    for path in written {
        let file = volume.lookup(path.as_bytes()).unwrap();
        assert!(read(&volume, &file) == expected, "{path}");
        let mut part = [0; 9000];
        volume.read(&file, 12_345_678, &mut part).unwrap();
        assert!(part == expected[12_345_678..][..9000], "{path}");
    }
}

#[test]
fn a_damaged_cluster_is_an_error_that_names_the_inode() {
    let dir = tempfile::tempdir().unwrap();
    let (path, device) = compressed_device(dir.path(), 64);
    let options = "compress_extension=z,compress_algorithm=zstd,compress_chksum".parse().unwrap();
    let volume = segno::Volume::open_with(&device, &options).unwrap();
    volume.write("/a.z", vec![7; 16384]).unwrap();
    volume.close().unwrap();
    let mut image = fs::read(&path).unwrap();
    // Length and checksum of the compressed data, and a frame of Zstandard.
    let at = image.chunks(4096).position(|b| b[24..28] == [0x28, 0xb5, 0x2f, 0xfd]).unwrap() * 4096;
    image[at + 4] ^= 1;
    let checksum = refused(&image, "/a.z").to_string();
    assert!(checksum.starts_with("corrupt compressed cluster at nid 4: checksum (found "), "{checksum}");
}

#[test]
fn what_is_not_supported_has_an_error_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (path, device) = compressed_device(dir.path(), 64);
    let volume = segno::Volume::open(&device).unwrap();
    volume.create_dir("/d").unwrap();
    volume.write("/plain", "x").unwrap();
    volume.sync().unwrap();
    let unclean = fs::read(&path).unwrap();
    volume.close().unwrap();
    let image = fs::read(&path).unwrap();
    assert!(matches!(refused(&unclean, "/plain"), Error::NotClean));
    assert!(matches!(refused(&image, "/d"), Error::NoData(_)));
    assert!(matches!(refused(&image, "/plain/x"), Error::NotADirectory(_)));
    assert!(matches!(refused(&image, "/d/missing"), Error::NotFound));
    assert!(matches!(refused(&image[..1 << 20], "/d"), Error::Source(OutOfRange { .. })));
    assert!(matches!(refused(&[0; 8192], "/"), Error::NoSuperblock(_)));
}
