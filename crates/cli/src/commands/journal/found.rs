//! Finding the journal of an image.
use crate::image;
use crate::storage::ImageArgs;
use anyhow::{Context, Result, anyhow, bail, ensure};
use segno::inspect;
use segno_device::{BlockDevice, OpenOptions};
use segno_format::size;
use segno_format::superblock::uuid_text;
use segno_format::{BLOCK_SIZE, Features};
use segno_journal::{About, Area, Checkpoint, Content, Error, Journal, Opened, Vacant};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An image, and the place where its journal is or would be.
#[derive(Clone)]
pub struct Found {
    pub device: Arc<dyn BlockDevice>,
    pub volume_blocks: u64,
    pub checkpoint: Checkpoint,
    /// Linux mounts it read-only because of its journal, or not at all if it is zoned.
    pub guarded: bool,
    pub zoned: bool,
    /// The last mount had an external journal.
    pub external: bool,
    pub area: Area,
    /// Its file or device; `None` after the end of the volume.
    pub file: Option<PathBuf>,
}

impl Found {
    /// Opens image and journal. The error for an image without room for a journal names the remedy.
    pub fn open(of: &ImageArgs, read_only: bool) -> Result<Self> {
        Self::with(of, read_only, gap)
    }

    /// Opens an image for writing, and its journal. The area is empty where there is no room for one.
    pub fn open_any(of: &ImageArgs) -> Result<Self> {
        Self::with(of, false, |device| {
            Ok(gap(device).unwrap_or_else(|_| Area::whole(device.clone()).first(0)))
        })
    }

    fn with(
        of: &ImageArgs,
        read_only: bool,
        gap: impl FnOnce(&Arc<dyn BlockDevice>) -> Result<Area>,
    ) -> Result<Self> {
        let options = OpenOptions { read_only, direct: false };
        let images = of.devices()?;
        let device = image::open(&images, options)?;
        let (file, area) = match of.storage.journal.open(&images, options)? {
            Some((path, journal)) => (Some(path), Area::whole(journal)),
            None => (None, gap(&device)?),
        };
        let sb = inspect::superblock(&*device)?;
        if read_only {
            image::note_unsupported(&*device);
        } else {
            sb.check_support().with_context(|| image::cannot_read(&of.image))?;
        }
        let pack = inspect::checkpoint(&*device, &sb)?;
        let (checkpoint, external) = (pack.journaled(&sb), pack.external_journal);
        let (volume_blocks, guarded) = (sb.geo.block_count, sb.guarded);
        let zoned = sb.features.contains(Features::BLKZONED);
        Ok(Self { device, volume_blocks, checkpoint, guarded, zoned, external, area, file })
    }

    /// This journal, with a place of up to `blocks` blocks.
    pub fn first(&self, blocks: u64) -> Self {
        Self { area: self.area.clone().first(blocks), ..self.clone() }
    }

    /// The journal's own description; `None` without a journal.
    pub fn about(&self) -> Result<Option<About>> {
        if_there(About::read(&self.area))
    }

    /// The content of the place.
    pub fn content(&self) -> Result<Content> {
        self.content_of(&self.area)
    }

    fn content_of(&self, area: &Area) -> Result<Content> {
        area.content(&self.checkpoint.volume).context("cannot read the journal's space")
    }

    /// The byte of the first other data between the end of the journal and that of the first `most` blocks of its place.
    pub fn other_data(&self, about: &About, most: u64) -> Result<Option<u64>> {
        let rest = self.area.clone().first(most).after(about.blocks());
        Ok(match self.content_of(&rest)? {
            Content::Nothing => None,
            Content::Data { at } => Some(at * BLOCK_SIZE as u64),
            Content::Own(_) | Content::Other(_) => Some(rest.start() * BLOCK_SIZE as u64),
        })
    }

    /// The journal, if it has nothing that the volume lacks. The refusal names the way to keep that; `image` is the volume's name.
    pub fn unneeded(&self, image: &Path) -> Result<About> {
        let (place, image) = (self.describe(), image.display());
        let about = match self.content()? {
            Content::Own(about) => about,
            Content::Other(about) => {
                bail!("the journal {place} is of another volume ({})", uuid_text(&about.volume))
            }
            Content::Nothing | Content::Data { .. } => bail!("there is no journal {place}"),
        };
        ensure!(!self.external || self.file.is_some(), segno_engine::Error::JournalNotNamed);
        let lacks = match self.state()? {
            Some(Opened::Stale(why)) if why.is_damage() => {
                return Err(segno_engine::Error::JournalAhead(why).into());
            }
            Some(Opened::Stale(why)) if why.lost().is_some() => {
                bail!("the journal {place} has no effect: {why}. `segno journal discard {image}` gives it up")
            }
            Some(Opened::Usable(replay)) => !replay.accepted().is_empty(),
            Some(Opened::Stale(_)) | None => false,
        };
        let option =
            self.file.as_ref().map(|path| format!("--journal {} ", path.display())).unwrap_or_default();
        ensure!(
            !lacks && !self.guarded && !self.external,
            "the journal {place} has changes that the volume lacks: `segno journal replay {option}{image}` first"
        );
        Ok(about)
    }

    /// Its state relative to the volume; `None` without a journal.
    pub fn state(&self) -> Result<Option<Opened>> {
        if_there(Journal::open(self.area.clone(), &self.checkpoint, &*self.device))
    }

    /// Groups of changes in the journal after the end of the volume that the volume lacks, whichever journal
    /// was named.
    pub fn changes_behind(&self) -> Result<usize> {
        let Ok(gap) = gap(&self.device) else { return Ok(0) };
        Journal::changes(gap, &self.checkpoint, &*self.device).context("cannot read the journal")
    }

    /// The place of the journal, for messages.
    pub fn describe(&self) -> String {
        match &self.file {
            None => {
                format!("after the end of the volume, at byte {}", self.area.start() * BLOCK_SIZE as u64)
            }
            Some(path) => format!("in {}", path.display()),
        }
    }
}

fn if_there<T>(read: Result<T, Error>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Absent { .. } | Error::TooSmall { .. }) => Ok(None),
        Err(e) => Err(e).context("cannot read the journal"),
    }
}

fn gap(device: &Arc<dyn BlockDevice>) -> Result<Area> {
    let sb = inspect::superblock(&**device)?;
    Area::tail(device.clone(), sb.geo.block_count).ok_or_else(|| {
        anyhow!("there is no gap for a journal after the end of the volume; name an external journal with --journal")
    })
}

/// Makes an empty journal after the end of a new volume. The space was made for it.
pub fn make(device: &Arc<dyn BlockDevice>) -> Result<u64> {
    let sb = inspect::superblock(&**device)?;
    let checkpoint = inspect::checkpoint(&**device, &sb)?.journaled(&sb);
    let area = gap(device)?;
    let bytes = area.blocks() * BLOCK_SIZE as u64;
    make_in(area.clear().context("cannot write the journal's space")?, &checkpoint)?;
    Ok(bytes)
}

/// Makes an empty journal.
pub fn make_in(space: Vacant, checkpoint: &Checkpoint) -> Result<()> {
    let mut unique = [0; 16];
    rustix::rand::getrandom(&mut unique, rustix::rand::GetRandomFlags::empty())
        .context("no random number")?;
    let journal = Journal::create(space, checkpoint, unique);
    journal.and_then(|j| j.close()).context("cannot make the journal")
}

/// Erases a journal and makes an empty one in the first `blocks` of its place. A cut leaves the old one, which has nothing that the volume
/// lacks, the new one, or none.
pub fn remake(area: &Area, blocks: u64, checkpoint: &Checkpoint) -> Result<()> {
    Journal::discard(area).context("cannot erase the journal")?;
    make_in(area.clone().first(blocks).clear().context("cannot write the journal's space")?, checkpoint)
}

/// Blocks for a journal of that many bytes.
pub fn blocks_of(bytes: u64) -> Result<u64> {
    let blocks = bytes.div_ceil(BLOCK_SIZE as u64);
    let least = Journal::LEAST_BLOCKS;
    ensure!(
        blocks >= least,
        "a journal of {bytes} bytes is too small: give it {} at least, 16M to be of use",
        size::human(least * BLOCK_SIZE as u64)
    );
    ensure!(blocks <= Journal::MOST_BLOCKS, "a journal has up to 4 GiB");
    Ok(blocks)
}
