//! `segno check --data` reads compressed clusters.
use super::{output, segno};
use segno_codec::Algorithm;
use segno_device::{FileDevice, OpenOptions};
use segno_engine::options::Compression;
use segno_engine::{MountOptions, Owner, Volume};
use segno_format::cluster::compressed_data;
use std::fs::{read, write};
use std::path::Path;
use std::sync::Arc;

const BLOCK: usize = 4096;

/// Text that compresses well: each compressed cluster fits in one block.
fn content(bytes: usize) -> Vec<u8> {
    let lines = (0..).map(|i: u32| format!("{i} sheep, {} goats\n", i.wrapping_mul(7)));
    let mut text: Vec<u8> = lines.take(bytes / 10).flat_map(String::into_bytes).collect();
    text.truncate(bytes);
    text
}

/// An image with `/d/f` of eight clusters, and the blocks that clusters begin in.
fn image(dir: &Path, algorithm: Algorithm) -> (String, Vec<usize>) {
    let image = dir.join(format!("{algorithm}")).to_str().unwrap().to_owned();
    output(&["mkfs", "-q", "--size", "64M", "-O", "extra_attr,compression", &image]);
    let device = Arc::new(FileDevice::open(&image, OpenOptions::default()).unwrap());
    let compression =
        Compression { algorithm, checksum: true, extensions: vec!["*".into()], ..Compression::default() };
    let options = MountOptions { background: false, compression, ..MountOptions::default() };
    let volume = Volume::mount(device, options).unwrap();
    let directory = volume.mkdir(volume.root(), b"d", 0o755, Owner::default()).unwrap().ino;
    let file = volume.mknod(directory, b"f", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    volume.write(file, 0, &content(8 * 4 * BLOCK)).unwrap();
    volume.unmount().unwrap();
    drop(volume);
    let bytes = read(&image).unwrap();
    let starts = bytes.chunks_exact(BLOCK).enumerate().filter(|(_, b)| {
        let longer = [b, &[0; 3 * BLOCK][..]].concat();
        let len = u32::from_le_bytes(b[..4].try_into().unwrap()) as usize;
        len + 24 <= BLOCK && compressed_data(0, &longer, true).is_ok()
    });
    (image, starts.map(|(at, _)| at).collect())
}

/// Exit code and output of a check.
fn checked(image: &str, options: &[&str]) -> (i32, String) {
    let out = segno(&[&["check"], options, &[image]].concat());
    (out.status.code().unwrap(), String::from_utf8(out.stdout).unwrap())
}

/// Changes one bit of the image.
fn damage(image: &str, block: usize, byte: usize) {
    let mut bytes = read(image).unwrap();
    bytes[block * BLOCK + byte] ^= 0x40;
    write(image, bytes).unwrap();
}

#[test]
fn sound_clusters_are_clean() {
    let dir = tempfile::tempdir().unwrap();
    for algorithm in [Algorithm::Lzo, Algorithm::Lz4, Algorithm::Zstd, Algorithm::LzoRle] {
        let (image, _) = image(dir.path(), algorithm);
        assert!(output(&["check", "--data", &image]).ends_with("clean\n"), "{algorithm}");
    }
}

#[test]
fn a_damaged_cluster_is_named_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let (image, starts) = image(dir.path(), Algorithm::Zstd);
    assert_eq!(starts.len(), 8, "clusters that were found");
    damage(&image, starts[3], 100);
    let (code, said) = checked(&image, &[]);
    assert!(code == 0 && said.ends_with("clean\n"), "a check without --data reads no content: {said}");
    let (code, said) = checked(&image, &["--data"]);
    let expected = format!("error: /d/f: cluster 3 (block {:#x}) has a wrong checksum (found ", starts[3]);
    assert!(code == 4 && said.starts_with(&expected), "{said}");
    assert!(
        said.ends_with("1 error(s), 0 warning(s)\na repair does not restore the content of clusters\n"),
        "{said}"
    );

    // The top of the length.
    damage(&image, starts[5], 3);
    let report = segno(&["check", "--data", "--json", &image]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let found: Vec<_> = report["problems"].as_array().unwrap().iter().collect();
    assert_eq!((found.len(), &report["data_errors"]), (2, &2.into()), "{report}");
    assert_eq!(found[1]["file"], serde_json::json!({ "path": "/d/f", "cluster": 5 }));
    assert_eq!((&found[1]["kind"], &found[1]["at"]), (&"cluster-data".into(), &starts[5].into()));
    assert_eq!(found[1]["why"], "length of the compressed data");

    let before = read(&image).unwrap();
    assert_eq!(checked(&image, &["-a", "--data"]).0, 4, "a clean unmount does not hide it");
    assert_eq!(checked(&image, &["-y", "--data"]).0, 4);
    assert!(read(&image).unwrap() == before, "there is nothing to repair");
}
