//! Superblock and checkpoint of a device, read without opening the volume: also of volumes that cannot be opened.
use segno_device::{BlockDevice, ReadError};
use segno_format::Corrupt;
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::pack::{self, PackHead};
use segno_format::superblock::Superblock;
use segno_journal::Checkpoint;
use segno_layout::{NoSuperblock, superblock_in_force};

/// Why there is no superblock or no checkpoint to show.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message states its case")]
pub enum InspectError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    NoSuperblock(#[from] NoSuperblock),
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

type Result<T> = std::result::Result<T, InspectError>;

/// The superblock in force.
pub fn superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    Ok(superblock_in_force(device)??)
}

/// A valid pack: its first block, and the checksum of that.
pub struct Pack {
    /// The checkpoint block.
    pub cp: RawCheckpoint,
    /// 1 or 2.
    pub number: usize,
    crc: u32,
    is_first: bool,
    /// Whether its mount had an external journal, in which changes may be that the volume lacks.
    pub external_journal: bool,
}

impl Pack {
    /// The checkpoint as a journal identifies it.
    #[must_use]
    pub fn journaled(&self, sb: &Superblock) -> Checkpoint {
        Checkpoint {
            volume: sb.raw.uuid,
            version: self.cp.checkpoint_ver.get(),
            crc: self.crc,
            is_first: self.is_first,
        }
    }
}

/// The pack of the checkpoint in force.
pub fn checkpoint(device: &dyn BlockDevice, sb: &Superblock) -> Result<Pack> {
    let head = |index| PackHead::read(sb.geo.pack_addr(index), |at| device.block(at));
    let heads = [head(0)?, head(1)?];
    let (index, is_first) = (pack::in_force(&heads).unwrap_or(0), pack::is_first(&heads));
    let [first, second] = heads;
    let head = if index == 0 { first } else { second }?;
    let external_journal = RawCheckpoint::has_external_journal(&head.block);
    Ok(Pack { cp: *head.cp(), number: index + 1, crc: head.crc, is_first, external_journal })
}

/// Whether the last server left the volume as a clean unmount does.
pub fn is_clean(device: &dyn BlockDevice) -> Result<bool> {
    Ok(checkpoint(device, &superblock(device)?)?.cp.flags().contains(CpFlags::UMOUNT))
}
