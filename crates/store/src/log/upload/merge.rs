//! Merges commits that wait for the store into one object of the log. Their inline blocks go into a data
//! object, as objects never change: caches may have blocks of the first commit under the name of its place.
use crate::fence::epoch::Session;
use crate::ids::Seq;
use crate::log::commit::{self, Entry, Marks, Op, Record, Run};
use crate::wire::names::{Name, ObjectId};
use crate::wire::pieces;
use crate::{Result, StoreError};
use bytes::Bytes;
use segno_format::BLOCK_SIZE;
use std::collections::HashMap;

/// Several commits.
pub(crate) struct Merged {
    /// The object with all inline blocks, if there are any.
    pub data: Option<Bytes>,
    pub commit: Bytes,
    /// Where the inline blocks of each begin in that object.
    pub bases: HashMap<ObjectId, u16>,
}

/// Merges the objects of consecutive commits; `data` is the name of the object for their blocks.
pub(crate) fn merge(
    session: &Session,
    marks: Marks,
    data: ObjectId,
    commits: &[(Seq, Bytes)],
) -> Result<Merged> {
    let (mut ops, mut blocks, mut bases) = (Vec::new(), Vec::new(), HashMap::new());
    for (seq, bytes) in commits {
        let place = session.place(*seq);
        let id = ObjectId::Log(place);
        let bad = || StoreError::corrupt(Name::Object(id), "its content is not what was written");
        let Record { entry, inline, .. } = commit::read(&session.volume, place, bytes)?;
        let Entry::Commit { ops: own, places: 1 } = entry else { return Err(bad()) };
        let base = u16::try_from(blocks.len() / BLOCK_SIZE).map_err(|_| bad())?;
        base.checked_add(inline as u16).ok_or_else(bad)?;
        let pieces = bytes.slice(..pieces::encoded_len(inline));
        let pieces = pieces::decode(&session.volume, id, 0, &pieces).ok_or_else(bad)?;
        pieces.iter().for_each(|piece| blocks.extend_from_slice(piece));
        ops.extend(own.into_iter().map(|op| moved(op, id, data, base)));
        bases.insert(id, base);
    }
    let first = commits.first().map_or(Seq::FIRST, |(seq, _)| *seq);
    let commit = commit::merged(session, marks, first, commits.len() as u32, &ops);
    let data = (!blocks.is_empty()).then(|| {
        let mut out = Vec::with_capacity(pieces::encoded_len((blocks.len() / BLOCK_SIZE) as u32));
        pieces::encode(&session.volume, data, &[&blocks], &mut out);
        out.into()
    });
    Ok(Merged { data, commit, bases })
}

fn moved(op: Op, from: ObjectId, to: ObjectId, base: u16) -> Op {
    match op {
        Op::Run(run) if run.object == from => {
            Op::Run(Run { object: to, offset: run.offset.saturating_add(base), ..run })
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Epoch, LogPlace};

    #[test]
    fn the_blocks_and_changes_of_merged_commits_are_those_of_each() {
        let session = Session { volume: [1; 16], id: [2; 16], epoch: Epoch::new(3), marked: true };
        let marks = Marks { stored: Seq::new(4), acknowledged: Seq::new(6) };
        let id = |seq| ObjectId::Log(LogPlace::of(3, seq));
        let run = |seq, offset| Op::Run(Run { zone: 4, start: 0, len: 2, object: id(seq), offset });
        let block = |fill| [fill; BLOCK_SIZE];
        let first =
            commit::commit(&session, marks, Seq::new(7), &[run(7, 0), Op::Reset(4)], &[&block(1), &block(2)]);
        let second = commit::commit(&session, marks, Seq::new(8), &[Op::Finish(9)], &[]);
        let third =
            commit::commit(&session, marks, Seq::new(9), &[run(9, 1)], &[&block(3), &block(4), &block(5)]);
        let data = ObjectId::Data { epoch: Epoch::new(3), number: 11 };
        let all = [(Seq::new(7), first), (Seq::new(8), second), (Seq::new(9), third)];
        let merged = merge(&session, marks, data, &all).unwrap();
        let pieces = pieces::decode(&session.volume, data, 0, &merged.data.unwrap()).unwrap().concat();
        assert_eq!(pieces, [1, 2, 3, 4, 5].map(block).concat());
        let in_data = |offset| Op::Run(Run { zone: 4, start: 0, len: 2, object: data, offset });
        let ops = vec![in_data(0), Op::Reset(4), Op::Finish(9), in_data(3)];
        let read = commit::read(&session.volume, LogPlace::of(3, 7), &merged.commit).unwrap();
        let entry = Entry::Commit { ops, places: 3 };
        assert_eq!(read, Record { session: [2; 16], marks, entry, inline: 0 });
        assert_eq!((merged.bases[&id(8)], merged.bases[&id(9)]), (2, 2));
        assert!(merge(&session, marks, data, &[(Seq::new(8), all[0].1.clone())]).is_err());
    }
}
