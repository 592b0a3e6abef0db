//! A volume that is only a checkpoint number, and groups that identify themselves.
use segno_device::{BlockDevice, MemDevice};
use segno_format::{Block, BlockAddr, Ino};
use segno_journal::record::{Mapping, Run};
use segno_journal::{
    Area, Canary, Checkpoint, CpIntent, Group, Journal, Kind, Opened, Record, Replay, Section, Stale,
};
use std::sync::Arc;

pub fn checkpoint(version: u64) -> Checkpoint {
    Checkpoint { volume: [7; 16], version, crc: 0xC0DE + version as u32, is_first: false }
}

pub fn intent(version: u64, boundary: u64) -> CpIntent {
    CpIntent { version, crc: checkpoint(version).crc, boundary, canaries: Vec::new() }
}

pub fn device(blocks: u64) -> Arc<MemDevice> {
    Arc::new(MemDevice::new(blocks))
}

pub fn create(dev: &Arc<MemDevice>) -> Journal {
    let space = Area::whole(dev.clone()).vacant(&checkpoint(1).volume).unwrap();
    Journal::create(space, &checkpoint(1), [9; 16]).unwrap()
}

/// A group of about `blocks` blocks of one epoch.
pub fn group(epoch: u64, blocks: usize) -> Group {
    tagged(epoch, blocks, 0)
}

/// A group with a tag that identifies its writer.
pub fn tagged(epoch: u64, blocks: usize, tag: i32) -> Group {
    let value: Box<[u8]> = vec![epoch as u8; 4000].into();
    let xattr = |i: usize| Record::XattrSet {
        index: 1,
        name: (*format!("{epoch}.{i}").as_bytes()).into(),
        value: value.clone(),
    };
    let mut records: Vec<Record> = (1..blocks).map(xattr).collect();
    records.push(Record::Nlink(tag));
    Group { kind: Kind::Epoch, epoch, sections: vec![Section { ino: Ino(4), epoch, records }] }
}

/// A group that maps one block, whose checksum it has.
pub fn mapping(epoch: u64, addr: u32, content: &Block) -> Group {
    let runs = vec![Run { page: 0, addr: BlockAddr(addr), count: 1 }];
    let mapping = Mapping { runs, crcs: vec![segno_journal::data_crc(content)], moved: false };
    let section = Section { ino: Ino(4), epoch, records: vec![Record::Map(mapping)] };
    Group { kind: Kind::Fsync, epoch, sections: vec![section] }
}

pub fn canary(data: &dyn BlockDevice, addr: u32) -> Canary {
    Canary::of(data, BlockAddr(addr)).unwrap()
}

pub fn open(dev: &Arc<MemDevice>, version: u64) -> Opened {
    let data = MemDevice::new(8);
    Journal::open(Area::whole(dev.clone()), &checkpoint(version), &data).unwrap()
}

pub fn replay(opened: Opened) -> Replay {
    match opened {
        Opened::Usable(replay) => *replay,
        Opened::Stale(why) => panic!("stale: {why}"),
    }
}

pub fn stale(opened: Opened) -> Stale {
    match opened {
        Opened::Stale(why) => why,
        Opened::Usable(_) => panic!("not stale"),
    }
}

/// The epochs that count with the tags of their groups.
pub fn tags(replay: &Replay) -> Vec<(u64, i32)> {
    let tag = |g: Group| match g.sections[0].records.last() {
        Some(Record::Nlink(tag)) => (g.epoch, *tag),
        other => panic!("{other:?}"),
    };
    replay.groups().map(|g| tag(g.unwrap())).collect()
}

/// The groups that count, joined where one needed several parts.
pub fn epochs(replay: &Replay) -> Vec<u64> {
    let mut out: Vec<u64> = replay.groups().map(|g| g.unwrap().epoch).collect();
    out.dedup();
    out
}
