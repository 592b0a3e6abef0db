//! Finding the journal of an image.
use crate::image;
use crate::storage::ImageArgs;
use anyhow::{Context, Result, anyhow};
use segno::inspect;
use segno_device::{BlockDevice, OpenOptions};
use segno_format::BLOCK_SIZE;
use segno_format::size;
use segno_journal::{About, Area, Checkpoint, Content, Error, Journal, Opened, Vacant};
use std::path::PathBuf;
use std::sync::Arc;

/// An image, and the place where its journal is or would be.
pub struct Found {
    pub device: Arc<dyn BlockDevice>,
    pub checkpoint: Checkpoint,
    /// Linux mounts it read-only because of its journal.
    pub guarded: bool,
    /// The last mount had an external journal.
    pub external: bool,
    pub area: Area,
    /// Its file or device; `None` after the end of the volume.
    pub file: Option<PathBuf>,
}

impl Found {
    /// Opens image and journal. The error for an image without room for a journal names the remedy.
    pub fn open(of: &ImageArgs, read_only: bool) -> Result<Self> {
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
        Ok(Self { device, checkpoint, guarded: sb.guarded, external, area, file })
    }

    /// The journal's own description; `None` without a journal.
    pub fn about(&self) -> Result<Option<About>> {
        if_there(About::read(&self.area))
    }

    /// The content of the place; one too small for a journal is not read.
    pub fn content(&self) -> Result<Content> {
        if self.area.blocks() < Journal::LEAST_BLOCKS {
            return Ok(Content::Nothing);
        }
        self.area.content(&self.checkpoint.volume).context("cannot read the journal's space")
    }

    /// Its state relative to the volume; `None` without a journal.
    pub fn state(&self) -> Result<Option<Opened>> {
        if_there(Journal::open(self.area.clone(), &self.checkpoint, &*self.device))
    }

    /// Groups of changes that the journal behind the volume has and the volume lacks, whatever journal was named.
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

/// Blocks for a journal of that many bytes.
pub fn blocks_of(bytes: u64) -> Result<u64> {
    let blocks = bytes.div_ceil(BLOCK_SIZE as u64);
    let least = Journal::LEAST_BLOCKS;
    anyhow::ensure!(
        blocks >= least,
        "a journal of {bytes} bytes is too small: give it {} at least, 16M to be of use",
        size::human(least * BLOCK_SIZE as u64)
    );
    Ok(blocks)
}
