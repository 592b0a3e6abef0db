//! What a caller can choose.
use segno_engine::Time;
use segno_mkfs::MkfsOptions;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How to build an image.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// How the volume is formatted. Without an id, one is derived from the tree; without a time stamp, the volume gets
    /// the time of the root directory.
    pub volume: MkfsOptions,
    /// Size of the image.
    pub size: Size,
    /// All times of all files, in seconds since 1970.
    pub time: Option<u64>,
    /// Latest time of a file, in seconds since 1970; later ones are replaced by it (`SOURCE_DATE_EPOCH`).
    pub latest: Option<u64>,
    /// Who owns the files.
    pub owner: Owner,
    /// What is left out, with everything below it.
    pub exclude: Vec<Exclude>,
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
    /// The smallest whole number of segments that holds the tree, and this much more.
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
    /// Percent of what the tree takes.
    Percent(u64),
}

/// Who owns the files of an image.
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

    /// Leaves out the paths in which an expression of the crate `regex` matches; the error says where it is wrong.
    pub fn regex(text: &str) -> std::result::Result<Self, String> {
        regex::bytes::RegexBuilder::new(text)
            .unicode(false)
            .build()
            .map(Self::Regex)
            .map_err(|e| e.to_string())
    }

    pub(crate) fn covers(&self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_bytes();
        match self {
            Self::Path(excluded) => excluded == bytes,
            Self::Regex(expression) => expression.is_match(bytes),
        }
    }
}
