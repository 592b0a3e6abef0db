//! Commits and seals, the objects of the log.
//!
//! A commit's object begins with its inline blocks, encoded as pieces like those of any object, so that they
//! are read in the same way. The record after them has the changes in order. The trailer has the length of both;
//! it comes last, so a truncated object has none.
use crate::fence::epoch::Session;
use crate::ids::{Epoch, LogPlace, Seq};
use crate::wire::codec::{Decoder, Encoder, bytes_of};
use crate::wire::names::{Name, ObjectId};
use crate::wire::pieces;
use crate::{Result, StoreError};
use bytes::Bytes;

const RECORD: &[u8; 8] = b"SEGNOLG1";
const TRAILER: &[u8; 8] = b"SEGNOLGE";
/// Magic, length of the record, inline blocks, checksum.
const TRAILER_BYTES: usize = 8 + 4 + 4 + 4;

/// Objects of the log that a writer has in flight. Up to one less may follow an object that was not stored.
pub(crate) const WINDOW: u64 = 4;

/// Kinds of records. Volumes without marks use the first and the third, others the last; seals are the same
/// in both.
const COMMIT: u8 = 0;
const SEAL: u8 = 1;
const MERGED: u8 = 2;
const MARKED: u8 = 3;

/// Commits of the same epoch that were durable when an object of the log was made. If one of them is missing
/// later, it was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// All commits up to this one were in the store.
    pub stored: Seq,
    /// All commits up to this one were acknowledged: they were in the store or in the local cache.
    pub acknowledged: Seq,
}

/// An object of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Session of its writer.
    pub session: [u8; 16],
    pub marks: Marks,
    pub entry: Entry,
    /// Inline blocks.
    pub inline: u32,
}

/// Blocks of a zone that are in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub zone: u32,
    pub start: u16,
    pub len: u16,
    pub object: ObjectId,
    /// First block in the object.
    pub offset: u16,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Run(Run),
    Reset(u32),
    Finish(u32),
    Discard { zone: u32, start: u16, len: u16 },
}

/// Content of an object of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Commit {
        ops: Vec<Op>,
        /// Places of the log that it takes; the next object follows them.
        places: u32,
    },
    /// Ends the epoch. Written by the owner of this epoch, or by a later one.
    Seal { by: Epoch },
}

/// The object of a commit. `inline` has its inline blocks, and may be empty.
pub(crate) fn commit(session: &Session, marks: Marks, seq: Seq, ops: &[Op], inline: &[&[u8]]) -> Bytes {
    object(session, marks, seq, 1, ops, inline)
}

/// One object for several commits, which takes `places` places from `seq` on. It has no inline blocks.
pub(crate) fn merged(session: &Session, marks: Marks, seq: Seq, places: u32, ops: &[Op]) -> Bytes {
    object(session, marks, seq, places, ops, &[])
}

fn object(session: &Session, marks: Marks, seq: Seq, places: u32, ops: &[Op], inline: &[&[u8]]) -> Bytes {
    let place = session.place(seq);
    let blocks = inline.iter().map(|p| p.len()).sum::<usize>() / segno_format::BLOCK_SIZE;
    let mut out = Vec::with_capacity(pieces::encoded_len(blocks as u32) + 64 + ops.len() * 28);
    pieces::encode(&session.volume, ObjectId::Log(place), inline, &mut out);
    let mut record = Encoder::new(RECORD);
    let kind = match places {
        _ if session.marked => MARKED,
        1 => COMMIT,
        _ => MERGED,
    };
    header(&mut record, session, place, kind);
    if kind != COMMIT {
        record.u32(places);
    }
    if kind == MARKED {
        record.seq(marks.stored);
        record.seq(marks.acknowledged);
    }
    record.u32(ops.len() as u32);
    ops.iter().for_each(|op| put_op(&mut record, op));
    close(out, record, blocks as u32)
}

/// A seal that this session writes to end an epoch.
pub(crate) fn seal(by: &Session, place: LogPlace) -> Bytes {
    let mut record = Encoder::new(RECORD);
    header(&mut record, by, place, SEAL);
    record.epoch(by.epoch);
    close(Vec::new(), record, 0)
}

fn header(record: &mut Encoder, session: &Session, place: LogPlace, kind: u8) {
    record.raw(&session.volume);
    record.raw(&session.id);
    record.place(place);
    record.u8(kind);
}

fn put_op(record: &mut Encoder, op: &Op) {
    let (kind, zone, start, len) = match *op {
        Op::Run(Run { zone, start, len, object, .. }) => (object.numbers().0, zone, start, len),
        Op::Reset(zone) => (2, zone, 0, 0),
        Op::Finish(zone) => (3, zone, 0, 0),
        Op::Discard { zone, start, len } => (4, zone, start, len),
    };
    record.u8(kind);
    record.u32(zone);
    record.u16(start);
    record.u16(len);
    if let Op::Run(run) = op {
        record.place(run.object.numbers().1);
        record.u16(run.offset);
    }
}

fn close(mut out: Vec<u8>, record: Encoder, blocks: u32) -> Bytes {
    let record = record.finish();
    let mut trailer = Encoder::new(TRAILER);
    trailer.u32(record.len() as u32);
    trailer.u32(blocks);
    out.extend_from_slice(&record);
    out.extend_from_slice(&bytes_of(trailer));
    out.into()
}

/// Reads an object of the log.
pub(crate) fn read(volume: &[u8; 16], place: LogPlace, bytes: &[u8]) -> Result<Record> {
    let name = Name::log(place);
    let bad = |why| StoreError::corrupt(name, why);
    let (rest, trailer) = bytes
        .len()
        .checked_sub(TRAILER_BYTES)
        .and_then(|at| bytes.split_at_checked(at))
        .ok_or(bad("it is too short"))?;
    let mut trailer = Decoder::new(name, TRAILER, trailer)?;
    let (len, blocks) = (trailer.u32()? as usize, trailer.u32()?);
    trailer.end()?;
    let (inline, record) =
        rest.len().checked_sub(len).and_then(|at| rest.split_at_checked(at)).ok_or(bad("it is too short"))?;
    if inline.len() != pieces::encoded_len(blocks) {
        return Err(bad("its inline blocks have another length"));
    }
    let mut record = Decoder::new(name, RECORD, record)?;
    if record.array::<16>()? != *volume {
        return Err(bad("it belongs to another volume"));
    }
    let session = record.array::<16>()?;
    if record.place()? != place {
        return Err(bad("it belongs to another place of the log"));
    }
    let (marks, entry) = entry(&mut record, place.seq)?;
    record.end()?;
    Ok(Record { session, marks, entry, inline: blocks })
}

fn entry(record: &mut Decoder<'_>, seq: Seq) -> Result<(Marks, Entry)> {
    let kind = record.u8()?;
    if kind == SEAL {
        // It follows all commits of the epoch.
        let marks = Marks { stored: seq.previous(), acknowledged: Seq::NONE };
        return Ok((marks, Entry::Seal { by: record.epoch()? }));
    }
    let places = match kind {
        COMMIT => 1,
        MERGED | MARKED => record.u32()?,
        _ => return Err(record.bad("unknown kind")),
    };
    if places == 0 || seq.after(places).is_err() {
        return Err(record.bad("it takes no place, or too many"));
    }
    let marks = match kind {
        MARKED => Marks { stored: record.seq()?, acknowledged: record.seq()? },
        _ => Marks::default(),
    };
    if marks.stored.max(marks.acknowledged) >= seq {
        return Err(record.bad("it marks itself as durable"));
    }
    Ok((marks, Entry::Commit { places, ops: ops(record)? }))
}

fn ops(record: &mut Decoder<'_>) -> Result<Vec<Op>> {
    let count = record.count(9)?;
    (0..count).map(|_| op(record)).collect()
}

fn op(record: &mut Decoder<'_>) -> Result<Op> {
    let (kind, zone, start, len) = (record.u8()?, record.u32()?, record.u16()?, record.u16()?);
    Ok(match kind {
        0 | 1 => {
            let (place, offset) = (record.place()?, record.u16()?);
            let object =
                ObjectId::of_numbers(kind, place).ok_or_else(|| record.bad("unknown kind of object"))?;
            if offset.checked_add(len).is_none() || len == 0 {
                return Err(record.bad("a run beyond the largest object"));
            }
            Op::Run(Run { zone, start, len, object, offset })
        }
        2 => Op::Reset(zone),
        3 => Op::Finish(zone),
        4 => Op::Discard { zone, start, len },
        _ => return Err(record.bad("unknown change")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_format::BLOCK_SIZE;

    fn session() -> Session {
        Session { volume: [1; 16], id: [2; 16], epoch: Epoch::new(3), marked: true }
    }

    const MARKS: Marks = Marks { stored: Seq::new(5), acknowledged: Seq::new(7) };

    fn example() -> (Vec<Op>, Bytes) {
        let object = ObjectId::Log(LogPlace::of(3, 9));
        let ops = vec![
            Op::Reset(4),
            Op::Run(Run { zone: 4, start: 0, len: 2, object, offset: 1 }),
            Op::Run(Run {
                zone: 5,
                start: 7,
                len: 3,
                object: ObjectId::Data { epoch: Epoch::new(2), number: 8 },
                offset: 100,
            }),
            Op::Finish(6),
            Op::Discard { zone: 0, start: 1, len: 2 },
        ];
        let bytes = commit(&session(), MARKS, Seq::new(9), &ops, &[&[5; 3 * BLOCK_SIZE]]);
        (ops, bytes)
    }

    #[test]
    fn commits_and_seals_are_read_back() {
        let (ops, bytes) = example();
        let record = |marks, places, inline| {
            let entry = Entry::Commit { ops: ops.clone(), places };
            Record { session: [2; 16], marks, entry, inline }
        };
        assert_eq!(read(&[1; 16], LogPlace::of(3, 9), &bytes).unwrap(), record(MARKS, 1, 3));
        let several = merged(&session(), MARKS, Seq::new(9), 70_000, &ops);
        assert_eq!(read(&[1; 16], LogPlace::of(3, 9), &several).unwrap(), record(MARKS, 70_000, 0));
        // Volumes of earlier versions.
        let old = Session { marked: false, ..session() };
        for places in [1, 70_000] {
            let bytes = merged(&old, MARKS, Seq::new(9), places, &ops);
            assert_eq!(
                read(&[1; 16], LogPlace::of(3, 9), &bytes).unwrap(),
                record(Marks::default(), places, 0)
            );
        }
        for session in [session(), old] {
            assert!(
                read(&[1; 16], LogPlace::of(3, 9), &merged(&session, MARKS, Seq::new(9), 0, &[])).is_err()
            );
            assert!(
                read(&[1; 16], LogPlace::of(3, u64::MAX), &merged(&session, MARKS, Seq::MAX, 2, &[]))
                    .is_err()
            );
        }
        let ahead = Marks { stored: Seq::new(0), acknowledged: Seq::new(9) };
        assert!(
            read(&[1; 16], LogPlace::of(3, 9), &commit(&session(), ahead, Seq::new(9), &[], &[])).is_err()
        );
        let sealed = seal(&session(), LogPlace::of(2, 11));
        let marks = Marks { stored: Seq::new(10), acknowledged: Seq::new(0) };
        let expected =
            Record { session: [2; 16], marks, entry: Entry::Seal { by: Epoch::new(3) }, inline: 0 };
        assert_eq!(read(&[1; 16], LogPlace::of(2, 11), &sealed).unwrap(), expected);
        for (volume, epoch, seq) in [([0; 16], 3, 9), ([1; 16], 2, 9), ([1; 16], 3, 8)] {
            assert!(read(&volume, LogPlace::of(epoch, seq), &bytes).is_err());
        }
    }

    #[test]
    fn no_part_and_no_altered_record_passes() {
        let (_, bytes) = example();
        for len in 0..bytes.len() {
            assert!(read(&[1; 16], LogPlace::of(3, 9), &bytes[..len]).is_err(), "{len}");
        }
        for at in pieces::encoded_len(3)..bytes.len() {
            let mut bad = bytes.to_vec();
            bad[at] ^= 1 << (at % 8);
            assert!(read(&[1; 16], LogPlace::of(3, 9), &bad).is_err(), "{at}");
        }
    }
}
