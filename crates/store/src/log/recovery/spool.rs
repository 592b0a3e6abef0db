//! Objects that a mount with write-back had not uploaded when it ended. The next mount with the same
//! directory uploads them before it takes an epoch.
//!
//! The store determines where the upload begins: after the commits that it has. The first place that neither
//! the store nor the spool has ends it, as commits are acknowledged without gaps. Objects are uploaded only to
//! the epoch of their writer, as names are used again after a bucket was set back to an
//! earlier state.
use crate::fence::epoch::Session;
use crate::fence::owner;
use crate::ids::{Epoch, LogPlace, Seq};
use crate::local::spool::Spool;
use crate::log::commit::{self, Entry, Marks, Record, WINDOW};
use crate::log::recovery::open;
use crate::log::upload::merge::merge;
use crate::log::upload::queue::{MERGE_BYTES, MERGE_MIN, UPLOADS};
use crate::log::upload::writeback;
use crate::log::volume;
use crate::stats::Cause;
use crate::wire::names::{Name, ObjectId};
use crate::wire::pieces;
use crate::wire::remote::Remote;
use crate::{Result, StoreError};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Times that the volume may change meanwhile.
const ATTEMPTS: u32 = 10;
/// Maximum number of commits in one object.
const MERGE_MOST: usize = 4096;
/// Flag in the number of a data object with the blocks of merged commits. The rest is the first of them and
/// their count.
const MERGED: u64 = 1 << 63;

/// Objects of one epoch.
#[derive(Debug, Default)]
struct Spooled {
    data: Vec<ObjectId>,
    commits: BTreeSet<Seq>,
}

/// Uploads everything that was acknowledged, and removes it from the spool. `dir` is for messages.
pub(crate) async fn upload(remote: &Remote, spool: &dyn Spool, dir: &str) -> Result<()> {
    let failed = |e: std::io::Error| StoreError::Cache { dir: dir.to_owned(), why: e.to_string() };
    let mut epochs = BTreeMap::<Epoch, Spooled>::new();
    for id in spool.list().await.map_err(failed)? {
        let spooled = epochs.entry(id.epoch()).or_default();
        match id {
            ObjectId::Data { .. } => spooled.data.push(id),
            ObjectId::Log(LogPlace { seq, .. }) => _ = spooled.commits.insert(seq),
        }
    }
    for (epoch, spooled) in epochs {
        spooled.upload(remote, spool, epoch, dir).await?;
        let commits = spooled.commits.iter().map(|&seq| ObjectId::Log(LogPlace::new(epoch, seq)));
        for id in commits.chain(spooled.data.iter().copied()) {
            spool.remove(id).await.map_err(failed)?;
        }
    }
    Ok(())
}

/// The upload of the objects of one epoch.
struct Upload<'a> {
    remote: &'a Remote,
    spool: &'a dyn Spool,
    spooled: &'a Spooled,
    /// Session of the writer that left it.
    session: Session,
    /// For messages.
    dir: &'a str,
}

impl Spooled {
    async fn upload(&self, remote: &Remote, spool: &dyn Spool, epoch: Epoch, dir: &str) -> Result<()> {
        // Nothing refers to data without a commit.
        let Some(&first) = self.commits.first() else { return Ok(()) };
        let volume = volume::read(remote).await?;
        let first = LogPlace::new(epoch, first);
        let bytes = writeback::read(spool, ObjectId::Log(first)).await?;
        let id = commit::read(&volume.id, first, &bytes)?.session;
        let session = Session { volume: volume.id, id, epoch, marked: volume.marked };
        let upload = Upload { remote, spool, spooled: self, session, dir };
        if owner::session(remote, epoch).await? != Some(id) {
            return Err(upload.foreign());
        }
        for _ in 0..ATTEMPTS {
            let found = open::read_only(remote).await?;
            match found.map.seals.get(&epoch) {
                Some(seal) if self.commits.contains(seal) => return Err(upload.refused(*seal)),
                // The store has all of it already.
                Some(seal) => return upload.end_at(*seal).await,
                None if found.next.epoch == epoch => upload.from(found.next.seq).await?,
                // The listing is not current: the epoch was taken before anything of it was spooled.
                None => continue,
            }
            // If the map is gone, the log that was read may be outdated.
            if remote.head(Name::Map(found.base), Cause::Open).await?.is_some() {
                return Ok(());
            }
        }
        Err(StoreError::Unsettled(ATTEMPTS))
    }
}

impl Upload<'_> {
    /// Uploads commits from a place on, after all data objects.
    async fn from(&self, from: Seq) -> Result<()> {
        let put = |id: ObjectId| async move {
            let bytes = writeback::read(self.spool, id).await?;
            check_data(&self.session.volume, id, &bytes)?;
            self.remote.put_object(id, bytes, Cause::Data).await
        };
        let mut puts = stream::iter(self.spooled.data.clone()).map(put).buffer_unordered(UPLOADS);
        while puts.try_next().await?.is_some() {}
        // In sequence: each object of the log begins where the one before ends, which another client may have
        // written.
        let mut seq = from;
        loop {
            let run = self.read_run(seq).await?;
            let next = match run.as_slice() {
                [] => self.behind(seq).await?,
                [(_, one), rest @ ..] if rest.len() < MERGE_MIN as usize - 1 => {
                    Some(self.create((seq, 1), one.clone()).await?)
                }
                run => Some(self.upload_merged(run).await?),
            };
            match next {
                Some(next) => seq = next,
                None => return self.end_at(seq).await,
            }
        }
    }

    /// Reads commits from a place on, as many as fit into one object.
    async fn read_run(&self, from: Seq) -> Result<Vec<(Seq, Bytes)>> {
        let (mut run, mut bytes) = (Vec::new(), 0);
        for seq in from.onwards().take(MERGE_MOST).take_while(|seq| self.spooled.commits.contains(seq)) {
            let (commit, _) = self.read(seq).await?;
            bytes += commit.len() as u64;
            if bytes > MERGE_BYTES && !run.is_empty() {
                break;
            }
            run.push((seq, commit));
        }
        Ok(run)
    }

    /// Reads a commit of this writer.
    async fn read(&self, seq: Seq) -> Result<(Bytes, Record)> {
        let place = self.session.place(seq);
        let bytes = writeback::read(self.spool, ObjectId::Log(place)).await?;
        let record = commit::read(&self.session.volume, place, &bytes)?;
        if record.session != self.session.id {
            return Err(self.foreign());
        }
        Ok((bytes, record))
    }

    /// Ends the upload at a place that neither the store nor the directory has. Its commit must not have been
    /// acknowledged.
    async fn end_at(&self, place: Seq) -> Result<()> {
        let later = || self.spooled.commits.range((Bound::Excluded(place), Bound::Unbounded));
        for &seq in later() {
            if seq.since(place) >= WINDOW || self.read(seq).await?.1.marks.acknowledged >= place {
                return Err(StoreError::SpoolGap {
                    dir: self.dir.to_owned(),
                    epoch: self.session.epoch.get(),
                    commits: later().count() as u64,
                    missing: place.get(),
                });
            }
        }
        Ok(())
    }

    /// Creates an object for several commits in the place of the first, after the object with their blocks.
    async fn upload_merged(&self, run: &[(Seq, Bytes)]) -> Result<Seq> {
        let epoch = self.session.epoch;
        let (first, places) = (run.first().map_or(Seq::FIRST, |(seq, _)| *seq), run.len() as u32);
        // A name that only these commits give, as objects never change. The mount that ended has numbers from
        // 1 on.
        let id = ObjectId::Data { epoch, number: MERGED | first.get() << 16 | u64::from(places) };
        // Objects are created one after the other.
        let before = first.previous();
        let merged = merge(&self.session, Marks { stored: before, acknowledged: before }, id, run)?;
        if let Some(blocks) = merged.data {
            self.remote.put_object(id, blocks, Cause::Data).await?;
        }
        self.create((first, places), merged.commit).await
    }

    /// Creates an object in a place, and returns the place after it. If the ended mount sent another object
    /// that arrived late, returns the place after that one.
    async fn create(&self, (seq, places): (Seq, u32), bytes: Bytes) -> Result<Seq> {
        let id = ObjectId::Log(self.session.place(seq));
        match self.remote.put_object(id, bytes, Cause::Commit).await {
            Err(StoreError::Fenced { .. }) => self.behind(seq).await?.ok_or_else(|| self.refused(seq)),
            other => other.and_then(|()| Ok(seq.after(places)?)),
        }
    }

    /// The place after the commit that the store has in a place.
    async fn behind(&self, seq: Seq) -> Result<Option<Seq>> {
        let place = self.session.place(seq);
        let Some(bytes) = self.remote.get(Name::log(place), Cause::Open).await? else { return Ok(None) };
        Ok(match commit::read(&self.session.volume, place, &bytes) {
            Ok(Record { entry: Entry::Commit { places, .. }, .. }) => Some(seq.after(places)?),
            _ => None,
        })
    }

    fn refused(&self, place: Seq) -> StoreError {
        let from = self.spooled.commits.range(place..);
        let commits = from.zip(place.onwards()).take_while(|(a, b)| **a == *b).count() as u64;
        StoreError::SpoolRefused { dir: self.dir.to_owned(), epoch: self.session.epoch.get(), commits }
    }

    fn foreign(&self) -> StoreError {
        let commits = self.spooled.commits.len() as u64;
        StoreError::SpoolForeign { dir: self.dir.to_owned(), epoch: self.session.epoch.get(), commits }
    }
}

/// Checks a data object before it is uploaded: damaged content stays on this host.
fn check_data(volume: &[u8; 16], id: ObjectId, bytes: &Bytes) -> Result<()> {
    match pieces::decode(volume, id, 0, bytes) {
        Some(_) => Ok(()),
        None => Err(StoreError::Unreadable {
            object: Name::Object(id).to_string(),
            why: "its content is not what was written".into(),
        }),
    }
}
