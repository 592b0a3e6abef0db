//! Options of a caller.
use segno_codec::{Algorithm, check_level};
use segno_engine::Time;
use segno_mkfs::MkfsOptions;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How to build an image.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// How the volume is formatted. Without an id, one is derived from the tree; without a time stamp, the
    /// volume gets the time of the root directory.
    pub volume: MkfsOptions,
    /// Size of the image.
    pub size: Size,
    /// All times of all files, in seconds since 1970.
    pub time: Option<u64>,
    /// Latest time of a file, in seconds since 1970; later ones are replaced by it (`SOURCE_DATE_EPOCH`).
    pub latest: Option<u64>,
    /// Owner of the files, before other files of metadata are applied.
    pub owner: Owner,
    /// Paths that are left out, with everything below them.
    pub exclude: Vec<Exclude>,
    /// Extended headers of an archive that are left out, by their keys.
    pub ignored_headers: Vec<Exclude>,
    /// Files with metadata.
    pub metadata: Metadata,
    /// How regular files are compressed; files that do not shrink stay plain.
    pub compression: Option<Compression>,
    /// Keep the space that compression saves reserved, so that compressed files can be written. The default
    /// is to release it on volumes with the `ro` feature only.
    pub reserved: bool,
    /// A file that lists paths, one a line, whose data is placed first, in this order.
    pub order: Option<PathBuf>,
    /// Threads that read and compress; 0 is one for each processor. The image does not depend on it.
    pub threads: usize,
    /// Write an Android sparse image instead of a raw one.
    pub sparse: bool,
    /// The external journal of a source that is a volume.
    pub journal: Option<PathBuf>,
    /// Devices of a source that is a volume, after the first, in order.
    pub devices: Vec<PathBuf>,
}

/// Files that give paths owners, modes, labels and more. Later ones win: device tables, `fs_config`,
/// `file_contexts`, rules, the manifest.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// Prefix of all paths in `fs_config` and `file_contexts` files; empty and `/` are the same.
    pub mount_point: String,
    /// Device tables in the format of makedevs.
    pub device_tables: Vec<PathBuf>,
    /// Android's canned `fs_config` files.
    pub fs_config: Vec<PathBuf>,
    /// Owner, group, mode of directories and mode of other files, for paths that no `fs_config` file lists.
    /// Without it such paths are an error.
    pub fs_config_default: Option<(u32, u32, u16, u16)>,
    /// SELinux contexts of paths.
    pub file_contexts: Vec<PathBuf>,
    /// Accept paths that no `file_contexts` file covers.
    pub allow_unlabeled: bool,
    /// Rules for compression, flags and projects.
    pub rules: Vec<PathBuf>,
    /// The manifest of an extraction, with the metadata that the host could not store.
    pub manifest: Option<PathBuf>,
}

impl Metadata {
    /// All files that are read.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let lists = [&self.fs_config, &self.file_contexts, &self.device_tables, &self.rules];
        lists.into_iter().flatten().chain(&self.manifest)
    }
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Its level; 0 is the default.
    pub level: u8,
    /// Blocks of a cluster, as a power of two: 2 to 8.
    pub log_blocks: u8,
}

impl Compression {
    /// Clusters of 4 blocks.
    pub const LOG_BLOCKS: u8 = 2;

    /// Reads `ALGORITHM[:LEVEL]`.
    pub fn parse(text: &str, log_blocks: u8) -> std::result::Result<Self, String> {
        let (name, level) = text.split_once(':').map_or((text, None), |(n, l)| (n, Some(l)));
        let algorithm = Algorithm::ALL.into_iter().find(|a| a.to_string() == name);
        let algorithm = algorithm
            .ok_or_else(|| format!("unknown algorithm {name}; there are lz4, zstd, lzo and lzo-rle"))?;
        let level = match level {
            Some(text) => {
                text.parse().map_err(|_| format!("level {text:?} is not a number from 0 to 255"))?
            }
            None => 0,
        };
        check_level(algorithm, level).map_err(|e| e.to_string())?;
        if !(2..=8).contains(&log_blocks) {
            return Err(format!("cluster size {log_blocks} is a power of two, from 2 to 8"));
        }
        Ok(Self { algorithm, level, log_blocks })
    }
}

impl BuildOptions {
    /// The time that an entry with this time of modification gets.
    pub(crate) fn time_of(&self, modified: Time) -> Time {
        let at = |secs: u64| Time { secs: secs.cast_signed(), nsec: 0 };
        match (self.time, self.latest) {
            (Some(time), _) => at(time),
            (None, Some(latest)) => modified.min(at(latest)),
            (None, None) => modified,
        }
    }
}

/// Size of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many bytes, rounded down to whole blocks.
    Bytes(u64),
    /// The smallest whole number of segments that holds the tree and leaves the headroom free.
    Auto(Headroom),
}

impl Default for Size {
    fn default() -> Self {
        Self::Auto(Headroom::Bytes(0))
    }
}

/// Space that stays free for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// Bytes.
    Bytes(u64),
    /// Percent of the tree's size.
    Percent(u64),
}

/// The owner of the files of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// Users and groups of the source.
    #[default]
    Keep,
    /// This user and group own everything.
    All(u32, u32),
}

/// Paths to leave out, compared with the path on the volume without its leading slash.
#[derive(Clone, Debug)]
pub enum Exclude {
    /// This path.
    Path(Vec<u8>),
    /// Paths in which the expression matches.
    Regex(regex::bytes::Regex),
}

impl Exclude {
    /// Leaves out a path; a leading slash and a trailing one are ignored.
    #[must_use]
    pub fn path(path: &Path) -> Self {
        let bytes = path.as_os_str().as_bytes();
        let bytes = bytes.strip_prefix(b"/").unwrap_or(bytes);
        Self::Path(bytes.strip_suffix(b"/").unwrap_or(bytes).to_vec())
    }

    /// Leaves out the paths in which an expression of the crate `regex` matches. The error of an invalid
    /// expression names the position.
    pub fn regex(text: &str) -> std::result::Result<Self, String> {
        regex::bytes::RegexBuilder::new(text)
            .unicode(false)
            .build()
            .map(Self::Regex)
            .map_err(|e| e.to_string())
    }

    /// Whether it leaves out this path, which has no leading slash.
    #[must_use]
    pub fn covers(&self, path: &[u8]) -> bool {
        match self {
            Self::Path(excluded) => excluded == path,
            Self::Regex(expression) => expression.is_match(path),
        }
    }
}
