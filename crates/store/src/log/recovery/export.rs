//! The volume with the commits of a spool, for its owner: another writer took it over before they were uploaded.
use crate::ids::{Epoch, LogPlace};
use crate::local::spool::Spool;
use crate::log::recovery::open;
use crate::log::recovery::replay::Recovered;
use crate::log::upload::writeback;
use crate::log::{commit, volume};
use crate::wire::names::ObjectId;
use crate::wire::remote::Remote;
use crate::{Result, StoreError};

/// Commits that are in a cache and not in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpooledCommits {
    /// Their epoch.
    pub epoch: u32,
    /// Number of commits that are part of the volume as it is read.
    pub commits: u64,
    /// Number of commits after one that is missing or damaged.
    pub unusable: u64,
}

/// Reads the state with the commits. `dir` is for messages.
pub(crate) async fn read(
    remote: &Remote,
    spool: &dyn Spool,
    dir: &str,
) -> Result<(Recovered, SpooledCommits)> {
    let failed = |why: String| StoreError::Cache { dir: dir.to_owned(), why };
    let all = spool.list().await.map_err(|e| failed(e.to_string()))?;
    let commits: Vec<LogPlace> = all
        .into_iter()
        .filter_map(|id| if let ObjectId::Log(place) = id { Some(place) } else { None })
        .collect();
    let nothing = || failed("it has no commits that the store does not have".into());
    // Files of earlier epochs were uploaded: their removal was undone by a crash.
    let epoch = commits.iter().map(|place| place.epoch).max().ok_or_else(nothing)?;
    let base_is_gone = || StoreError::SpoolBase { dir: dir.to_owned(), epoch: epoch.get() };
    let session = session(remote, spool, &commits, epoch).await?.ok_or_else(nothing)?;
    let found = open::with_spool(remote, spool, epoch, &session).await?;
    let (found, commits_read) = found.ok_or_else(base_is_gone)?;
    let unusable = commits.iter().filter(|of| of.epoch == epoch && of.seq >= found.next.seq).count() as u64;
    match (commits_read, unusable) {
        (0, 0) => Err(nothing()),
        _ => Ok((found, SpooledCommits { epoch: epoch.get(), commits: commits_read, unusable })),
    }
}

/// The session of the first intact commit.
async fn session(
    remote: &Remote,
    spool: &dyn Spool,
    commits: &[LogPlace],
    epoch: Epoch,
) -> Result<Option<[u8; 16]>> {
    let volume = volume::read(remote).await?.id;
    for &place in commits.iter().filter(|place| place.epoch == epoch) {
        let bytes = writeback::read(spool, ObjectId::Log(place)).await?;
        if let Ok(record) = commit::read(&volume, place, &bytes) {
            return Ok(Some(record.session));
        }
    }
    Ok(None)
}
