//! Volumes with zones: positions, stamps and write pointers show which implementation wrote there.
use crate::rig::{checkpoint, create, device, epochs, intent, mapping, replay, stale};
use segno_device::{BlockDevice, MemDevice, ZoneLimits};
use segno_format::{Block, BlockAddr};
use segno_journal::{Area, Canary, CpIntent, Journal, Lost, Opened, Stale, data_crc};
use segno_testkit::{ZoneShape, ZonedDevice};
use std::sync::Arc;

const ZONE: u32 = 8;
const SHAPE: ZoneShape = ZoneShape {
    zones: 8,
    conventional: 1,
    blocks: ZONE as u64,
    capacity: ZONE as u64,
    limits: ZoneLimits { open: 0, active: 0 },
};
const CONTENT: Block = Block([3; 4096]);

/// A volume whose log is in the zone after the conventional one, at a position, with a journal that has a
/// group after the checkpoint.
struct Volume {
    data: ZonedDevice,
    journal: Arc<MemDevice>,
    stamp: Block,
}

impl Volume {
    fn new(position: u32, mapped: Option<u32>, flushed: bool) -> Self {
        let (data, journal) = (ZonedDevice::new(SHAPE), device(64));
        let open = create(&journal);
        let stamp = open.stamp();
        (ZONE..position).for_each(|at| data.write(at.into(), &[&CONTENT]).unwrap());
        let canaries = vec![Canary { addr: BlockAddr(position), crc: data_crc(&stamp) }];
        open.intend(CpIntent { canaries, ..intent(2, 0) }).unwrap();
        let volume = Self { data, journal, stamp };
        open.append(&mapping(1, mapped.unwrap_or(0), &CONTENT)).unwrap();
        if flushed {
            open.flush().unwrap();
            open.append(&mapping(2, 0, &CONTENT)).unwrap();
        }
        volume.data.write(0, &[&CONTENT]).unwrap();
        volume
    }

    fn write(&self, at: u32, block: &Block) {
        self.data.write(at.into(), &[block]).unwrap();
    }

    fn open(&self) -> Opened {
        Journal::open(Area::whole(self.journal.clone()), &checkpoint(2), &self.data).unwrap()
    }

    fn counts(&self) {
        assert_eq!(epochs(&replay(self.open())), [1]);
    }

    fn is_foreign_at(&self, at: u32) {
        let lost = Lost { records: 1, inodes: 1 };
        assert_eq!(stale(self.open()), Stale::ForeignWrite { at: BlockAddr(at), lost });
    }
}

#[test]
fn a_zone_is_written_up_to_the_position_or_goes_on_with_the_stamp() {
    let at = ZONE + 3;
    let volume = Volume::new(at, None, false);
    volume.counts();
    let stamp = volume.stamp.clone();
    volume.write(at, &stamp);
    volume.counts();
    volume.write(at + 1, &CONTENT);
    volume.counts();
    let other = Volume::new(at, None, false);
    other.write(at, &CONTENT);
    other.is_foreign_at(at);
    let reset = Volume::new(at, None, false);
    reset.data.reset_zone(ZONE.into()).unwrap();
    reset.is_foreign_at(at);
}

/// A log continues in the last block of its zone, whichever implementation writes.
#[test]
fn the_last_block_of_a_zone_tells_nothing() {
    let volume = Volume::new(2 * ZONE - 1, None, false);
    volume.write(2 * ZONE - 1, &CONTENT);
    volume.counts();
}

#[test]
fn another_zone_is_full_or_begins_with_the_stamp() {
    let opened = |blocks: u32, stamped: bool| {
        let volume = Volume::new(ZONE + 3, None, false);
        for n in 0..blocks {
            let first = stamped && n == 0;
            volume.write(3 * ZONE + n, if first { &volume.stamp } else { &CONTENT });
        }
        volume
    };
    (0..=ZONE).for_each(|blocks| opened(blocks, true).counts());
    (1..ZONE).for_each(|blocks| opened(blocks, false).is_foreign_at(3 * ZONE));
    opened(ZONE, false).counts();
}

#[test]
fn durable_data_that_a_zone_has_not_was_reset() {
    let mapped = 3 * ZONE + 1;
    for flushed in [false, true] {
        let volume = Volume::new(ZONE + 3, Some(mapped), flushed);
        let stamp = volume.stamp.clone();
        volume.write(3 * ZONE, &stamp);
        volume.write(mapped, &CONTENT);
        assert_eq!(epochs(&replay(volume.open())), if flushed { vec![1, 2] } else { vec![1] });
        volume.data.reset_zone((3 * ZONE).into()).unwrap();
        match volume.open() {
            Opened::Stale(why) => {
                let lost = Lost { records: 2, inodes: 1 };
                assert!(flushed && why == Stale::ForeignWrite { at: BlockAddr(mapped), lost }, "{why}");
            }
            // The flush that was to cover group and data did not return.
            Opened::Usable(replay) => assert!(!flushed && replay.accepted().is_empty()),
        }
    }
}
