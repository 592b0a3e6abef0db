//! Inputs of fuzz targets: small volumes with changed fields, and external journals with changed bytes.
use super::edit::Image;
use super::ring::Ring;
use super::{base, draw, find, salvage, trial};
use segno_device::{BlockDevice, MemDevice};
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Ino};
use segno_journal::record::{Mapping, Run};
use segno_journal::{Area, Checkpoint, Group, Journal, Kind, Opened, Record, Section};
use segno_testkit::Rng;
use segno_testkit::fuzz::{Input, Outcome};
use std::sync::Arc;

/// A small volume with changes.
pub fn draw(rng: &mut Rng) -> Result<Image, String> {
    draw::image(base::small()?, rng.draw(), 0).ok_or_else(|| "no volumes".into())
}

/// Checks, mounts, reads, changes, checks and mounts again.
pub fn open(image: &Image) -> Outcome {
    trial::run(find(&image.base)?, image).map(|outcome| outcome.checked)
}

/// Searches for files, live and deleted, and shows the structures.
pub fn search(image: &Image) -> Outcome {
    salvage::run(find(&image.base)?, image).map(|found| found.names > 0)
}

impl Input for Image {
    fn smaller(&self) -> Vec<Self> {
        let without = |i| {
            let mut less = self.clone();
            less.edits.remove(i);
            less
        };
        (0..self.edits.len()).map(without).collect()
    }

    fn stored(&self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

const JOURNAL: u64 = 64;
const CHECKPOINT: Checkpoint = Checkpoint { volume: [7; 16], version: 1, crc: 0xC0DE, is_first: false };

/// The bytes of a journal with groups of several kinds, without the zeros after it.
pub fn journal() -> Result<Vec<u8>, String> {
    let device = Arc::new(MemDevice::new(JOURNAL));
    let text = |e: segno_journal::Error| e.to_string();
    let space = Area::whole(device.clone()).vacant(&CHECKPOINT.volume).map_err(text)?;
    let journal = Journal::create(space, &CHECKPOINT, [9; 16]).map_err(text)?;
    for epoch in 1..5 {
        journal.append(&group(epoch)).map_err(text)?;
    }
    journal.flush().map_err(text)?;
    let blocks = device.filled().last().map_or(0, |last| last + 1);
    let mut bytes = Vec::new();
    for addr in 0..blocks {
        let mut one = [Block::zeroed()];
        device.read(addr, &mut one).map_err(|e| e.to_string())?;
        bytes.extend_from_slice(&one[0].0);
    }
    Ok(bytes)
}

fn group(epoch: u64) -> Group {
    let name: Box<[u8]> = (*b"name").into();
    let mapping =
        Mapping { runs: vec![Run { page: 3, addr: BlockAddr(9), count: 2 }], crcs: Vec::new(), moved: false };
    let records = vec![
        Record::DentryAdd { ino: Ino(9), file_type: 1, hash: None, primary: true, name: name.clone() },
        Record::DentryDel { ino: Ino(9), hash: Some(5), name: name.clone() },
        Record::XattrSet { index: 1, name, value: vec![5; 400 * epoch as usize].into() },
        Record::Map(mapping),
        Record::Truncate { size: 1 << 20 },
        Record::Reserve { page: 5, count: 9 },
        Record::InlineData { offset: 3, bytes: vec![1; 40].into() },
        Record::Nlink(2),
    ];
    let kind = if epoch.is_multiple_of(2) { Kind::Epoch } else { Kind::Fsync };
    let second = Section { ino: Ino(5), epoch, records: vec![Record::InodeFree] };
    Group { kind, epoch, sections: vec![Section { ino: Ino(4), epoch, records }, second] }
}

/// Opens a journal after its checksums are corrected. Two opens give the same result, and records read in
/// place equal the copied ones.
pub fn read_journal(bytes: &[u8]) -> Outcome {
    let device = MemDevice::new(JOURNAL);
    for (addr, chunk) in (0..JOURNAL).zip(bytes.chunks(BLOCK_SIZE)) {
        let mut block = Block::zeroed();
        block.0.iter_mut().zip(chunk).for_each(|(b, c)| *b = *c);
        device.write(addr, &[&block]).map_err(|e| e.to_string())?;
    }
    let ring = Ring::behind(&device, 0).ok_or("no room for a ring")?;
    ring.seal(&device).map_err(|e| e.to_string())?;
    let device = Arc::new(device);
    let data = MemDevice::new(16);
    let open = || Journal::open(Area::whole(device.clone()), &CHECKPOINT, &data);
    let Ok(opened) = open() else { return Ok(false) };
    let Opened::Usable(replay) = opened else { return Ok(true) };
    let in_place = replay.payloads().map(|p| p.and_then(|p| p.group()));
    let is_same = |both| match both {
        (Ok(one), Ok(other)) => one == other,
        (Err(_), Err(_)) => true,
        _ => false,
    };
    if !replay.groups().zip(in_place).all(is_same) {
        return Err("the groups in place are others than the copied ones".into());
    }
    match open().map_err(|e| e.to_string())? {
        Opened::Usable(again) if again.accepted() == replay.accepted() => Ok(true),
        _ => Err("opened again, it has other groups".into()),
    }
}
