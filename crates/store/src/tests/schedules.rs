//! Writers that take the volume from each other, with the deleter of each, under pauses of any length: an
//! acknowledged commit is in every later state.
use super::cuts::share;
use super::*;
use crate::device::OpenVolume;
use crate::log::writer::Writer;
use crate::stats::Cause;
use crate::wire::remote::Remote;
use parking_lot::Mutex;
use segno_testkit::Rng;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

/// Blocks that are each written once; a writer continues after the ones that it finds.
const PLACES: u64 = 60;

/// Acknowledged writes: place and value.
type Ledger = Arc<Mutex<Vec<(u64, u8)>>>;

async fn mount(store: &FaultStore, grace: Duration) -> Result<OpenVolume> {
    let remote = Arc::new(Remote::new(Arc::new(store.client()), prefix(), Duration::from_secs(100)));
    let options = Options { grace, ..options() };
    OpenVolume::open(remote, &options, &Handle::current()).await
}

async fn places(open: &OpenVolume) -> Result<Vec<u8>> {
    let mut into: Vec<Block> = (0..PLACES).map(|_| Block::zeroed()).collect();
    open.reader.read(0, &mut into, Cause::Read).await?;
    Ok(into.iter().map(|b| b.0[0]).collect())
}

/// Whether a state has everything that was acknowledged before.
fn verify(found: Vec<u8>, acked: &[(u64, u8)], when: &str) -> Result<Vec<u8>, String> {
    for &(place, value) in acked {
        let there = found[place as usize];
        if there != value {
            return Err(format!("{when}: place {place} has {there}, {value} was acknowledged"));
        }
    }
    Ok(found)
}

/// Writes blocks and flushes them, two flushes at a time now and then.
async fn append(writer: &Arc<Writer>, next: u64, rng: &mut Rng, ledger: &Ledger) -> Option<u64> {
    let values: Vec<u8> = (0..rng.between(1, 3)).map(|_| rng.between(1, 255) as u8).collect();
    let mut flushes = Vec::new();
    for (place, &value) in (next..PLACES).zip(&values) {
        writer.write(place, &[&block(value)]).await.ok()?;
        let (writer, ledger) = (writer.clone(), ledger.clone());
        flushes.push(tokio::spawn(async move {
            let done = writer.flush().await.is_ok();
            if done {
                ledger.lock().push((place, value));
            }
            done
        }));
        // Closes the group before the next block.
        sleep(Duration::from_millis(rng.below(2))).await;
    }
    for flush in flushes {
        if !flush.await.ok()? {
            return None;
        }
    }
    Some(next + values.len() as u64)
}

/// A machine: mounts, writes, writes maps, and stops somewhere, up to three times.
async fn writer(store: FaultStore, ledger: Ledger, mut rng: Rng) -> Result<(), String> {
    let grace = Duration::from_secs(rng.below(100));
    for _ in 0..rng.between(1, 3) {
        sleep(Duration::from_millis(1 << rng.below(20))).await;
        let acked = ledger.lock().clone();
        let Ok(open) = mount(&store, grace).await else { continue };
        // A mount that was overtaken meanwhile may miss objects; too many faults stop others.
        let Ok(found) = places(&open).await else { continue };
        let found = verify(found, &acked, "at a mount")?;
        let mut next = found.iter().rposition(|&v| v != 0).map_or(0, |at| at as u64 + 1);
        let Some((writer, map_writer)) = &open.writer else { continue };
        for _ in 0..rng.below(5) {
            match append(writer, next, &mut rng, &ledger).await {
                Some(after) => next = after,
                None => break,
            }
            if rng.chance(40) {
                // Cut off in the middle, now and then.
                let patience = Duration::from_millis(1 << rng.below(24));
                if !matches!(timeout(patience, map_writer.write_map()).await, Ok(Ok(()))) {
                    break;
                }
                sleep(Duration::from_secs(rng.below(200))).await;
                let _refused_if_fenced = map_writer.delete_due().await;
            }
        }
        if rng.chance(30) {
            let _refused_if_fenced = map_writer.close().await;
        }
        writer.fail(&crate::StoreError::Unsettled(0));
    }
    Ok(())
}

fn run(seed: u64) -> Result<(), String> {
    let runtime = runtime();
    runtime.block_on(async {
        let mut rng = Rng::new(seed);
        let store = FaultStore::new(seed, Faults::default());
        let remote = Remote::new(Arc::new(store.client()), prefix(), Duration::from_secs(100));
        crate::device::create(&remote, SMALL, false, false).await.unwrap();
        store.set_faults(Faults { error: 3, lost: 3, delay_bits: rng.between(1, 20), ..Faults::default() });
        let ledger = Ledger::default();
        let writers: Vec<_> = (0..3)
            .map(|i| tokio::spawn(writer(store.clone(), ledger.clone(), Rng::for_thread(seed, i))))
            .collect();
        for writer in writers {
            writer.await.map_err(|e| e.to_string())??;
        }
        // Once with requests still under way, once after they have arrived.
        store.set_faults(Faults::default());
        for when in ["at the end", "after all"] {
            let acked = ledger.lock().clone();
            let open = mount(&store, Duration::ZERO).await.map_err(|e| e.to_string())?;
            let found = places(&open).await.map_err(|e| format!("{when}: {e}"))?;
            verify(found, &acked, when)?;
            open.writer.iter().for_each(|(writer, _)| writer.fail(&crate::StoreError::Unsettled(0)));
            sleep(Duration::from_secs(1 << 20)).await;
        }
        Ok(())
    })
}

#[test]
fn no_acknowledged_commit_is_lost_under_any_schedule() {
    for seed in share(500) {
        run(seed).unwrap_or_else(|why| panic!("SEED={seed} RUNS=1: {why}"));
    }
}
