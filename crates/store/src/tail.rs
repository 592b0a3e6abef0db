//! What a mount with write-back had not uploaded when it ended: the next mount with the same directory does so before it takes
//! an epoch.
//!
//! The store decides where the tail begins: behind the commits that are there. The first place that neither the store nor the
//! directory has ends it, as commits are acknowledged without gaps.
use crate::commit::Session;
use crate::core::{Planted, UPLOADS};
use crate::merge::merge;
use crate::names::{Name, ObjectId};
use crate::queue::{MERGE_BYTES, MERGE_MIN};
use crate::recover::{self, Recovered};
use crate::remote::Remote;
use crate::shelf::Shelf;
use crate::stats::Cause;
use crate::{Result, StoreError, commit, pieces, stage};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};

/// Times that the volume may change meanwhile.
const ATTEMPTS: u32 = 10;
/// Commits in one object.
const MERGE_MOST: usize = 4096;
/// Part of the number of a data object with the blocks of merged commits; the first of them and their count are the rest.
const MERGED: u64 = 1 << 63;

/// What an epoch left.
#[derive(Debug, Default)]
struct Tail {
    data: Vec<ObjectId>,
    commits: BTreeSet<u64>,
    /// A bug that tests plant: merged commits go before their blocks.
    hasty: bool,
}

/// Uploads everything that was acknowledged, and removes it from the shelf. `dir` is for messages.
pub(crate) async fn upload(remote: &Remote, shelf: &dyn Shelf, dir: &str, planted: Planted) -> Result<()> {
    let failed = |e: std::io::Error| StoreError::Cache { dir: dir.to_owned(), why: e.to_string() };
    let mut tails = BTreeMap::<u32, Tail>::new();
    for id in shelf.list().await.map_err(failed)? {
        let tail =
            tails.entry(id.epoch()).or_insert_with(|| Tail { hasty: planted.merge_early, ..Tail::default() });
        match id {
            ObjectId::Data { .. } => tail.data.push(id),
            ObjectId::Log { seq, .. } => _ = tail.commits.insert(seq),
        }
    }
    for (epoch, tail) in tails {
        tail.upload(remote, shelf, epoch, dir).await?;
        let commits = tail.commits.iter().map(|&seq| ObjectId::Log { epoch, seq });
        for id in commits.chain(tail.data.iter().copied()) {
            shelf.remove(id).await.map_err(failed)?;
        }
    }
    Ok(())
}

impl Tail {
    async fn upload(&self, remote: &Remote, shelf: &dyn Shelf, epoch: u32, dir: &str) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let found = recover::read_only(remote).await?;
            let from = match found.map.seals.get(&epoch) {
                Some(seal) if self.commits.contains(seal) => return Err(self.refused(epoch, *seal, dir)),
                // All of it is there already.
                Some(_) => return Ok(()),
                None if found.next.0 == epoch => found.next.1,
                // A listing that is not current: the epoch was taken before anything of it was staged.
                None => continue,
            };
            self.upload_from(remote, shelf, &found, epoch, from, dir).await?;
            // If the map is gone, what was read of the log may have been too old.
            let (of, seq) = found.base;
            if remote.head(Name::Map { epoch: of, seq }, Cause::Open).await?.is_some() {
                return Ok(());
            }
        }
        Err(StoreError::Unsettled(ATTEMPTS))
    }

    /// Uploads commits from a place on, after all data objects.
    async fn upload_from(
        &self,
        remote: &Remote,
        shelf: &dyn Shelf,
        found: &Recovered,
        epoch: u32,
        from: u64,
        dir: &str,
    ) -> Result<()> {
        let volume = &found.volume.id;
        let put = |id: ObjectId| async move {
            let bytes = stage::read(shelf, id).await?;
            check_data(volume, id, &bytes)?;
            remote.put_object(id, bytes, Cause::Data).await
        };
        let mut puts = stream::iter(self.data.clone()).map(put).buffer_unordered(UPLOADS);
        while puts.try_next().await?.is_some() {}
        // One after the other: what follows an object of the log begins where that one ends, and it may not be ours.
        let mut seq = from;
        loop {
            let run = self.read_run(shelf, epoch, seq).await?;
            let next = match run.as_slice() {
                [] => behind(remote, volume, epoch, seq).await?,
                [(_, one), rest @ ..] if rest.len() < MERGE_MIN as usize - 1 => {
                    commit::read(volume, epoch, seq, one)?;
                    Some(self.create(remote, volume, epoch, (seq, 1), one.clone(), dir).await?)
                }
                run => Some(self.upload_merged(remote, volume, epoch, run, dir).await?),
            };
            match next {
                Some(next) => seq = next,
                None => return Ok(()),
            }
        }
    }

    /// Reads commits from a place on, as many as may be one object.
    async fn read_run(&self, shelf: &dyn Shelf, epoch: u32, from: u64) -> Result<Vec<(u64, Bytes)>> {
        let (mut run, mut bytes) = (Vec::new(), 0);
        for seq in (from..).take(MERGE_MOST).take_while(|seq| self.commits.contains(seq)) {
            let commit = stage::read(shelf, ObjectId::Log { epoch, seq }).await?;
            bytes += commit.len() as u64;
            if bytes > MERGE_BYTES && !run.is_empty() {
                break;
            }
            run.push((seq, commit));
        }
        Ok(run)
    }

    /// Creates an object for several commits in the place of the first, behind the one with their blocks.
    async fn upload_merged(
        &self,
        remote: &Remote,
        volume: &[u8; 16],
        epoch: u32,
        run: &[(u64, Bytes)],
        dir: &str,
    ) -> Result<u64> {
        let (first, places) = (run.first().map_or(0, |(seq, _)| *seq), run.len() as u64);
        // A name that only these commits give: objects never change, and the mount that ended counts from 1.
        let id = ObjectId::Data { epoch, number: MERGED | first << 16 | places };
        let session = Session { volume: *volume, id: [0; 16], epoch };
        let merged = merge(&session, id, run)?;
        if self.hasty {
            self.create(remote, volume, epoch, (first, places), merged.commit.clone(), dir).await?;
        }
        if let Some(blocks) = merged.data {
            remote.put_object(id, blocks, Cause::Data).await?;
        }
        self.create(remote, volume, epoch, (first, places), merged.commit, dir).await
    }

    /// Creates an object in a place, and returns the place behind what is there then: another one, if it was sent by the mount
    /// that ended and arrived late.
    async fn create(
        &self,
        remote: &Remote,
        volume: &[u8; 16],
        epoch: u32,
        (seq, places): (u64, u64),
        bytes: Bytes,
        dir: &str,
    ) -> Result<u64> {
        match remote.put_object(ObjectId::Log { epoch, seq }, bytes, Cause::Commit).await {
            Err(StoreError::Fenced { .. }) => {
                let next = behind(remote, volume, epoch, seq).await?;
                next.ok_or_else(|| self.refused(epoch, seq, dir))
            }
            other => other.map(|()| seq.saturating_add(places)),
        }
    }

    fn refused(&self, epoch: u32, place: u64, dir: &str) -> StoreError {
        let commits = self.commits.range(place..).zip(place..).take_while(|(a, b)| **a == *b).count() as u64;
        StoreError::TailRefused { dir: dir.to_owned(), epoch, commits }
    }
}

/// The place behind a commit that the store has in a place.
async fn behind(remote: &Remote, volume: &[u8; 16], epoch: u32, seq: u64) -> Result<Option<u64>> {
    let Some(bytes) = remote.get(Name::log(epoch, seq), Cause::Open).await? else { return Ok(None) };
    Ok(match commit::read(volume, epoch, seq, &bytes) {
        Ok((commit::Entry::Commit { places, .. }, _)) => Some(seq + u64::from(places)),
        _ => None,
    })
}

/// Damage stays on the host where it is.
fn check_data(volume: &[u8; 16], id: ObjectId, bytes: &Bytes) -> Result<()> {
    match pieces::decode(volume, id, 0, bytes) {
        Some(_) => Ok(()),
        None => Err(StoreError::Unreadable {
            object: Name::Object(id).to_string(),
            why: "its content is not what was written".into(),
        }),
    }
}
