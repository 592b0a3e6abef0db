//! What a store says of the writer of a volume, without opening it.
use crate::device::{OPEN_PATIENCE, runtime};
use crate::remote::Remote;
use crate::{Result, claim, recover};
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long each request is waited for that asks how a volume was closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Whether the store keeps a second writer out.
pub fn probe(store: Arc<dyn ObjectStore>, prefix: &Path) -> Result<bool> {
    let remote = Remote::new(store, prefix.clone(), OPEN_PATIENCE);
    runtime()?.block_on(claim::is_conditional(&remote))
}

/// Whether the volume's last writer has not ended its epoch.
pub fn is_held(store: Arc<dyn ObjectStore>, prefix: &Path) -> Result<bool> {
    let remote = Remote::new(store, prefix.clone(), OPEN_PATIENCE);
    runtime()?.block_on(async { Ok(recover::held(&remote).await?.is_some()) })
}

/// Whether this process of this host took the volume last and did not end its epoch. A store that does not answer is an error
/// after some seconds.
pub fn was_left_by(store: Arc<dyn ObjectStore>, prefix: &Path, pid: u32) -> Result<bool> {
    let remote = Remote::new(store, prefix.clone(), CLOSE_PATIENCE);
    remote.bound_requests(CLOSE_PATIENCE);
    let runtime = runtime()?;
    let left = runtime.block_on(async {
        match recover::held(&remote).await? {
            Some(epoch) => claim::is_held_by(&remote, epoch, pid).await,
            None => Ok(false),
        }
    });
    // A request that was given up may be in a system call.
    runtime.shutdown_background();
    left
}
