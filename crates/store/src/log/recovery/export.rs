//! The volume with the commits of a spool, for its owner: another writer took it over before they were uploaded.
use crate::local::spool::Spool;
use crate::log::recovery::open::{self, Recovered};
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
    let commits: Vec<(u32, u64)> = all
        .into_iter()
        .filter_map(|id| if let ObjectId::Log { epoch, seq } = id { Some((epoch, seq)) } else { None })
        .collect();
    let nothing = || failed("it has no commits that the store does not have".into());
    // Files of earlier epochs were uploaded: their removal was undone by a crash.
    let epoch = commits.iter().map(|(epoch, _)| *epoch).max().ok_or_else(nothing)?;
    let base_is_gone = || StoreError::SpoolBase { dir: dir.to_owned(), epoch };
    let session = session(remote, spool, &commits, epoch).await?.ok_or_else(nothing)?;
    let found = open::with_spool(remote, spool, epoch, &session).await?;
    let (found, commits_read) = found.ok_or_else(base_is_gone)?;
    let unusable = commits.iter().filter(|&&(of, seq)| of == epoch && seq >= found.next.1).count() as u64;
    match (commits_read, unusable) {
        (0, 0) => Err(nothing()),
        _ => Ok((found, SpooledCommits { epoch, commits: commits_read, unusable })),
    }
}

/// The session of the first intact commit.
async fn session(
    remote: &Remote,
    spool: &dyn Spool,
    commits: &[(u32, u64)],
    epoch: u32,
) -> Result<Option<[u8; 16]>> {
    let volume = volume::read(remote).await?.id;
    for &(_, seq) in commits.iter().filter(|(of, _)| *of == epoch) {
        let bytes = writeback::read(spool, ObjectId::Log { epoch, seq }).await?;
        if let Ok(record) = commit::read(&volume, epoch, seq, &bytes) {
            return Ok(Some(record.session));
        }
    }
    Ok(None)
}
