//! Images of whole trees: built without mounting anything, and taken apart again.
use crate::error::{Doing, Result};
use segno_format::Features;
use segno_host::copy_mode;
use segno_image::{
    BuildOptions as Options, ExtractOptions as Lists, Metadata, NewFile, OpenImage, Size, Source, Target,
};
pub use segno_image::{
    Compression, Exclude, Extracted as ExtractReport, Headroom, LeftOut, Owner, Preserve,
    Report as BuildReport,
};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 18;

/// How to build an image. By default it is the smallest volume that holds the tree, with the features of `mkfs.f2fs`.
///
/// ```
/// use segno::BuildOptions;
/// let options = BuildOptions::new().label("system").time(1_700_000_000).read_only();
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    image: Options,
    force: bool,
}

impl BuildOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replace an existing file.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Volume label, up to 512 UTF-16 units.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.image.volume.label = label.into();
        self
    }

    /// Volume id; derived from the tree by default.
    #[must_use]
    pub fn uuid(mut self, uuid: [u8; 16]) -> Self {
        self.image.volume.uuid = Some(uuid);
        self
    }

    /// Features of the format to switch on as well.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.image.volume.features |= features;
        self
    }

    /// The layout of volumes that are never written, without reserve.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.features(Features::RO)
    }

    /// Bytes of the image; the smallest size is the default.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.image.size = Size::Bytes(bytes);
        self
    }

    /// The smallest size with room for more.
    #[must_use]
    pub fn headroom(mut self, headroom: Headroom) -> Self {
        self.image.size = Size::Auto(headroom);
        self
    }

    /// All times of all files, in seconds since 1970; the times of the source by default.
    #[must_use]
    pub fn time(mut self, seconds: u64) -> Self {
        self.image.time = Some(seconds);
        self
    }

    /// Latest time of a file, in seconds since 1970, which replaces later ones: what `SOURCE_DATE_EPOCH` holds.
    #[must_use]
    pub fn source_date_epoch(mut self, seconds: u64) -> Self {
        self.image.latest = Some(seconds);
        self
    }

    /// Who owns the files; as in the source by default.
    #[must_use]
    pub fn owner(mut self, owner: Owner) -> Self {
        self.image.owner = owner;
        self
    }

    /// Leave out paths, with everything below them.
    #[must_use]
    pub fn exclude(mut self, exclude: Exclude) -> Self {
        self.image.exclude.push(exclude);
        self
    }

    /// Compress files.
    #[must_use]
    pub fn compress(mut self, compression: Compression) -> Self {
        self.image.compression = Some(compression);
        self
    }

    /// Write the Android sparse format.
    #[must_use]
    pub fn sparse(mut self) -> Self {
        self.image.sparse = true;
        self
    }

    /// Threads that read and compress; one for each processor by default. The image does not depend on it.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.image.threads = threads;
        self
    }

    /// Files of Android: where the volume is mounted, `fs_config` and `file_contexts`.
    #[must_use]
    pub fn android(
        mut self,
        mount_point: &str,
        fs_config: Option<PathBuf>,
        contexts: Option<PathBuf>,
    ) -> Self {
        self.image.metadata = Metadata {
            mount_point: mount_point.to_owned(),
            fs_config: fs_config.into_iter().collect(),
            file_contexts: contexts.into_iter().collect(),
            ..self.image.metadata
        };
        self
    }

    /// The external journal of a source that is an image whose last mount had one.
    #[must_use]
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.image.journal = Some(path.into());
        self
    }

    /// A further device of a source that is an image of a volume of several; repeat in order.
    #[must_use]
    pub fn device(mut self, path: impl Into<PathBuf>) -> Self {
        self.image.devices.push(path.into());
        self
    }

    /// The manifest that [`extract`] wrote.
    #[must_use]
    pub fn manifest(mut self, path: impl Into<PathBuf>) -> Self {
        self.image.metadata.manifest = Some(path.into());
        self
    }
}

/// Builds an image of a directory, a tar archive or another image. The same input gives the same bytes, and whatever of it
/// cannot be stored is an error. The file gets its name when it is complete.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # let image = dir.path().join("image");
/// # std::fs::create_dir(dir.path().join("tree")).expect("a directory");
/// # let tree = dir.path().join("tree");
/// let report = segno::build(&tree, &image, &segno::BuildOptions::new().read_only())?;
/// assert_eq!(report.image_bytes, 18_882_560);
/// segno::extract(&image, dir.path().join("back"), &segno::ExtractOptions::new())?;
/// # Ok(())
/// # }
/// ```
pub fn build(
    source: impl AsRef<Path>,
    image: impl AsRef<Path>,
    options: &BuildOptions,
) -> Result<BuildReport> {
    let (source, image) = (source.as_ref(), image.as_ref());
    new_file(image, source, options.force, |file| {
        let from = Source::of_path(source).doing_at("read", source)?;
        let from = from.open(&options.image).doing_at("build", image)?;
        segno_image::build(from, file.temporary(), &options.image, &mut |_| {}).doing_at("build", image)
    })
}

/// Writes a file with content of `source` that gets its name when it is complete.
fn new_file<T>(
    path: &Path,
    source: &Path,
    force: bool,
    write: impl FnOnce(&NewFile) -> Result<T>,
) -> Result<T> {
    let file = NewFile::create(path, copy_mode([source])).doing_at("create", path)?;
    let written = write(&file)?;
    file.finish(force).doing_at("create", path)?;
    Ok(written)
}

/// The part of the tree to extract, the properties of its files, and the lists to write.
#[derive(Clone, Debug, Default)]
pub struct ExtractOptions(Lists);

impl ExtractOptions {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The directory on the volume to extract, with everything below it.
    #[must_use]
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.path = path.into();
        self
    }

    /// The external journal of the volume, if its last mount had one.
    #[must_use]
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.journal = Some(path.into());
        self
    }

    /// A further device of a volume of several; repeat in order.
    #[must_use]
    pub fn device(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.devices.push(path.into());
        self
    }

    /// Properties that files in a directory get though they are a matter of trust, as an image may be a stranger's; none by
    /// default. Archives and manifests have all. [`ExtractReport::left_out`] counts the files that lack one.
    #[must_use]
    pub fn preserve(mut self, preserve: Preserve) -> Self {
        self.0.preserve = preserve;
        self
    }

    /// All metadata, for a build.
    #[must_use]
    pub fn manifest(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.manifest = Some(path.into());
        self
    }

    /// Files of Android: `fs_config` and `file_contexts`, with paths below a mount point.
    #[must_use]
    pub fn android(
        mut self,
        mount_point: &str,
        fs_config: Option<PathBuf>,
        contexts: Option<PathBuf>,
    ) -> Self {
        self.0.mount_point = mount_point.to_owned();
        (self.0.fs_config, self.0.file_contexts) = (fs_config, contexts);
        self
    }
}

/// Takes the tree out of an image, raw or Android sparse, into a directory that is new or empty.
pub fn extract(
    image: impl AsRef<Path>,
    dir: impl AsRef<Path>,
    options: &ExtractOptions,
) -> Result<ExtractReport> {
    take_out(image.as_ref(), Target::Directory(dir.as_ref()), &options.0)
}

/// Writes the tree of an image as a tar archive.
pub fn extract_tar(
    image: impl AsRef<Path>,
    archive: &mut dyn io::Write,
    options: &ExtractOptions,
) -> Result<ExtractReport> {
    take_out(image.as_ref(), Target::Tar(archive), &options.0)
}

fn take_out(image: &Path, target: Target<'_>, options: &Lists) -> Result<ExtractReport> {
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
