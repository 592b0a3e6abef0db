//! The store itself, without a volume.
use super::simulated_store::{Conditions, SimulatedStore};
use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

const LARGE: usize = 8 << 20;
const IN_FLIGHT: usize = 8;

/// What the store does under the same latency, without errors and stalls.
#[derive(Clone, Copy, Debug)]
pub struct Raw {
    /// Median of a PUT of 4 KiB.
    pub put: Duration,
    /// 8 MiB objects, 8 in flight.
    pub write_mib_per_s: f64,
    pub read_mib_per_s: f64,
}

pub fn measure(latency: Duration, bytes: u64) -> Result<Raw> {
    let store = SimulatedStore::new(Conditions { latency, errors: 0, stalls: 0 }, 1);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    runtime.block_on(async {
        let mut puts = Vec::new();
        for i in 0..15 {
            let begun = Instant::now();
            store.put(&Path::from(format!("small/{i}")), vec![1; 4096].into()).await?;
            puts.push(begun.elapsed());
        }
        puts.sort();
        let paths = || (0..bytes / LARGE as u64).map(|i| Path::from(format!("large/{i}")));
        let store = &store;
        let rate = |begun: Instant| bytes as f64 / f64::from(1 << 20) / begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let writes = stream::iter(paths())
            .map(|path| async move { store.put(&path, vec![2; LARGE].into()).await.map(drop) });
        writes.buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
        let write_mib_per_s = rate(begun);
        let begun = Instant::now();
        let reads = stream::iter(paths()).map(|path| async move {
            store.get_opts(&path, Default::default()).await?.bytes().await.map(drop)
        });
        reads.buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
        let put = puts.get(puts.len() / 2).copied().unwrap_or_default();
        Ok(Raw { put, write_mib_per_s, read_mib_per_s: rate(begun) })
    })
}
