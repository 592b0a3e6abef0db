//! Images against the trees that they were made of, read by the engine, `segno check` and fsck.f2fs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod archives;
mod layouts;
mod lists;
mod rounds;
mod sparse;

use segno_image::{
    BuildOptions, Error, ExtractOptions, Extracted, OpenImage, Report, Source, Target, build, extract,
};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A temporary directory.
pub struct TestDir {
    dir: tempfile::TempDir,
}

impl TestDir {
    #[expect(clippy::new_without_default, reason = "a default would hide that a directory is made")]
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A new directory.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn try_build(&self, source: &Source, image: &str, options: &BuildOptions) -> Result<Report, Error> {
        let image = self.path(image);
        File::create(&image).unwrap();
        build(source.open(options)?, &image, options, &mut |_| {})
    }

    /// Builds an image and has it checked.
    #[track_caller]
    pub fn build(&self, source: &Source, image: &str, options: &BuildOptions) -> Report {
        let report = self.try_build(source, image, options).unwrap();
        if !options.sparse {
            assert_eq!(self.path(image).metadata().unwrap().len(), report.image_bytes);
            assert_clean(&self.path(image));
        }
        report
    }

    pub fn of_dir(&self, name: &str) -> Source {
        Source::Directory(self.path(name))
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    #[track_caller]
    pub fn extract(&self, image: &str, dir: &str, options: &ExtractOptions) -> Extracted {
        let image = OpenImage::open(&self.path(image), &options.devices, options.journal.as_deref());
        extract(image.unwrap(), Target::Directory(&self.path(dir)), options, &mut |_| {}).unwrap()
    }

    #[track_caller]
    pub fn assert_same(&self, one: &str, two: &str) {
        assert!(self.bytes(one) == self.bytes(two), "{one} and {two} differ");
    }
}

/// Neither checker finds anything.
#[track_caller]
pub fn assert_clean(image: &Path) {
    let device =
        segno_device::open_volume(&[image], segno_device::OpenOptions { read_only: true, direct: false });
    let report = segno_check::check(&*device.unwrap(), &segno_check::CheckOptions::default(), &mut |_| {});
    let report = report.unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
    segno_testkit::f2fs_tools::assert_clean("a built image", image);
}

/// Bytes that do not compress.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(2) + 1;
    let mut next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Text that does.
pub fn text(len: usize, seed: u64) -> Vec<u8> {
    let words = ["block", "segment", "node", "inode", "checkpoint", "address", "summary"];
    let mut out = Vec::with_capacity(len + 16);
    for (i, n) in noise(len, seed).into_iter().enumerate() {
        out.extend_from_slice(words[usize::from(n) % words.len()].as_bytes());
        out.push(if i % 9 == 0 { b'\n' } else { b' ' });
        if out.len() >= len {
            break;
        }
    }
    out.truncate(len);
    out
}
