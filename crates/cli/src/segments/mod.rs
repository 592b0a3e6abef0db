//! The segments of a volume as of its last checkpoint: type, valid blocks, and the log that has them open.
pub mod grid;
pub mod png;
pub mod poster;
pub mod shapes;
pub mod svg;

use crate::image;
use crate::mount::table;
use crate::new_file::{NewFile, refuse_source};
use crate::storage::DeviceOption;
use anyhow::{Context, Result, anyhow, bail};
use segno::inspect;
use segno_device::{BlockDevice, observe_storage};
use segno_format::checkpoint::RawCheckpoint;
use segno_format::sit::LogType;
use segno_format::superblock::Superblock;
use segno_format::{BLOCKS_PER_SEG, SegNo};
use segno_layout::{Packs, Sit, Summaries, Superblocks, certain};
use segno_rescue::Reader;
use serde::{Serialize, Serializer};
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A picture shows nothing of any file.
const PICTURE_MODE: u32 = 0o666;
/// How often a busy mount is read again before giving up.
const ATTEMPTS: u32 = 20;

/// The contents of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Nothing, and no log has it open.
    Free,
    /// Blocks of this log's type, or none yet.
    Of(LogType),
    /// The SIT contradicts itself or cannot be read here.
    Damaged,
}

/// One segment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Segment {
    #[serde(rename = "type")]
    pub content: Content,
    #[serde(rename = "valid_blocks")]
    pub valid: u16,
    /// Content of the log that writes here.
    pub log: Option<Content>,
    /// Seconds that the volume was mounted since its valid blocks were written, on average.
    #[serde(rename = "age_seconds")]
    pub age: Option<u64>,
}

/// All segments of the main area, and the structures that they were read by.
pub struct Segments {
    pub superblock: Superblock,
    pub checkpoint: RawCheckpoint,
    /// Whether the journal after the volume of an image has changes that the checkpoint lacks.
    pub journal_changes: bool,
    pub all: Vec<Segment>,
}

/// Segments of one content.
#[derive(Serialize)]
pub struct Total {
    #[serde(rename = "type")]
    pub content: Content,
    pub segments: u64,
    #[serde(rename = "valid_blocks")]
    pub valid: u64,
}

impl Total {
    /// The share of its blocks that are valid.
    pub fn percent(&self) -> u64 {
        100 * self.valid / (self.segments.max(1) * u64::from(BLOCKS_PER_SEG))
    }
}

impl Content {
    /// The contents in the order in which they are listed.
    pub fn all() -> impl Iterator<Item = Self> {
        LogType::ALL.into_iter().map(Self::Of).chain([Self::Free, Self::Damaged])
    }

    pub fn name(self) -> &'static str {
        self.shown().0
    }

    /// The colour of a full segment.
    pub fn colour(self) -> [u8; 3] {
        self.shown().1
    }

    fn shown(self) -> (&'static str, [u8; 3]) {
        match self {
            Self::Free => ("free", [0x90, 0x90, 0x90]),
            Self::Damaged => ("damaged", [0xe0, 0x00, 0x00]),
            Self::Of(LogType::HotData) => ("hot data", [0xe8, 0x6a, 0x17]),
            Self::Of(LogType::WarmData) => ("warm data", [0xc9, 0x9a, 0x06]),
            Self::Of(LogType::ColdData) => ("cold data", [0x3b, 0x82, 0xc4]),
            Self::Of(LogType::HotNode) => ("hot node", [0xc2, 0x4f, 0xa0]),
            Self::Of(LogType::WarmNode) => ("warm node", [0x7a, 0x52, 0xc0]),
            Self::Of(LogType::ColdNode) => ("cold node", [0x2b, 0x8a, 0x4e]),
        }
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl Segments {
    /// Of an image with its further devices, or of the mount at this directory: then as of its last checkpoint.
    pub fn of(path: &Path, devices: &DeviceOption) -> Result<Self> {
        let died = |e: &Error| e.kind() == ErrorKind::NotConnected;
        if path.metadata().map_or_else(|e| died(&e), |m| m.is_dir()) {
            return Self::of_mount(path);
        }
        let device = image::open(&devices.of(path)?, image::READ_ONLY)?;
        image::note_unsupported(&*device);
        let found = Self::read(&*device).with_context(|| image::cannot_read(path))?;
        Ok(Self { journal_changes: image::has_journaled_changes(&device), ..found })
    }

    fn of_mount(dir: &Path) -> Result<Self> {
        let device = observe_storage(&image_of(dir)?).map_err(image::explain)?;
        for _ in 0..ATTEMPTS {
            let found = Self::read(&*device);
            let version = newest(&*device).map(|cp| cp.checkpoint_ver.get());
            // The next checkpoint leaves what this one names; the one after it does not.
            if let (Ok(found), Ok(version)) = (found, version)
                && found.checkpoint.checkpoint_ver.get() == version
            {
                return Ok(found);
            }
        }
        bail!("{} takes checkpoints faster than its tables can be read; try again", dir.display())
    }

    fn read(device: &dyn BlockDevice) -> Result<Self> {
        let reader = Reader::new(device, 0);
        let superblocks = certain(Superblocks::load(&reader));
        let superblock = superblocks.in_force().ok_or_else(|| anyhow!("no superblock is valid"))?.clone();
        let geo = superblock.geo;
        let (pack, _) = certain(Packs::load(&reader, &geo)).into_ordered();
        let pack = pack.ok_or_else(|| anyhow!("no checkpoint is valid"))?;
        let sit = certain(Sit::load(&reader, &geo, &pack, &Summaries::load(&pack)));
        let checkpoint = *pack.cp();
        let mounted = checkpoint.elapsed_time.get();
        let mut all: Vec<Segment> = geo.segments().map(|seg| segment(&sit, seg, mounted)).collect();
        for log in LogType::ALL {
            let open = usize::try_from(checkpoint.position(log).seg.0).ok().and_then(|seg| all.get_mut(seg));
            if let Some(open) = open {
                let of_log = Content::Of(log);
                open.log = Some(of_log);
                if open.content == Content::Free {
                    open.content = of_log;
                }
            }
        }
        Ok(Self { superblock, checkpoint, journal_changes: false, all })
    }

    /// Numbers by content, in the order of [`Content::all`].
    pub fn totals(&self) -> Vec<Total> {
        Content::all()
            .map(|content| {
                let of = || self.all.iter().filter(move |s| s.content == content);
                let valid = of().map(|s| u64::from(s.valid)).sum();
                Total { content, segments: of().count() as u64, valid }
            })
            .collect()
    }

    /// The number of segments with valid blocks that no log has open, and how many of them are less than half
    /// full.
    pub fn scattered(&self) -> (u64, u64) {
        let used = || self.all.iter().filter(|s| s.valid > 0 && s.log.is_none());
        let sparse = used().filter(|s| u32::from(s.valid) < BLOCKS_PER_SEG / 2);
        (used().count() as u64, sparse.count() as u64)
    }
}

/// `mounted` is how long the volume was mounted in all.
fn segment(sit: &Sit, seg: SegNo, mounted: u64) -> Segment {
    let Some(entry) = sit.get(seg) else {
        return Segment { content: Content::Damaged, valid: 0, log: None, age: None };
    };
    let content = match (entry.parse(seg), entry.valid()) {
        (Err(_), _) => Content::Damaged,
        (Ok(_), 0) => Content::Free,
        (Ok(log), _) => Content::Of(log),
    };
    // Tools that write images leave 0.
    let stamped = matches!(content, Content::Of(_)) && entry.mtime.get() != 0;
    let age = stamped.then(|| mounted.saturating_sub(entry.mtime.get()));
    Segment { content, valid: entry.valid(), log: None, age }
}

fn newest(device: &dyn BlockDevice) -> Result<RawCheckpoint> {
    let superblock = inspect::superblock(device)?;
    Ok(inspect::checkpoint(device, &superblock)?.cp)
}

/// The image that is mounted at a directory or above it.
fn image_of(dir: &Path) -> Result<PathBuf> {
    table::probe(dir).map_err(|e| image::unanswered(e, dir, || format!("cannot read {}", dir.display())))?;
    let dir = dir.canonicalize().with_context(|| format!("cannot find {}", dir.display()))?;
    match table::holding(&dir)? {
        Some(mount) if mount.is_ours() => Ok(mount.source),
        _ => bail!(
            "{} is a directory that is not on a mount of segno; name an image or a mount",
            dir.display()
        ),
    }
}

/// Writes a picture or page of these images, durably and under its name only when complete.
pub fn write_file(path: &Path, force: bool, images: &[PathBuf], bytes: &[u8]) -> Result<()> {
    for image in images {
        refuse_source(image, path)?;
    }
    let new = NewFile::create(path, force, PICTURE_MODE)?;
    new.file().write_all(bytes).with_context(|| format!("cannot write {}", path.display()))?;
    new.finish()
}
