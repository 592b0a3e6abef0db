//! Images of whole trees: built without mounting anything, and taken apart again.
use crate::error::{Doing, Result};
use segno_device::Location;
use segno_host::copy_mode;
pub use segno_image::{
    BuildOptions, Compression, Exclude, ExtractOptions, Extracted as ExtractReport, Headroom, LeftOut,
    Metadata as ImageMetadata, Owner, Preserve, Report as BuildReport, Size as ImageSize,
};
use segno_image::{NewFile, OpenImage, Source, Target};
use std::io::{self, BufWriter, Write};
use std::path::Path;

const BUFFER: usize = 1 << 18;

/// Builds an image of a directory, a tar archive or another image. The same input gives the same bytes, and
/// input that cannot be stored is an error. The file, which must not exist, gets its name when it is
/// complete. By default it is the smallest volume that holds the tree, with the features of `mkfs.f2fs`.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # let image = dir.path().join("image");
/// # std::fs::create_dir(dir.path().join("tree")).expect("a directory");
/// # let tree = dir.path().join("tree");
/// let volume = segno::FormatOptions { features: segno::Features::RO, ..Default::default() };
/// let options = segno::BuildOptions { volume, time: Some(1_700_000_000), ..Default::default() };
/// let report = segno::build(&tree, &image, &options)?;
/// assert_eq!(report.image_bytes, 18_882_560);
/// segno::extract(&image, dir.path().join("back"), &segno::ExtractOptions::default())?;
/// # Ok(())
/// # }
/// ```
pub fn build(
    source: impl AsRef<Path>,
    image: impl AsRef<Path>,
    options: &BuildOptions,
) -> Result<BuildReport> {
    build_file(source.as_ref(), image.as_ref(), false, options)
}

/// Builds an image like [`build`]; an existing file is replaced.
pub fn rebuild(
    source: impl AsRef<Path>,
    image: impl AsRef<Path>,
    options: &BuildOptions,
) -> Result<BuildReport> {
    build_file(source.as_ref(), image.as_ref(), true, options)
}

fn build_file(source: &Path, image: &Path, force: bool, options: &BuildOptions) -> Result<BuildReport> {
    new_file(image, source, force, |file| {
        let from = Source::of_path(source).doing_at("read", source)?;
        let from = from.open(options).doing_at("build", image)?;
        segno_image::build(from, file.temporary(), options, &mut |_| {}).doing_at("build", image)
    })
}

/// Writes a file with content of `source` that gets its name when it is complete.
fn new_file<T>(
    path: &Path,
    source: &Path,
    force: bool,
    write: impl FnOnce(&NewFile) -> Result<T>,
) -> Result<T> {
    let file = NewFile::create(path, copy_mode([Location::of(source).file()])).doing_at("create", path)?;
    let written = write(&file)?;
    file.finish(force).doing_at("create", path)?;
    Ok(written)
}

/// Takes the tree out of an image, raw or Android sparse, into a directory that is new or empty.
pub fn extract(
    image: impl AsRef<Path>,
    dir: impl AsRef<Path>,
    options: &ExtractOptions,
) -> Result<ExtractReport> {
    take_out(image.as_ref(), Target::Directory(dir.as_ref()), options)
}

/// Writes the tree of an image as a tar archive.
pub fn extract_tar(
    image: impl AsRef<Path>,
    archive: &mut dyn io::Write,
    options: &ExtractOptions,
) -> Result<ExtractReport> {
    take_out(image.as_ref(), Target::Tar(archive), options)
}

fn take_out(image: &Path, target: Target<'_>, options: &ExtractOptions) -> Result<ExtractReport> {
    let opened = OpenImage::open(image, &options.devices, options.journal.as_deref());
    let done = opened.and_then(|opened| segno_image::extract(opened, target, options, &mut |_| {}));
    done.doing_at("extract", image)
}

/// Writes the tree of an image as a tar archive into a new file, which gets its name when it is complete.
pub fn extract_tar_file(
    image: impl AsRef<Path>,
    archive: impl AsRef<Path>,
    options: &ExtractOptions,
) -> Result<ExtractReport> {
    let (image, archive) = (image.as_ref(), archive.as_ref());
    new_file(archive, image, false, |file| {
        let mut out = BufWriter::with_capacity(BUFFER, file.file());
        let report = extract_tar(image, &mut out, options)?;
        out.flush().doing_at("write", archive)?;
        Ok(report)
    })
}
