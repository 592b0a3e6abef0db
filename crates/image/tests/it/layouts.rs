//! Contents of volumes: sizes, kinds of files, compression, threads.
use super::{TestDir, noise, text};
use segno_codec::Algorithm;
use segno_device::OpenOptions;
use segno_engine::{MountOptions, Volume};
use segno_format::{Features, superblock::RawSuperblock};
use segno_image::{BuildOptions, Compression, Error, Headroom, OpenImage, Owner, Size};
use segno_mkfs::MkfsOptions;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};

const SEGMENT: u64 = 2 << 20;
const RO_LEAD: u64 = 8192;

pub fn with(features: Features) -> BuildOptions {
    let volume = MkfsOptions { features, ..MkfsOptions::default() };
    BuildOptions { volume, time: Some(1_700_000_000), ..BuildOptions::default() }
}

pub fn compressed(features: Features, algorithm: Algorithm, level: u8, log_blocks: u8) -> BuildOptions {
    let compression = Some(Compression { algorithm, level, log_blocks });
    BuildOptions { compression, ..with(features) }
}

/// Files around all limits, and a few of every kind.
pub fn plant(temp: &TestDir, name: &str) {
    let dir = temp.dir(name);
    std::fs::create_dir_all(dir.join("deep/er/empty")).unwrap();
    let sizes = [0, 1, 3400, 3488, 3489, 3692, 4095, 4096, 4097, 16_383, 16_384, 16_385, 1 << 20, 5_000_000];
    for (i, size) in (0..).zip(sizes) {
        std::fs::write(dir.join(format!("text{size}.txt")), text(size, i)).unwrap();
        std::fs::write(dir.join(format!("noise{size}.so")), noise(size, i)).unwrap();
    }
    let mut mixed = text(300_000, 1);
    mixed[100_000..200_000].copy_from_slice(&noise(100_000, 2));
    mixed[220_000..260_000].fill(0);
    std::fs::write(dir.join("deep/mixed"), mixed).unwrap();
    for i in 0..1000 {
        std::fs::write(dir.join("deep/er").join(format!("{i:0>240}")), i.to_string()).unwrap();
    }
    std::fs::hard_link(dir.join("text1.txt"), dir.join("deep/link")).unwrap();
    symlink("t".repeat(4095), dir.join("long link")).unwrap();
    symlink("text1.txt", dir.join("short link")).unwrap();
    std::fs::write(dir.join(OsStr::from_bytes(b"\xff\xfe")), "no text").unwrap();
    let holes = std::fs::File::create(dir.join("holes")).unwrap();
    holes.set_len(7 << 30).unwrap();
    for at in [0u64, 5 << 20, 3 << 30, (7 << 30) - 5] {
        std::os::unix::fs::FileExt::write_all_at(&holes, b"data!", at).unwrap();
    }
}

#[test]
fn every_layout_holds_the_tree() {
    let temp = TestDir::new();
    plant(&temp, "tree");
    let all = Features::EXTRA_ATTR
        | Features::INODE_CHKSUM
        | Features::INODE_CRTIME
        | Features::FLEXIBLE_INLINE_XATTR
        | Features::SB_CHKSUM
        | Features::LOST_FOUND
        | Features::PRJQUOTA;
    let sections = |mut options: BuildOptions, segs_per_sec| {
        options.volume.segs_per_sec = segs_per_sec;
        options
    };
    let cases = [
        with(Features::empty()),
        with(all),
        with(Features::RO),
        with(all | Features::RO),
        sections(with(all), 4),
        compressed(Features::empty(), Algorithm::Lz4, 0, 2),
        compressed(all | Features::RO, Algorithm::Zstd, 3, 4),
        compressed(Features::RO, Algorithm::Lzo, 0, 8),
        BuildOptions { reserved: true, ..compressed(Features::RO, Algorithm::LzoRle, 0, 3) },
        compressed(Features::RO, Algorithm::Lz4, 9, 6),
    ];
    for (i, options) in cases.iter().enumerate() {
        let options = &without_compressed_holes(options.clone());
        let report =
            temp.build(&temp.of_dir("tree"), "image", &BuildOptions { threads: 1, ..options.clone() });
        temp.build(&temp.of_dir("tree"), "again", &BuildOptions { threads: 8, ..options.clone() });
        temp.assert_same("image", "again");
        assert_eq!(report.compressed_files > 0, options.compression.is_some(), "case {i}");
        temp.extract("image", &format!("back{i}"), &Default::default());
        let mut wanted = contents(&temp, "tree");
        wanted.retain(|(path, ..)| options.exclude.is_empty() || path != "\"holes\"");
        assert_eq!(contents(&temp, &format!("back{i}")), wanted, "case {i}");
    }
}

/// fsck.f2fs 1.15 misses a block of a file with holes and indirect nodes if the space that its clusters save
/// is reserved. Where that is free, on read-only volumes, compressed files have no holes, and 7 GiB of zeros
/// would be stored.
pub fn without_compressed_holes(mut options: BuildOptions) -> BuildOptions {
    if options.compression.is_some() {
        options.exclude.push(segno_image::Exclude::path(std::path::Path::new("holes")));
    }
    options
}

/// Paths, sizes, links and checksums of the files below a directory.
pub fn contents(temp: &TestDir, name: &str) -> Vec<(String, u64, u64, u64)> {
    let (root, mut dirs, mut all) = (temp.path(name), vec![temp.path(name)], Vec::new());
    while let Some(dir) = dirs.pop() {
        for entry in dir.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let shown = format!("{:?}", path.strip_prefix(&root).unwrap());
            let meta = path.symlink_metadata().unwrap();
            if shown.contains("lost+found") {
                continue;
            }
            let (size, sum) = if meta.is_dir() {
                dirs.push(path);
                (0, 0)
            } else if meta.is_symlink() {
                (path.read_link().unwrap().as_os_str().len() as u64, 1)
            } else {
                let bytes = if meta.len() > 1 << 30 { Vec::new() } else { std::fs::read(&path).unwrap() };
                (meta.len(), bytes.iter().fold(7u64, |s, &b| s.rotate_left(5) ^ u64::from(b)))
            };
            let links = if meta.is_dir() { 0 } else { meta.nlink() };
            all.push((shown, size, links, sum));
        }
    }
    all.sort();
    all
}

/// The sizes at which tools for firmware fail: from the smallest volume that the kernel mounts to 64 MiB.
#[test]
fn small_volumes_take_what_fits() {
    let temp = TestDir::new();
    temp.dir("tree/empty");
    for (bytes, wanted) in [(0, 9), (1_700_000, 9), (17_000_000, 16), (39_000_000, 26)] {
        std::fs::write(temp.path("tree/noise"), noise(bytes, 3)).unwrap();
        let report = temp.build(&temp.of_dir("tree"), "ro", &with(Features::RO));
        assert_eq!(report.image_bytes, RO_LEAD + wanted * SEGMENT, "{bytes}");
    }
    let report = temp.build(&temp.of_dir("tree"), "rw", &with(Features::empty()));
    for bytes in [report.image_bytes, report.image_bytes + 12_345 * 4096, 512 << 20] {
        temp.build(
            &temp.of_dir("tree"),
            "rw",
            &BuildOptions { size: Size::Bytes(bytes), ..with(Features::empty()) },
        );
    }
    std::fs::write(temp.path("tree/noise"), b"").unwrap();
    let report = temp.build(&temp.of_dir("tree"), "rw", &with(Features::empty()));
    assert_eq!(report.image_bytes, 52 << 20, "the smallest volume of mkfs.f2fs");
    let tiny = Size::Bytes(18 << 20);
    let refused =
        temp.try_build(&temp.of_dir("tree"), "rw", &BuildOptions { size: tiny, ..with(Features::RO) });
    assert!(matches!(refused, Err(Error::TooSmall { enough: 18_882_560, .. })), "{refused:?}");
}

#[test]
fn a_segment_less_than_the_smallest_size_is_refused_with_the_size() {
    let temp = TestDir::new();
    std::fs::write(temp.dir("tree").join("noise"), noise(60_000_000, 4)).unwrap();
    for features in [Features::empty(), Features::RO] {
        let smallest = temp.build(&temp.of_dir("tree"), "image", &with(features)).image_bytes;
        let given = smallest - SEGMENT;
        let less = BuildOptions { size: Size::Bytes(given), ..with(features) };
        match temp.try_build(&temp.of_dir("tree"), "less", &less) {
            Err(Error::TooSmall { given: g, missing, enough }) => {
                assert_eq!((g, missing, enough), (given, SEGMENT, smallest));
            }
            other => panic!("{other:?}"),
        }
        let roomy = BuildOptions { size: Size::Auto(Headroom::Percent(50)), ..with(features) };
        assert!(temp.build(&temp.of_dir("tree"), "roomy", &roomy).free_bytes >= 30_000_000);
    }
}

/// A volume without a free block for users is still one that can be mounted and checked.
#[test]
fn a_volume_can_be_full_to_the_last_block() {
    let temp = TestDir::new();
    let dir = temp.dir("tree");
    std::fs::write(dir.join("noise"), noise(30_000_000, 5)).unwrap();
    for features in [Features::empty(), Features::RO] {
        let report = temp.build(&temp.of_dir("tree"), "image", &with(features));
        // Each file of a block takes two: its inode and its data.
        for i in 0..report.free_bytes / 8192 {
            std::fs::write(dir.join(format!("fill{i}")), noise(4096, i)).unwrap();
        }
        let full = BuildOptions { size: Size::Bytes(report.image_bytes), ..with(features) };
        match temp.try_build(&temp.of_dir("tree"), "full", &full) {
            Ok(report) => {
                assert!(report.free_bytes < 16_384, "{report:?}");
                super::assert_clean(&temp.path("full"));
            }
            // Dentry blocks of the new names may take the last blocks.
            Err(Error::TooSmall { missing, .. }) => assert_eq!(missing, SEGMENT),
            Err(e) => panic!("{e}"),
        }
        for entry in dir.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() != "noise" {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

#[test]
fn links_and_owners_are_not_cut() {
    let temp = TestDir::new();
    let dir = temp.dir("tree");
    std::fs::write(dir.join("first"), "content").unwrap();
    // ext4 stops at 65,000 names; an archive does not.
    let mut archive = super::archives::Archive::default();
    archive.file("first", b"content");
    for i in 0..70_000 {
        archive.link(&format!("links/{i}"), "first");
    }
    archive.with_records("big owner", &[("uid", "4294967294"), ("gid", "70000")], b"x");
    let source = archive.save(&temp, "archive");
    temp.build(&source, "image", &with(Features::empty()));
    let mut back = Vec::new();
    let manifest = temp.path("manifest");
    let options = segno_image::ExtractOptions { manifest: Some(manifest), ..Default::default() };
    let image = temp.path("image");
    let done = segno_image::extract(
        OpenImage::open(&image, &[], None).unwrap(),
        segno_image::Target::Tar(&mut back),
        &options,
        &mut |_| {},
    );
    assert_eq!(done.unwrap().files, 4);
    assert_eq!(back.chunks(512).filter(|b| b.starts_with(b"./links/") && b[156] == b'1').count(), 70_000);
    let manifest = String::from_utf8(temp.bytes("manifest")).unwrap();
    assert!(manifest.contains("\"uid\":4294967294,\"gid\":70000"), "{manifest}");
}

/// The file has blocks beyond its first double indirect node.
#[test]
fn a_file_reaches_into_all_levels_of_its_index() {
    let temp = TestDir::new();
    let file = std::fs::File::create(temp.dir("tree").join("holes")).unwrap();
    file.set_len(20 << 30).unwrap();
    for at in [0u64, 5 << 20, 3 << 30, 10 << 30, (20 << 30) - 5] {
        std::os::unix::fs::FileExt::write_all_at(&file, b"data!", at).unwrap();
    }
    for options in [with(Features::empty()), with(Features::RO)] {
        temp.build(&temp.of_dir("tree"), "image", &options);
        let back = temp.path("back");
        let _absent = std::fs::remove_dir_all(&back);
        temp.extract("image", "back", &Default::default());
        let back = std::fs::File::open(back.join("holes")).unwrap();
        for at in [0u64, 5 << 20, 3 << 30, 10 << 30, (20 << 30) - 5] {
            let mut bytes = [0; 5];
            std::os::unix::fs::FileExt::read_exact_at(&back, &mut bytes, at).unwrap();
            assert_eq!(&bytes, b"data!");
        }
    }
}

/// Linux 6.1 reads other bytes in place of a hole there.
#[test]
fn compressed_files_of_read_only_volumes_have_no_holes() {
    let temp = TestDir::new();
    let mut mixed = noise(64 << 10, 1);
    mixed[8 << 10..16 << 10].fill(0);
    mixed.extend_from_slice(&text(64 << 10, 2));
    mixed.resize(2 << 20, 0);
    mixed.extend_from_slice(&noise(20 << 10, 3));
    std::fs::write(temp.dir("tree").join("mixed"), &mixed).unwrap();
    temp.build(&temp.of_dir("tree"), "image", &compressed(Features::RO, Algorithm::Lz4, 0, 2));
    let open = OpenOptions { read_only: true, direct: false };
    let device = segno_device::open_volume(&[temp.path("image")], open).unwrap();
    let options = MountOptions { read_only: true, background: false, ..MountOptions::default() };
    let volume = Volume::mount(device, options).unwrap();
    let file = volume.lookup(volume.root(), b"mixed").unwrap().ino;
    assert_eq!(volume.seek_hole(file, 0).unwrap(), mixed.len() as u64);
}

#[test]
fn names_that_repeat_a_hash_fill_their_buckets() {
    let temp = TestDir::new();
    let mut archive = super::archives::Archive::default();
    for i in 0..100_000 {
        archive.file(&format!("many/{:x}", i * 2_654_435_761u64), b"");
    }
    let source = archive.save(&temp, "archive");
    temp.build(&source, "image", &with(Features::RO));
}

#[test]
fn a_file_that_changes_or_vanishes_is_an_error() {
    let temp = TestDir::new();
    let source = temp.of_dir("tree");
    std::fs::write(temp.dir("tree").join("file"), noise(3_000_000, 1)).unwrap();
    let image = temp.path("image");
    std::fs::File::create(&image).unwrap();
    std::fs::write(temp.path("tree/other"), noise(3_000_000, 1)).unwrap();
    let mut first = true;
    let path = temp.path("tree/other");
    // One thread, so that nothing of it is read yet.
    let options = BuildOptions { threads: 1, ..with(Features::empty()) };
    let built = segno_image::build(source.open(&options).unwrap(), &image, &options, &mut |_| {
        if std::mem::take(&mut first) {
            std::fs::write(&path, "changed").unwrap();
        }
    });
    assert!(matches!(built, Err(Error::Changed { .. })), "{built:?}");
}

#[test]
fn identity_follows_from_the_input() {
    let temp = TestDir::new();
    std::fs::write(temp.dir("tree").join("file"), "one").unwrap();
    let one = temp.build(&temp.of_dir("tree"), "one", &with(Features::empty()));
    std::fs::rename(temp.path("tree/file"), temp.path("tree/other")).unwrap();
    let other = temp.build(&temp.of_dir("tree"), "other", &with(Features::empty()));
    assert_ne!(one.uuid, other.uuid);
    assert_eq!((one.uuid[6] >> 4, one.uuid[8] >> 6), (8, 2));
    let owned = BuildOptions { owner: Owner::All(7, 7), ..with(Features::empty()) };
    assert_ne!(temp.build(&temp.of_dir("tree"), "owned", &owned).uuid, other.uuid);
    let bytes = temp.bytes("one");
    let sb = RawSuperblock::from_block(bytes[..4096].try_into().unwrap()).parse(0).unwrap();
    assert_eq!(sb.raw.uuid, one.uuid);
}
