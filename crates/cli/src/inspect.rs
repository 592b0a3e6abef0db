//! Superblock and checkpoint of an image, read without mounting it: also of volumes that cannot be mounted.
use anyhow::{Context, Result, anyhow};
use segno_device::BlockDevice;
use segno_format::checkpoint::{CpFlags, RawCheckpoint, newer_pack};
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES, Superblock};
use segno_format::{Block, BlockAddr, Corrupt};
use segno_journal::Checkpoint;

/// The first superblock copy that passes its checks.
pub fn superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    let mut damage = None;
    for copy in SUPERBLOCK_COPIES {
        let block = read(device, copy)?;
        match RawSuperblock::from_block(&block.0).parse(copy.0.into()) {
            Ok(sb) => return Ok(sb),
            Err(e) => damage = damage.or(Some(e)),
        }
    }
    Err(damage.map_or_else(|| anyhow!("no superblock"), anyhow::Error::from))
}

/// A valid pack: its first block, and the checksum of that.
pub struct Pack {
    pub cp: RawCheckpoint,
    /// 1 or 2.
    pub number: usize,
    crc: u32,
    /// Whether its mount had an external journal, in which changes may be that the volume lacks.
    pub external_journal: bool,
}

impl Pack {
    /// The checkpoint as a journal identifies it.
    pub fn journaled(&self, sb: &Superblock) -> Checkpoint {
        Checkpoint { volume: sb.raw.uuid, version: self.cp.checkpoint_ver.get(), crc: self.crc }
    }
}

/// The pack of the checkpoint in force.
pub fn checkpoint(device: &dyn BlockDevice, sb: &Superblock) -> Result<Pack> {
    let first = pack(device, sb, 0)?;
    let second = pack(device, sb, 1)?;
    let version = |p: &Result<Pack, Corrupt>| p.as_ref().ok().map(|p| p.cp.checkpoint_ver.get());
    match newer_pack(version(&first), version(&second)) {
        Some(0) | None => Ok(first?),
        Some(_) => Ok(second?),
    }
}

/// Whether the last server left the volume as a clean unmount does.
pub fn is_clean(device: &dyn BlockDevice) -> Result<bool> {
    Ok(checkpoint(device, &superblock(device)?)?.cp.flags().contains(CpFlags::UMOUNT))
}

/// One pack, if its two ends are valid and agree.
fn pack(device: &dyn BlockDevice, sb: &Superblock, index: usize) -> Result<Result<Pack, Corrupt>> {
    let start = sb.geo.pack_addr(index);
    let head = read(device, start)?;
    let (crc, last) = match RawCheckpoint::verify(&head, start.0.into())
        .and_then(|crc| Ok((crc, head.view::<RawCheckpoint>().total_blocks(start.0.into())?)))
    {
        Ok((crc, blocks)) => (crc, start.offset(blocks.saturating_sub(1))),
        Err(e) => return Ok(Err(e)),
    };
    let tail = read(device, last)?;
    let (cp, found) = (*head.view::<RawCheckpoint>(), tail.view::<RawCheckpoint>().checkpoint_ver.get());
    let expected = cp.checkpoint_ver.get();
    Ok(RawCheckpoint::verify(&tail, last.0.into()).and_then(|_| {
        if found == expected {
            let external_journal = RawCheckpoint::has_external_journal(&head);
            return Ok(Pack { cp, number: index + 1, crc, external_journal });
        }
        let why = "the two ends of the pack differ";
        Err(Corrupt::block(segno_format::Structure::Checkpoint, last.0.into(), why, found, expected))
    }))
}

fn read(device: &dyn BlockDevice, at: BlockAddr) -> Result<Block> {
    let mut blocks = [Block::zeroed()];
    device.read(at.0.into(), &mut blocks).with_context(|| format!("cannot read block {at}"))?;
    let [block] = blocks;
    Ok(block)
}
