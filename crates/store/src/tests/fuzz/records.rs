//! Records with right checksums.
use crate::fence::epoch::Session;
use crate::fence::owner::{CacheId, Owner};
use crate::ids::{Epoch, LogPlace, Seq};
use crate::log::commit::{self, Marks, Op, Run};
use crate::log::map::{Geometry, Map};
use crate::log::map_record::{decode_map, encode_map};
use crate::log::volume::Volume;
use crate::wire::names::ObjectId;
use crate::{Result, StoreError};
use segno_format::BLOCK_SIZE;
use segno_testkit::Rng;
use segno_testkit::fuzz::{Mutator, Outcome, Target};

const GEOMETRY: Geometry = Geometry { zone_blocks: 64, zones: 5, conventional: 1 };
const ID: [u8; 16] = [9; 16];
const VOLUME: Volume = Volume { id: ID, geometry: GEOMETRY, unfenced: true, marked: true };
/// The place of the map and of commits.
const PLACE: LogPlace = LogPlace::of(2, 9);
/// Bytes of the trailer of an object of the log: magic number, length of the record, inline blocks, checksum.
const TRAILER: usize = 20;
const CRC: usize = 4;
const MAGIC: usize = 8;

/// First byte of an input.
const OBJECT: [&str; 4] = ["volume", "epoch", "map", "log"];

fn seeds() -> Vec<Vec<u8>> {
    let (data, log) = (ObjectId::Data { epoch: Epoch::new(2), number: 1 }, ObjectId::Log(LogPlace::of(2, 4)));
    let run = |zone, start, len, object, offset| Op::Run(Run { zone, start, len, object, offset });
    let ops = [
        Op::Reset(4),
        run(0, 3, 2, log, 0),
        run(2, 0, 64, data, 5),
        run(3, 0, 1, log, 2),
        Op::Finish(3),
        Op::Discard { zone: 0, start: 3, len: 1 },
    ];
    let mut map = Map::new(GEOMETRY);
    map.seals.insert(Epoch::new(1), Seq::new(7));
    assert!(map.apply(&ops, 3));
    let session = Session { volume: ID, id: [2; 16], epoch: PLACE.epoch, marked: true };
    let old = Session { marked: false, ..session };
    let marks = Marks { stored: Seq::new(5), acknowledged: Seq::new(7) };
    let owner = Owner {
        session: [1; 16],
        host: "host".into(),
        boot: "boot".into(),
        pid: 7,
        cache: Some(CacheId { id: [4; 16], path: "/var/cache/segno".into() }),
    };
    let all = [
        (0, VOLUME.encode()),
        (0, Volume { marked: false, ..VOLUME }.encode()),
        (1, owner.encode()),
        (1, Owner { cache: None, ..owner }.encode()),
        (2, encode_map(&map, &ID, PLACE)),
        (3, commit::commit(&session, marks, PLACE.seq, &ops, &[&[5; BLOCK_SIZE]])),
        (3, commit::merged(&session, marks, PLACE.seq, 70_000, &ops)),
        (3, commit::merged(&old, marks, PLACE.seq, 1, &ops)),
        (3, commit::seal(&session, PLACE)),
    ];
    all.map(|(kind, bytes)| [&[kind], &bytes[..]].concat()).to_vec()
}

/// Stores the checksum of a record, and for nearly all inputs its magic number.
fn seal(record: &mut [u8], magic: [u8; MAGIC], rng: &mut Rng) {
    let Some(body) = record.len().checked_sub(CRC).filter(|&body| body > MAGIC) else { return };
    if !rng.one_in(50) {
        record[..MAGIC].copy_from_slice(&magic);
    }
    let crc = crc32c::crc32c(&record[..body]);
    record[body..].copy_from_slice(&crc.to_le_bytes());
}

fn fix_checksums(input: &mut [u8], rng: &mut Rng) {
    let Some((kind, bytes)) = input.split_first_mut() else { return };
    match kind {
        0 if rng.one_in(3) => seal(bytes, *b"SEGNOVO1", rng),
        0 => seal(bytes, *b"SEGNOVO2", rng),
        1 => seal(bytes, *b"SEGNOEP1", rng),
        2 => seal(bytes, *b"SEGNOMP1", rng),
        _ => {
            let Some(end) = bytes.len().checked_sub(TRAILER) else { return };
            let (rest, trailer) = bytes.split_at_mut(end);
            let original = commit::seal(
                &Session { volume: ID, id: ID, epoch: Epoch::new(1), marked: true },
                LogPlace::of(1, 1),
            );
            let magic = |at: usize| original[at..at + MAGIC].try_into().unwrap();
            let len = u32::from_le_bytes(trailer[MAGIC..MAGIC + 4].try_into().unwrap()) as usize;
            if let Some(at) = rest.len().checked_sub(len) {
                seal(&mut rest[at..], magic(0), rng);
            }
            seal(trailer, magic(original.len() - TRAILER), rng);
        }
    }
}

/// Encoding a decoded record gives the same bytes, or the same value for maps and for texts with replaced
/// characters.
fn decode(kind: u8, bytes: &[u8]) -> Result<Result<(), String>> {
    let same = |is_same| if is_same { Ok(()) } else { Err(format!("the record {kind} is read as another")) };
    Ok(match kind {
        0 => {
            let volume = Volume::decode(bytes)?;
            let flags_are_exact = bytes.iter().rev().nth(CRC).is_some_and(|b| *b < 2);
            same(!flags_are_exact || volume.encode() == bytes)
        }
        1 => {
            let owner = Owner::decode(PLACE.epoch, bytes)?;
            let again = Owner::decode(PLACE.epoch, &owner.encode())?;
            same(owner == again && !format!("{} {}", owner.host, owner.boot).contains(char::is_control))
        }
        2 => {
            let map = decode_map(&VOLUME, PLACE, bytes)?;
            let once = encode_map(&map, &ID, PLACE);
            let again = decode_map(&VOLUME, PLACE, &once)?;
            same(encode_map(&again, &ID, PLACE) == once)
        }
        _ => {
            let record = commit::read(&ID, PLACE, bytes)?;
            let mut map = Map::new(GEOMETRY);
            if let commit::Entry::Commit { ops, .. } = &record.entry
                && map.apply(ops, record.inline as u16)
            {
                let bytes = encode_map(&map, &ID, PLACE);
                decode_map(&VOLUME, PLACE, &bytes)?;
            }
            same(commit::read(&ID, PLACE, bytes)? == record)
        }
    })
}

fn record(input: &[u8]) -> Outcome {
    let Some((kind, bytes)) = input.split_first() else { return Ok(false) };
    let first_checks = ["magic number", "checksum", "it is too short", "another length"];
    match decode(*kind, bytes) {
        Ok(same) => same.map(|()| true),
        Err(StoreError::Corrupt { object, why }) if object.starts_with(OBJECT[usize::from(*kind).min(3)]) => {
            Ok(!first_checks.iter().any(|check| why.contains(check)))
        }
        Err(other) => Err(format!("{other}")),
    }
}

#[test]
fn fuzz_records() {
    let mutator = Mutator {
        seeds: seeds(),
        kept: 1,
        resized: 5,
        fixup: &|input, rng| fix_checksums(input, rng),
        ..Mutator::default()
    };
    let target = Target {
        name: "records",
        runs: 3_000,
        draw: &|rng| mutator.draw(rng),
        run: &|i: &Vec<u8>| record(i),
    };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}
