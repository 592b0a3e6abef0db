//! The volume with a tail included, for its owner: another writer took it over before the tail was uploaded.
use crate::names::ObjectId;
use crate::recover::{self, Recovered};
use crate::remote::Remote;
use crate::shelf::Shelf;
use crate::{Result, StoreError, commit, stage};

/// Commits that are in a cache and not in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Their epoch.
    pub epoch: u32,
    /// Number of commits that are part of the volume as it is read.
    pub commits: u64,
    /// Number of commits after one that is missing or damaged.
    pub unusable: u64,
}

/// Reads the state with the commits. `dir` is for messages.
pub(crate) async fn read(remote: &Remote, shelf: &dyn Shelf, dir: &str) -> Result<(Recovered, Left)> {
    let failed = |why: String| StoreError::Cache { dir: dir.to_owned(), why };
    let all = shelf.list().await.map_err(|e| failed(e.to_string()))?;
    let commits: Vec<(u32, u64)> = all
        .into_iter()
        .filter_map(|id| if let ObjectId::Log { epoch, seq } = id { Some((epoch, seq)) } else { None })
        .collect();
    let nothing = || failed("it has no commits that the store does not have".into());
    // Files of earlier epochs were uploaded: their removal was undone by a crash.
    let epoch = commits.iter().map(|(epoch, _)| *epoch).max().ok_or_else(nothing)?;
    let base_is_gone = || StoreError::TailBase { dir: dir.to_owned(), epoch };
    let session = session(remote, shelf, &commits, epoch).await?.ok_or_else(nothing)?;
    let found = recover::with_tail(remote, shelf, epoch, &session).await?;
    let (found, commits_read) = found.ok_or_else(base_is_gone)?;
    let unusable = commits.iter().filter(|&&(of, seq)| of == epoch && seq >= found.next.1).count() as u64;
    match (commits_read, unusable) {
        (0, 0) => Err(nothing()),
        _ => Ok((found, Left { epoch, commits: commits_read, unusable })),
    }
}

/// The session of the first intact commit.
async fn session(
    remote: &Remote,
    shelf: &dyn Shelf,
    commits: &[(u32, u64)],
    epoch: u32,
) -> Result<Option<[u8; 16]>> {
    let volume = recover::volume(remote).await?.id;
    for &(_, seq) in commits.iter().filter(|(of, _)| *of == epoch) {
        let bytes = stage::read(shelf, ObjectId::Log { epoch, seq }).await?;
        if let Ok(record) = commit::read(&volume, epoch, seq, &bytes) {
            return Ok(Some(record.session));
        }
    }
    Ok(None)
}
