//! Selection of the structure to show.
use segno_device::BlockDevice;
use segno_rescue::scan::BadBlocks;
use segno_rescue::{Found, RescueError, ScanOptions};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::AtomicBool;

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message states its case")]
pub enum DumpError {
    #[error("{0}")]
    Usage(String),
    #[error("there is no usable {0}, which leads to it")]
    Missing(&'static str),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Scan(#[from] RescueError),
}

/// A file, by path or inode number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileName {
    /// Path from the root.
    Path(Vec<u8>),
    /// Inode number.
    Ino(u32),
}

/// A structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Superblock copies, or one of them.
    Superblock(Option<usize>),
    /// Checkpoint packs, or one of them.
    Checkpoint(Option<usize>),
    /// NAT entries.
    Nat(Range<u32>),
    /// SIT entries.
    Sit(Range<u32>),
    /// Summary blocks.
    Ssa(Range<u32>),
    /// A node, and whether all its versions are meant.
    Node(u32, bool),
    /// An inode, and whether all its versions are meant.
    Inode(FileName, bool),
    /// A directory, and whether removed names are shown.
    Dentry(FileName, bool),
    /// Extended attributes.
    Xattr(FileName),
    /// Inodes without a name.
    Orphans,
    /// Quota files.
    Quota,
    /// The roll-forward chain.
    Chain,
    /// The metadata journal after the volume.
    Journal,
    /// A block.
    Block(u32),
    /// A segment of the main area.
    Segment(u32),
    /// File and offset that a block belongs to.
    Owner(u32),
}

const STRUCTURES: &str = "sb [1|2], cp [1|2], nat [A..B], sit [A..B], ssa [A..B], node NID, inode INO, path PATH, \
                          dentry PATH|INO, xattr PATH|INO, orphans, quota, chain, journal, block ADDR, segment N, owner ADDR";

impl What {
    /// Names of all structures.
    pub fn names() -> impl Iterator<Item = &'static str> {
        STRUCTURES.split(", ").filter_map(|s| s.split(' ').next())
    }

    /// Reads a name and its selector.
    pub fn parse(words: &[impl AsRef<OsStr>], versions: bool, cleared: bool) -> Result<Self, DumpError> {
        let (name, path) = match words {
            [name] => (name.as_ref().to_string_lossy(), None),
            [name, selector] => (name.as_ref().to_string_lossy(), Some(selector.as_ref())),
            _ => {
                return Err(DumpError::Usage(format!(
                    "one structure and one selector are expected: {STRUCTURES}"
                )));
            }
        };
        let missing = || DumpError::Usage(format!("{name} needs a selector: {STRUCTURES}"));
        let file = || path.map(file_name).ok_or_else(missing);
        let selector = path.map(|s| s.to_string_lossy());
        let selector = selector.as_deref();
        let needed = || selector.ok_or_else(missing);
        Ok(match &*name {
            "sb" => Self::Superblock(copy(selector)?),
            "cp" => Self::Checkpoint(copy(selector)?),
            "nat" => Self::Nat(range(selector)?),
            "sit" => Self::Sit(range(selector)?),
            "ssa" => Self::Ssa(range(selector)?),
            "node" => Self::Node(number(needed()?)?, versions),
            "inode" => Self::Inode(file()?, versions),
            "path" => Self::Inode(FileName::Path(path.ok_or_else(missing)?.as_bytes().to_vec()), versions),
            "dentry" => Self::Dentry(file()?, cleared),
            "xattr" => Self::Xattr(file()?),
            "orphans" => Self::Orphans,
            "quota" => Self::Quota,
            "chain" => Self::Chain,
            "journal" => Self::Journal,
            "block" => Self::Block(number(needed()?)?),
            "segment" => Self::Segment(number(needed()?)?),
            "owner" => Self::Owner(number(needed()?)?),
            _ => {
                return Err(DumpError::Usage(format!(
                    "there is no structure {name:?}; there are {STRUCTURES}"
                )));
            }
        })
    }

    pub(crate) fn needs_scan(&self) -> bool {
        matches!(self, Self::Node(_, true) | Self::Inode(_, true))
    }
}

/// A number is an inode, also with `#` before it; anything else is a path.
fn file_name(given: &OsStr) -> FileName {
    let number = given.to_str().and_then(|text| text.strip_prefix('#').unwrap_or(text).parse().ok());
    number.map_or_else(|| FileName::Path(given.as_bytes().to_vec()), FileName::Ino)
}

fn number(text: &str) -> Result<u32, DumpError> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| DumpError::Usage(format!("{text:?} is no number")))
}

fn copy(selector: Option<&str>) -> Result<Option<usize>, DumpError> {
    match selector {
        None => Ok(None),
        Some("1") => Ok(Some(0)),
        Some("2") => Ok(Some(1)),
        Some(other) => Err(DumpError::Usage(format!("there are 1 and 2, not {other:?}"))),
    }
}

/// Of no selector all, of a number that one; the end is not included.
fn range(selector: Option<&str>) -> Result<Range<u32>, DumpError> {
    match selector.map(|text| (text, text.split_once(".."))) {
        None => Ok(0..u32::MAX),
        Some((_, Some((from, to)))) => Ok(number(from)?..number(to)?),
        Some((one, None)) => number(one).map(|n| n..n.saturating_add(1)),
    }
}

pub(crate) fn scan_all(device: &dyn BlockDevice) -> Result<Found, RescueError> {
    let (known_bad, stop) = (BadBlocks::default(), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    segno_rescue::scan(
        device,
        &ScanOptions { threads, known_bad: &known_bad, base: Some(0), stop: &stop },
        &|_| {},
    )
}
