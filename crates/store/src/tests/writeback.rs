//! Write-back to a local cache: what was acknowledged is there as long as the cache is; without it the volume is that of an
//! uploaded commit.
use super::cuts::{Model, change, faults, share};
use super::mem_shelf::MemShelf;
use super::*;
use crate::{CacheOptions, StoreError};
use segno_testkit::Rng;
use std::path::Path as FsPath;
use tokio::time::{Instant, sleep, timeout};

const LIMIT: u64 = 4 << 20;

fn mount(store: &FaultStore, shelf: &MemShelf, takeover: bool) -> Result<StoreDevice> {
    let options = Options { takeover, ..options() };
    let local = shelf.local(LIMIT);
    StoreDevice::open_local(
        runtime(),
        Arc::new(store.clone()),
        &prefix(),
        &options,
        local,
        Planted::default(),
    )
}

fn counter(device: &StoreDevice, name: &str) -> u64 {
    device.counters().into_iter().find(|(n, _)| n == name).unwrap().1
}

/// A store with a volume, and a mount of it whose uploads take a while.
fn slow(seed: u64) -> (FaultStore, MemShelf, StoreDevice) {
    let store = store(seed, Faults::default());
    drop(create(&store, SMALL));
    let shelf = MemShelf::new(seed);
    let device = mount(&store, &shelf, false).unwrap();
    store.set_faults(Faults { latency: Duration::from_secs(10), ..Faults::default() });
    (store, shelf, device)
}

fn pass(device: &StoreDevice, time: Duration) {
    device.runtime().block_on(async { sleep(time).await });
}

fn kill(device: StoreDevice, store: &FaultStore, shelf: &MemShelf) -> (FaultStore, MemShelf) {
    store.cut();
    device.abandon();
    let client = store.client();
    client.set_faults(Faults::default());
    (client, shelf.after_cut(None))
}

#[test]
fn a_flush_does_not_wait_for_the_store_and_a_drain_does() {
    let (_, shelf, device) = slow(1);
    let begun = device.runtime().block_on(async { Instant::now() });
    let elapsed = || device.runtime().block_on(async { begun.elapsed() });
    write(&device, 128, &[1, 2]);
    device.flush().unwrap();
    assert!(elapsed() < Duration::from_secs(1));
    assert_eq!((counter(&device, "store_cache_pending_objects"), shelf.files()), (1, 1));
    assert!(counter(&device, "store_cache_pending_bytes") > 8192);
    device.drain().unwrap();
    assert!(elapsed() >= Duration::from_secs(10));
    assert_eq!(counter(&device, "store_cache_pending_bytes"), 0);
    pass(&device, Duration::from_secs(1));
    assert_eq!(shelf.files(), 0);
}

#[test]
fn what_was_acknowledged_is_there_with_the_cache() {
    let (store, shelf, device) = slow(2);
    write(&device, 128, &[7; 64]);
    write(&device, 192, &[8; 64]);
    device.flush().unwrap();
    write(&device, 0, &[1, 2]);
    device.flush().unwrap();
    assert_eq!(read(&device, 128, 128), [[7; 64], [8; 64]].concat(), "before it is uploaded");
    write(&device, 2, &[3]);
    let (store, shelf) = kill(device, &store, &shelf);
    let device = mount(&store, &shelf, false).unwrap();
    assert_eq!(read(&device, 128, 128), [[7; 64], [8; 64]].concat());
    assert_eq!(read(&device, 0, 3), [1, 2, 0]);
    assert_eq!(shelf.files(), 0, "it was uploaded");
    write(&device, 3, &[9]);
    drop(device);
    // After a clean unmount nothing is in the cache.
    let device = open(&store, Options { takeover: false, ..options() }).unwrap();
    assert_eq!(read(&device, 0, 4), [1, 2, 0, 9]);
}

#[test]
fn a_tail_behind_the_seal_of_another_writer_is_refused_and_kept() {
    let (store, shelf, device) = slow(3);
    write(&device, 0, &[1]);
    device.drain().unwrap();
    write(&device, 1, &[2]);
    device.flush().unwrap();
    write(&device, 2, &[3]);
    device.flush().unwrap();
    let (store, shelf) = kill(device, &store, &shelf);
    let other = open(&store, options()).unwrap();
    assert_eq!(read(&other, 0, 3), [1, 0, 0]);
    write(&other, 1, &[4]);
    drop(other);
    let there = shelf.files();
    assert!(there >= 2);
    for _ in 0..2 {
        match mount(&store, &shelf, true).map(|_| ()) {
            Err(StoreError::TailRefused { commits: 2, epoch: 2, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(shelf.files(), there);
    }
    let device = mount(&store, &MemShelf::new(33), false).unwrap();
    assert_eq!(read(&device, 0, 3), [1, 4, 0]);
}

#[test]
fn a_writer_whose_upload_meets_a_seal_stops() {
    let (store, shelf, device) = slow(4);
    write(&device, 0, &[1]);
    device.drain().unwrap();
    let other = open(&store.client(), options()).unwrap();
    write(&device, 1, &[2]);
    device.flush().unwrap();
    pass(&device, Duration::from_secs(100));
    write(&other, 2, &[3]);
    other.flush().unwrap();
    let e = device.flush().unwrap_err();
    assert_eq!(e.kind(), std::io::ErrorKind::StaleNetworkFileHandle);
    device.write(3, &[&block(1)]).unwrap_err();
    assert_eq!(read(&device, 0, 2), [1, 2], "reads go on");
    assert_eq!(shelf.files(), 1, "the tail is kept");
}

#[test]
fn a_mount_with_another_cache_needs_a_takeover() {
    let (store, shelf, device) = slow(5);
    write(&device, 0, &[1]);
    device.flush().unwrap();
    let (store, _lost) = kill(device, &store, &shelf);
    let elsewhere = MemShelf::new(55);
    assert!(matches!(mount(&store, &elsewhere, false).map(|_| ()), Err(StoreError::Held { .. })));
    let device = mount(&store, &elsewhere, true).unwrap();
    assert_eq!(read(&device, 0, 1), [0], "the volume of the last upload");
}

/// The process of the holder has ended, so only its cache stands in the way.
#[test]
fn a_cache_elsewhere_is_named() {
    use crate::{names::Name, records::CacheOf, records::Holder, stats::Cause};
    let store = store(6, Faults::default());
    drop(create(&store, SMALL));
    runtime().block_on(async {
        let remote = crate::remote::Remote::new(Arc::new(store.clone()), prefix(), Duration::from_secs(9));
        let cache = CacheOf { id: [7; 16], path: "/fast/cache".into() };
        let holder = Holder { pid: i32::MAX as u32, ..Holder::this([1; 16], Some(cache)) };
        remote.put(Name::Epoch(2), holder.encode(), Cause::Open).await.unwrap();
    });
    let e = open(&store, Options { takeover: false, ..options() }).map(|_| ()).unwrap_err();
    let text = e.to_string();
    assert!(text.contains("-o cache=/fast/cache") && text.contains("--takeover"), "{text}");
    open(&store, options()).unwrap();
}

#[test]
fn a_full_cache_makes_writers_wait() {
    let (store, shelf, device) = slow(7);
    for round in 0..6u8 {
        for zone in 2..12 {
            device.reset_zone(zone * 64).unwrap();
            write(&device, zone * 64, &[round + 1; 64]);
            device.flush().unwrap();
            let pending = counter(&device, "store_cache_pending_bytes");
            assert!(pending <= LIMIT, "{pending}");
        }
    }
    let (store, shelf) = kill(device, &store, &shelf);
    let device = mount(&store, &shelf, false).unwrap();
    for zone in 2..12 {
        assert_eq!(read(&device, zone * 64, 64), [6; 64]);
    }
}

#[test]
fn a_disk_that_takes_nothing_acknowledges_nothing() {
    let (store, shelf, device) = slow(8);
    shelf.set_faults(0, 100);
    write(&device, 128, &[5; 64]);
    write(&device, 192, &[6; 20]);
    device.flush().unwrap();
    assert!(counter(&device, "store_cache_errors") > 0);
    assert_eq!(shelf.files(), 0);
    let (store, _) = kill(device, &store, &shelf);
    let device = mount(&store, &MemShelf::new(88), true).unwrap();
    assert_eq!((read(&device, 128, 64), read(&device, 192, 20)), (vec![5; 64], vec![6; 20]));
}

#[test]
fn an_outage_stops_the_volume_only_if_something_waits_for_the_store() {
    let (store, _, device) = slow(9);
    store.set_faults(Faults { error: 100, ..Faults::default() });
    write(&device, 0, &[1]);
    device.flush().unwrap();
    pass(&device, Duration::from_secs(10_000));
    write(&device, 1, &[2]);
    device.flush().unwrap();
    store.set_faults(Faults::default());
    device.drain().unwrap();
    store.set_faults(Faults { error: 100, ..Faults::default() });
    write(&device, 2, &[3]);
    device.drain().unwrap_err();
    device.flush().unwrap_err();
}

#[test]
fn a_damaged_tail_is_not_uploaded() {
    let (store, shelf, device) = slow(10);
    write(&device, 0, &[1]);
    device.flush().unwrap();
    let (store, shelf) = kill(device, &store, &shelf);
    let before = store.names();
    shelf.alter(|bytes| bytes.truncate(100));
    let e = mount(&store, &shelf, true).map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("log/00000002/0000000000000001"), "{e}");
    assert_eq!((store.names(), shelf.files()), (before, 1));
}

/// Mounts that are cut at any step of staging or upload, with the cache and without it.
fn run(seed: u64, planted: Planted) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let store = store(seed, Faults::default());
    drop(create(&store, SMALL));
    let mut shelf = MemShelf::new(seed);
    let mut others: Vec<MemShelf> = Vec::new();
    // States from the last that is certainly in the store on, and the last that was acknowledged.
    let (mut states, mut acked) = (vec![Model::default()], 0);
    let mut lost = false;
    let mounts = rng.between(2, 6);
    for mount in 0..=mounts {
        let client = store.client();
        store.set_faults(Faults { partial: 0, ..faults(&mut rng) });
        if rng.chance(25) {
            // A new cache, or one of a mount that others took the volume from.
            let next = if others.is_empty() || rng.chance(50) {
                MemShelf::new(rng.below(u64::MAX))
            } else {
                others.swap_remove(rng.below(others.len() as u64) as usize)
            };
            others.push(std::mem::replace(&mut shelf, next));
            lost = true;
        }
        shelf = shelf.after_cut(Some(&client));
        shelf.set_faults(rng.below(8), if rng.chance(30) { rng.below(50) } else { 0 });
        if mount == mounts {
            store.set_faults(Faults::default());
        } else if rng.chance(30) {
            shelf.cut_after(rng.below(30));
        }
        let kept: std::collections::HashMap<u32, _> =
            (0..20).map(|epoch| (epoch, shelf.of_epoch(epoch))).collect();
        let local = shelf.local(rng.between(1 << 16, LIMIT));
        let options = Options { takeover: lost, timeout: Duration::from_secs(20), ..options() };
        let runtime = runtime();
        let opened = runtime.block_on(async {
            let remote =
                crate::remote::Remote::new(Arc::new(client.clone()), prefix(), Duration::from_secs(20));
            let handle = tokio::runtime::Handle::current();
            let open =
                crate::device::Parts::open_with(Arc::new(remote), &options, Some(local), planted, &handle);
            timeout(Duration::from_secs(100_000), open).await
        });
        let device = match opened {
            Ok(Ok(parts)) if shelf.disarm() => StoreDevice::of(runtime, parts),
            Ok(Err(StoreError::TailRefused { epoch, .. })) if lost => {
                client.cut();
                // Files of earlier epochs whose removal was undone may go.
                if shelf.of_epoch(epoch) != kept[&epoch] {
                    return Err("a tail that was refused is not kept".into());
                }
                continue;
            }
            Ok(Err(e)) if mount == mounts => return Err(format!("the last mount: {e}")),
            // Cut off, or its requests failed for too long.
            _ => {
                client.cut();
                continue;
            }
        };
        let floor = if lost { 0 } else { acked };
        let at = (floor..states.len()).rev().find(|&at| states[at].seen(&device));
        let Some(at) = at else {
            return Err(format!(
                "mount {mount}, cache lost: {lost}: not a state from {floor} on of {}",
                states.len()
            ));
        };
        (states, acked, lost) = (vec![states[at].clone()], 0, false);
        if rng.chance(50) {
            client.cut_after(rng.below(60));
        }
        if rng.chance(50) {
            shelf.cut_after(rng.below(60));
        }
        for _ in 0..rng.below(40) {
            let mut next = states.last().cloned().unwrap();
            // A cut may leave a write waiting for ever.
            let changed = change(&device, &mut next, &mut rng);
            states.push(next);
            if !changed {
                break;
            }
            let wait = Duration::from_secs(1000);
            let what = rng.below(16);
            let ended = device.runtime().block_on(async {
                match what {
                    0..4 => timeout(wait, device.flush_now()).await.map(|done| done.map(|()| false)),
                    4 => timeout(wait, device.map_now()).await.map(|done| done.map(|()| true)),
                    5 => timeout(wait, device.drain_now()).await.map(|done| done.map(|()| true)),
                    6 => {
                        sleep(Duration::from_millis(1 << rng.below(16))).await;
                        Ok(Ok(false))
                    }
                    _ => Ok(Ok(false)),
                }
            });
            match ended {
                Ok(Ok(true)) => (states, acked) = (vec![states.last().cloned().unwrap()], 0),
                Ok(Ok(false)) if what < 4 => acked = states.len() - 1,
                Ok(Ok(false)) => {}
                _ => break,
            }
        }
        device.abandon();
        client.cut();
    }
    Ok(())
}

#[test]
fn cuts_lose_nothing_acknowledged_with_the_cache_and_leave_an_uploaded_commit_without() {
    for seed in share(300) {
        run(seed, Planted::default()).unwrap_or_else(|why| panic!("SEED={seed} RUNS=1: {why}"));
    }
}

#[test]
fn planted_bugs_are_found() {
    let none = Planted::default();
    for planted in [Planted { commit_early: true, ..none }, Planted { map_early: true, ..none }] {
        let found = (0..20_000).find(|&seed| run(seed, planted).is_err());
        println!(
            "{planted:?}: found after {:?} runs",
            found.unwrap_or_else(|| panic!("{planted:?} is not found"))
        );
    }
}

fn cached(dir: &FsPath, writeback: bool) -> Options {
    let cache = CacheOptions { dir: dir.to_owned(), bytes: 64 << 20, writeback };
    Options { cache: Some(cache), ..options() }
}

#[test]
fn a_directory_keeps_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let store = store(11, Faults::default());
    drop(create(&store, SMALL));
    let first = open(&store, cached(&cache, true)).unwrap();
    write(&first, 128, &[7; 64]);
    write(&first, 192, &[8; 64]);
    first.drain().unwrap();
    store.cut();
    write(&first, 0, &[3]);
    first.flush().unwrap();
    let client = store.client();
    let busy = open(&client, cached(&cache, true)).map(|_| ()).unwrap_err().to_string();
    assert!(busy.contains("another mount"), "{busy}");
    first.abandon();

    let reader = Options { read_only: true, ..cached(&cache, true) };
    assert!(matches!(open(&client, reader.clone()).map(|_| ()), Err(StoreError::TailUnread { .. })));
    let again = open(&client, Options { takeover: false, ..cached(&cache, true) }).unwrap();
    assert_eq!((read(&again, 0, 1), read(&again, 192, 64)), (vec![3], vec![8; 64]));
    drop(again);
    assert_eq!(std::fs::read_dir(cache.join("tail")).unwrap().count(), 0);
    let reader = open(&client, reader).unwrap();
    assert_eq!(read(&reader, 0, 1), [3]);
    drop(reader);

    // Another volume.
    let other = super::store(12, Faults::default());
    drop(create(&other, SMALL));
    let e = open(&other, cached(&cache, true)).map(|_| ()).unwrap_err().to_string();
    assert!(e.contains("another volume"), "{e}");
}

#[test]
fn blocks_that_were_read_come_from_the_disk_the_next_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(13, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 128, &[7; 64]);
    write(&device, 192, &[8; 64]);
    write(&device, 256, &[9; 64]);
    drop(device);
    for round in 0..3 {
        let device = open(&store, cached(dir.path(), false)).unwrap();
        assert_eq!(read(&device, 128, 128), [[7; 64], [8; 64]].concat());
        // What is kept is written behind the reader.
        pass(&device, Duration::from_secs(1));
        let (hits, gets) = (counter(&device, "store_cache_hits"), counter(&device, "store_read_gets"));
        if round > 0 {
            assert_eq!((hits, gets), (8, 0));
        }
    }
    let pieces = dir.path().join("pieces");
    let mut bytes = std::fs::read(&pieces).unwrap();
    bytes.iter_mut().for_each(|b| *b ^= 1);
    std::fs::write(&pieces, bytes).unwrap();
    let device = open(&store, cached(dir.path(), false)).unwrap();
    assert_eq!(read(&device, 128, 128), [[7; 64], [8; 64]].concat(), "damage is a miss");
}
