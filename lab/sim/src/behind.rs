//! The journal of a volume, read without the engine.
use crate::devices::Opened;
use crate::setup::Setup;
use segno_device::{BlockDevice, MemDevice, Snapshot, Zone, ZoneKind};
use segno_engine::JournalArea;
use segno_format::checkpoint::RawCheckpoint;
use segno_format::pack::PackHead;
use segno_format::sit::LogType;
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Block, BlockAddr};
use segno_journal::{Checkpoint, Journal, Record, Replay, Section};
use segno_layout::superblock_in_force;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// Written by another implementation, which does not support the journal.
const FOREIGN: Block = Block([0x5A; BLOCK_SIZE]);

/// A checkpoint whose journal would be replayed.
struct Followed {
    replay: Box<Replay>,
    /// Positions of its logs.
    positions: Vec<BlockAddr>,
}

/// The records that a mount would replay from the journal of a volume.
#[must_use]
pub fn records(setup: &Setup, image: &Snapshot) -> u64 {
    let count =
        |followed: Followed| -> u64 { followed.sections().map(|section| section.records.len() as u64).sum() };
    opened(setup, image).ok().and_then(|opened| followed(&opened)).map_or(0, count)
}

/// A journal that would be replayed has no effect once another implementation has written to the volume.
pub fn notices_foreign_writes(setup: &Setup, image: &Snapshot) -> Result<(), String> {
    let volume = opened(setup, image)?;
    let Some(before) = followed(&volume).filter(|f| !f.replay.accepted().is_empty()) else { return Ok(()) };
    for write in before.foreign_writes(&*volume.volume)? {
        let changed = opened(setup, image)?;
        write.make(&*changed.volume).map_err(|e| format!("{write:?}: {e}"))?;
        if followed(&changed).is_some_and(|f| !f.replay.accepted().is_empty()) {
            return Err(format!("the journal counts after another implementation did {write:?}"));
        }
    }
    Ok(())
}

/// A write by another implementation that mounts a volume. It writes at the position of a log, or into an
/// empty zone if a zone is not written up to that position. Before that it resets zones that hold nothing of
/// the checkpoint.
#[derive(Clone, Copy, Debug)]
enum Foreign {
    Write(u64),
    Reset(u64),
}

impl Foreign {
    fn make(self, device: &dyn BlockDevice) -> io::Result<()> {
        match self {
            Self::Write(at) => device.write(at, &[&FOREIGN]),
            Self::Reset(zone) => device.reset_zone(zone),
        }
    }
}

impl Followed {
    fn sections(&self) -> impl Iterator<Item = Section> + '_ {
        self.replay.groups().flatten().flat_map(|group| group.sections)
    }

    fn foreign_writes(&self, device: &dyn BlockDevice) -> Result<Vec<Foreign>, String> {
        let zones = device.zones().map_err(|e| e.to_string())?;
        let zones: Vec<&Zone> = zones.iter().filter(|zone| zone.kind == ZoneKind::Sequential).collect();
        let zone_of =
            |at: u64| zones.iter().find(|zone| (zone.start..zone.start + zone.blocks).contains(&at));
        let positions = self.positions.iter().map(|at| u64::from(at.0));
        let writable = positions.clone().filter(|&at| zone_of(at).is_none_or(|zone| zone.pointer == at));
        let logs: BTreeSet<u64> = positions.clone().filter_map(|at| Some(zone_of(at)?.start)).collect();
        let is_empty = |zone: &&&Zone| zone.pointer == zone.start && !logs.contains(&zone.start);
        let empty = zones.iter().find(is_empty).map(|zone| zone.start);
        let mut all: Vec<_> = writable.chain(empty).map(Foreign::Write).collect();
        let runs = self.sections().flat_map(|section| section.records).flat_map(|record| match record {
            Record::Map(mapping) | Record::Packed(mapping) => mapping.runs,
            _ => Vec::new(),
        });
        let ends = runs.flat_map(|run| [run.addr, run.addr.offset(run.count.saturating_sub(1))]);
        let entered: BTreeSet<u64> = ends.filter_map(|at| Some(zone_of(at.0.into())?.start)).collect();
        all.extend(entered.difference(&logs).map(|&zone| Foreign::Reset(zone)));
        Ok(all)
    }
}

fn opened(setup: &Setup, image: &Snapshot) -> Result<Opened, String> {
    setup.devices.open(&(Arc::new(MemDevice::from_snapshot(image)) as _)).map_err(|e| e.to_string())
}

/// The newest whole checkpoint, if there is a journal that belongs to it.
fn followed(opened: &Opened) -> Option<Followed> {
    let device = &opened.volume;
    let sb = superblock_in_force(&**device).ok()?.ok()?;
    let area = match &opened.journal {
        Some(journal) => JournalArea::whole(journal.clone()),
        None => JournalArea::tail(device.clone(), sb.geo.block_count)?,
    };
    let packs = [0, 1].map(|index| whole_pack(&**device, &sb, index));
    let is_first = packs.iter().flatten().any(|pack| pack.version() == 0);
    let head = packs.into_iter().flatten().max_by_key(PackHead::version)?;
    let cp = Checkpoint { volume: sb.raw.uuid, version: head.version(), crc: head.crc, is_first };
    let raw: &RawCheckpoint = head.cp();
    let position = |log| {
        let at = raw.position(log);
        sb.geo.seg_start(at.seg).offset(at.blkoff.into())
    };
    match Journal::open(area, &cp, &**device) {
        Ok(segno_journal::Opened::Usable(replay)) => {
            Some(Followed { replay, positions: LogType::ALL.map(position).to_vec() })
        }
        _ => None,
    }
}

/// A pack whose two ends agree.
fn whole_pack(device: &dyn BlockDevice, sb: &Superblock, index: usize) -> Option<PackHead> {
    PackHead::read(sb.geo.pack_addr(index), |at| device.block(at)).ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Fs;
    use crate::setup;
    use segno_engine::Owner;

    /// Another implementation writes to a volume on zones: it continues at a position, opens a zone, and
    /// resets one with new data.
    #[test]
    fn each_way_of_writing_to_zones_is_tried() {
        for name in ["zonedjournal", "zonedbeside"] {
            let setup = setup::chosen(Some(name), 0).unwrap();
            let memory = Arc::new(MemDevice::from_snapshot(&setup.base));
            let mut mounted = setup.mount(memory.clone(), 2).unwrap();
            let root = mounted.root();
            let file = mounted.mknod(root, b"file", 0o100_644, (0, 0), Owner::default()).unwrap();
            // More than a zone.
            for at in 0..80 {
                mounted.write(file, at << 15, &[7; 1 << 15]).unwrap();
            }
            mounted.fsync(file, false).unwrap();
            mounted.fsync(file, false).unwrap();
            let image = memory.snapshot();
            assert!(records(&setup, &image) > 0);
            let volume = opened(&setup, &image).unwrap();
            let writes = followed(&volume).unwrap().foreign_writes(&*volume.volume).unwrap();
            println!("{name}: {writes:?}");
            let resets = writes.iter().filter(|write| matches!(write, Foreign::Reset(_))).count();
            assert!(resets > 0 && writes.len() - resets > 3, "{writes:?}");
            notices_foreign_writes(&setup, &image).unwrap();
        }
    }
}
