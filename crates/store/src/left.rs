//! The volume as a tail would have made it, for its owner: another writer took it over before the tail was uploaded.
use crate::names::ObjectId;
use crate::recover::{self, Recovered};
use crate::remote::Remote;
use crate::shelf::Shelf;
use crate::{Result, StoreError};

/// Commits that a cache has and the store has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Their epoch.
    pub epoch: u32,
    /// Those that are part of the volume as it is read.
    pub commits: u64,
    /// Those behind one that is missing or damaged.
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
    let Some((found, commits_read)) = recover::with_tail(remote, shelf, epoch).await? else {
        return Err(StoreError::TailBase { dir: dir.to_owned(), epoch });
    };
    let unusable = commits.iter().filter(|&&(of, seq)| of == epoch && seq >= found.next.1).count() as u64;
    match (commits_read, unusable) {
        (0, 0) => Err(nothing()),
        _ => Ok((found, Left { epoch, commits: commits_read, unusable })),
    }
}
