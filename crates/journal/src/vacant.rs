//! The space for a new journal. A journal is created only where it overwrites no data: in zeros, or over a
//! journal of the same volume. Other data there may be a hash tree, a footer, or a file system.
use crate::about::About;
use crate::area::Area;
use crate::error::{Error, Result};
use crate::header;
use crate::ring::{MOST_BLOCKS, SUPERBLOCKS};
use crate::superblock;
use segno_format::Block;

/// Blocks that are read or written at once.
const RUN: u64 = 256;

/// Content of an area with respect to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Zeros, or remains of a journal that cannot be read any more.
    Nothing,
    /// A journal of the volume.
    Own(About),
    /// A journal of another volume.
    Other(About),
    /// Something else.
    Data {
        /// The first block of the device that is not zero.
        at: u64,
    },
}

/// Space in which a journal may be made.
#[derive(Clone, Debug)]
pub struct Vacant(Area);

impl Area {
    /// Its content, for the volume with this uuid. Space without a journal is read in full; holes of an image
    /// file are skipped.
    pub fn content(&self, volume: &[u8; 16]) -> Result<Content> {
        match About::read(self) {
            Ok(about) if about.volume == *volume => Ok(Content::Own(about)),
            Ok(about) => Ok(Content::Other(about)),
            Err(Error::Absent { .. } | Error::TooSmall { .. }) => {
                Ok(self.data()?.map_or(Content::Nothing, |at| Content::Data { at: self.start() + at }))
            }
            Err(e) => Err(e),
        }
    }

    /// The space for a new journal of the volume with this uuid. Other data and the journal of another volume
    /// are refused. The exception is a closed journal after the end of a volume: it is left from the previous
    /// volume there, and is replaced. The new journal keeps the size of the one it replaces, as other data
    /// may follow.
    pub fn vacant(self, volume: &[u8; 16]) -> Result<Vacant> {
        match self.content(volume)? {
            Content::Nothing => Ok(Vacant(self.first(MOST_BLOCKS))),
            Content::Own(about) => Ok(Vacant(self.first(about.blocks().min(MOST_BLOCKS)))),
            Content::Other(about) if about.clean && !self.is_whole() => {
                Ok(Vacant(self.first(about.blocks().min(MOST_BLOCKS))))
            }
            Content::Other(about) => Err(Error::OtherVolume { volume: about.volume }),
            Content::Data { at } => Err(Error::Occupied { at }),
        }
    }

    /// Overwrites the space of a new journal with zeros, durably; its content is lost.
    pub fn clear(self) -> Result<Vacant> {
        let space = self.first(MOST_BLOCKS);
        space.erase()?;
        Ok(Vacant(space))
    }

    /// Overwrites the area with zeros, durably, the superblocks last, so that a journal remains after a power
    /// cut.
    pub(crate) fn erase(&self) -> Result<()> {
        self.runs_of_data(|at, run| {
            self.zero(at.max(SUPERBLOCKS), at + run.len() as u64)?;
            Ok(true)
        })?;
        self.flush()?;
        self.zero(0, SUPERBLOCKS.min(self.blocks()))?;
        self.flush()
    }

    pub(crate) fn zero(&self, start: u64, end: u64) -> Result<()> {
        let zero = Block::zeroed();
        for at in (start..end).step_by(RUN as usize) {
            self.write(at, &vec![&zero; RUN.min(end - at) as usize])?;
        }
        Ok(())
    }

    /// Calls `found` for runs of blocks that are not all zero, until it returns false.
    pub(crate) fn runs_of_data(&self, mut found: impl FnMut(u64, &[Block]) -> Result<bool>) -> Result<()> {
        let mut blocks = vec![Block::zeroed(); RUN as usize];
        let mut at = self.next_data(0);
        while at < self.blocks() {
            let count = RUN.min(self.blocks() - at) as usize;
            let run = blocks.get_mut(..count).unwrap_or_default();
            self.read(at, run)?;
            if run.iter().any(|b| !b.is_zero()) && !found(at, run)? {
                return Ok(());
            }
            at = self.next_data(at + count as u64);
        }
        Ok(())
    }

    /// The first block that is neither zero nor a remainder of a journal: of a superblock whose first write
    /// was torn, or of the groups of a discarded journal.
    fn data(&self) -> Result<Option<u64>> {
        let (mut first, mut groups) = (None, false);
        self.runs_of_data(|at, run| {
            for (at, block) in (at..).zip(run).filter(|(_, block)| !block.is_zero()) {
                let is_torn = at < SUPERBLOCKS && superblock::may_be_torn(block);
                groups |= at == SUPERBLOCKS && header::has_magic(block);
                if !is_torn && !groups {
                    first = Some(at);
                    return Ok(false);
                }
            }
            Ok(!groups)
        })?;
        Ok(first)
    }
}

impl Vacant {
    /// Its blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.0.blocks()
    }

    pub(crate) fn area(self) -> Area {
        self.0
    }
}
