//! Images of trees through the library.
use segno::{BuildOptions, Compression, ExtractOptions, Features, FormatOptions, ImageSize, Owner};

#[test]
fn a_directory_is_packed_and_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(path("tree/sub")).unwrap();
    std::fs::write(path("tree/sub/file"), "content ".repeat(100_000)).unwrap();
    let lz4 = Compression::parse("lz4", Compression::LOG_BLOCKS).unwrap();
    let volume = FormatOptions { features: Features::RO, ..Default::default() };
    let kept = BuildOptions { volume, compression: Some(lz4), time: Some(7), ..Default::default() };
    let options = BuildOptions { owner: Owner::All(3, 4), ..kept.clone() };
    let report = segno::build(path("tree"), path("image"), &options).unwrap();
    assert_eq!((report.files, report.compressed_files), (3, 1));
    assert!(segno::check(&segno::Device::open(path("image")).unwrap()).unwrap().is_clean());
    let mut archive = Vec::new();
    segno::extract_tar(path("image"), &mut archive, &ExtractOptions::default()).unwrap();
    segno::extract_tar_file(path("image"), path("archive"), &ExtractOptions::default()).unwrap();
    assert!(std::fs::read(path("archive")).unwrap() == archive);
    let again = segno::extract_tar_file(path("image"), path("archive"), &ExtractOptions::default());
    assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    segno::build(path("archive"), path("again"), &kept).unwrap();
    assert!(std::fs::read(path("image")).unwrap() == std::fs::read(path("again")).unwrap());
    let report = segno::extract(path("image"), path("back"), &ExtractOptions::default()).unwrap();
    assert_eq!((report.files, report.bytes), (3, 800_000));
    assert_eq!(std::fs::read(path("back/sub/file")).unwrap(), std::fs::read(path("tree/sub/file")).unwrap());
}

#[test]
fn a_failed_build_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("tree")).unwrap();
    let small = BuildOptions { size: ImageSize::Bytes(20 << 20), ..Default::default() };
    let refused = segno::build(path("tree"), path("image"), &small).unwrap_err();
    assert_eq!((refused.errno(), refused.path()), (28, Some(path("image").as_path())), "{refused}");
    std::fs::write(path("image"), "precious").unwrap();
    let refused = segno::build(path("tree"), path("image"), &BuildOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(path("image")).unwrap(), b"precious");
    let names: Vec<_> = dir.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    segno::rebuild(path("tree"), path("image"), &BuildOptions::default()).unwrap();
}

#[test]
fn times_after_the_epoch_of_the_source_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("tree")).unwrap();
    for (name, secs) in [("old", 1000), ("new", 3000)] {
        let file = std::fs::File::create(path("tree").join(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(secs)).unwrap();
    }
    let options = BuildOptions { latest: Some(2000), ..Default::default() };
    segno::build(path("tree"), path("image"), &options).unwrap();
    let volume = segno::Volume::open(&segno::Device::open_read_only(path("image")).unwrap()).unwrap();
    let time = |name: &str| volume.metadata(name).unwrap().modified().secs;
    assert_eq!((time("/old"), time("/new")), (1000, 2000));
}
