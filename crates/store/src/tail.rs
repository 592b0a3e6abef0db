//! What a mount with write-back had not uploaded when it ended: the next mount with the same directory does so before it takes
//! an epoch.
//!
//! The store decides where the tail begins: behind the commits that are there. The first place that neither the store nor the
//! directory has ends it, as commits are acknowledged without gaps.
use crate::core::UPLOADS;
use crate::names::{Name, ObjectId};
use crate::recover::{self, Recovered, WINDOW};
use crate::remote::Remote;
use crate::shelf::Shelf;
use crate::stats::Cause;
use crate::{Result, StoreError, commit, pieces, stage};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};

/// Times that the volume may change meanwhile.
const ATTEMPTS: u32 = 10;

/// What an epoch left.
#[derive(Debug, Default)]
struct Tail {
    data: Vec<ObjectId>,
    commits: BTreeSet<u64>,
}

/// Uploads everything that was acknowledged, and removes it from the shelf. `dir` is for messages.
pub(crate) async fn upload(remote: &Remote, shelf: &dyn Shelf, dir: &str) -> Result<()> {
    let failed = |e: std::io::Error| StoreError::Cache { dir: dir.to_owned(), why: e.to_string() };
    let mut tails = BTreeMap::<u32, Tail>::new();
    for id in shelf.list().await.map_err(failed)? {
        let tail = tails.entry(id.epoch()).or_default();
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
        let mut seq = from;
        loop {
            let run: Vec<u64> = (seq..).take_while(|s| self.commits.contains(s)).collect();
            if run.is_empty() {
                match behind(remote, volume, epoch, seq).await? {
                    Some(next) => seq = next,
                    None => return Ok(()),
                }
            }
            let put = |seq| self.upload_commit(remote, shelf, volume, ObjectId::Log { epoch, seq }, dir);
            let mut puts = stream::iter(run).map(put).buffered(WINDOW as usize);
            while let Some(next) = puts.try_next().await? {
                seq = seq.max(next);
            }
        }
    }

    /// Creates a commit in its place, and returns the next place. The store may have it as part of a merged commit; if it is
    /// created behind the first of those, readers of the log skip it.
    async fn upload_commit(
        &self,
        remote: &Remote,
        shelf: &dyn Shelf,
        volume: &[u8; 16],
        id: ObjectId,
        dir: &str,
    ) -> Result<u64> {
        let ObjectId::Log { epoch, seq } = id else { return Ok(0) };
        let bytes = stage::read(shelf, id).await?;
        commit::read(volume, epoch, seq, &bytes)?;
        match remote.put_object(id, bytes, Cause::Commit).await {
            Err(StoreError::Fenced { .. }) => {
                let next = behind(remote, volume, epoch, seq).await?;
                next.ok_or_else(|| self.refused(epoch, seq, dir))
            }
            other => other.map(|()| seq + 1),
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
