//! The journal behind a volume, read without the engine.
use segno_device::{BlockDevice, MemDevice, Snapshot};
use segno_engine::JournalArea;
use segno_format::checkpoint::RawCheckpoint;
use segno_format::pack::PackHead;
use segno_format::sit::LogType;
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Block, BlockAddr};
use segno_journal::{Checkpoint, Journal, Opened, Replay};
use segno_layout::superblock_in_force;
use std::sync::Arc;

/// Written by another implementation, which knows nothing of the journal.
const FOREIGN: Block = Block([0x5A; BLOCK_SIZE]);

/// A checkpoint whose journal would be replayed.
struct Followed {
    replay: Box<Replay>,
    /// Positions of its logs.
    positions: Vec<BlockAddr>,
}

/// The records that a mount would replay from the journal behind a volume of so many blocks.
#[must_use]
pub fn records(image: &Snapshot, blocks: u64) -> u64 {
    let count = |followed: Followed| -> u64 {
        let sections = followed.replay.groups().flatten().flat_map(|group| group.sections);
        sections.map(|section| section.records.len() as u64).sum()
    };
    followed(&device(image), blocks).map_or(0, count)
}

/// A journal that would be replayed has no effect once another implementation has written at the position of any log.
pub fn notices_foreign_writes(image: &Snapshot, blocks: u64) -> Result<(), String> {
    let Some(before) = followed(&device(image), blocks).filter(|f| !f.replay.accepted().is_empty()) else {
        return Ok(());
    };
    for at in before.positions {
        let device = device(image);
        device.write(at.0.into(), &[&FOREIGN]).map_err(|e| e.to_string())?;
        if followed(&device, blocks).is_some_and(|f| !f.replay.accepted().is_empty()) {
            return Err(format!("the journal counts after another implementation wrote block {}", at.0));
        }
    }
    Ok(())
}

fn device(image: &Snapshot) -> Arc<dyn BlockDevice> {
    Arc::new(MemDevice::from_snapshot(image))
}

/// The newest whole checkpoint, if there is a journal that belongs to it.
fn followed(device: &Arc<dyn BlockDevice>, blocks: u64) -> Option<Followed> {
    let area = JournalArea::tail(device.clone(), blocks)?;
    let sb = superblock_in_force(&**device).ok()?.ok()?;
    let packs = [0, 1].into_iter().filter_map(|index| whole_pack(&**device, &sb, index));
    let (cp, header) = packs.max_by_key(|(cp, _)| cp.version)?;
    let raw: &RawCheckpoint = header.view();
    let position = |log| {
        let at = raw.position(log);
        sb.geo.seg_start(at.seg).offset(at.blkoff.into())
    };
    match Journal::open(area, &cp, &**device) {
        Ok(Opened::Usable(replay)) => {
            Some(Followed { replay, positions: LogType::ALL.map(position).to_vec() })
        }
        _ => None,
    }
}

/// A pack whose two ends agree.
fn whole_pack(device: &dyn BlockDevice, sb: &Superblock, index: usize) -> Option<(Checkpoint, Block)> {
    let head = PackHead::read(sb.geo.pack_addr(index), |at| device.block(at)).ok()?.ok()?;
    Some((Checkpoint { volume: sb.raw.uuid, version: head.version(), crc: head.crc }, head.block))
}
