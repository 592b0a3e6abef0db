//! Write-back to a local cache: acknowledged data is present as long as the cache exists; without it the
//! volume has the state of an uploaded commit.
use super::mem_spool::MemSpool;
use super::*;
use crate::ids::Epoch;
use crate::{CacheOptions, SpooledCommits, StoreError};
use std::path::Path as FsPath;
use tokio::time::sleep;

const LIMIT: u64 = 4 << 20;

fn mount(store: &FaultStore, spool: &MemSpool, takeover: bool) -> Result<StoreDevice> {
    open_cached(store, spool, LIMIT, takeover)
}

fn counter(device: &StoreDevice, name: &str) -> u64 {
    device.counters().into_iter().find(|(n, _)| n == name).unwrap().1
}

/// A store with a volume, and a mount of it whose uploads take a while.
fn slow(seed: u64) -> (FaultStore, MemSpool, StoreDevice) {
    let store = store(seed, Faults::default());
    drop(create(&store, SMALL));
    let spool = MemSpool::new(seed);
    let device = mount(&store, &spool, false).unwrap();
    store.set_faults(Faults { latency: Duration::from_secs(10), ..Faults::default() });
    (store, spool, device)
}

fn pass(device: &StoreDevice, time: Duration) {
    device.runtime().block_on(async { sleep(time).await });
}

fn kill(device: StoreDevice, store: &FaultStore, spool: &MemSpool) -> (FaultStore, MemSpool) {
    store.cut();
    device.abandon();
    let client = store.client();
    client.set_faults(Faults::default());
    (client, spool.after_cut(None))
}

#[test]
fn a_flush_does_not_wait_for_the_store_and_a_drain_does() {
    let (_, spool, device) = slow(1);
    let begun = now(&device);
    let elapsed = || device.runtime().block_on(async { begun.elapsed() });
    write(&device, 128, &[1, 2]);
    device.flush().unwrap();
    assert!(elapsed() < Duration::from_secs(1));
    assert_eq!((counter(&device, "store_cache_pending_objects"), spool.files()), (1, 1));
    assert!(counter(&device, "store_cache_pending_bytes") > 8192);
    device.drain().unwrap();
    assert!(elapsed() >= Duration::from_secs(10));
    assert_eq!(counter(&device, "store_cache_pending_bytes"), 0);
    pass(&device, Duration::from_secs(1));
    assert_eq!(spool.files(), 0);
}

#[test]
fn what_was_acknowledged_is_there_with_the_cache() {
    let (store, spool, device) = slow(2);
    write(&device, 128, &[7; 64]);
    write(&device, 192, &[8; 64]);
    device.flush().unwrap();
    write(&device, 0, &[1, 2]);
    device.flush().unwrap();
    assert_eq!(read(&device, 128, 128), [[7; 64], [8; 64]].concat(), "before it is uploaded");
    write(&device, 2, &[3]);
    let (store, spool) = kill(device, &store, &spool);
    let device = mount(&store, &spool, false).unwrap();
    assert_eq!(read(&device, 128, 128), [[7; 64], [8; 64]].concat());
    assert_eq!(read(&device, 0, 3), [1, 2, 0]);
    assert_eq!(spool.files(), 0, "it was uploaded");
    write(&device, 3, &[9]);
    drop(device);
    // After a clean unmount nothing is in the cache.
    let device = open(&store, Options { takeover: false, ..options() }).unwrap();
    assert_eq!(read(&device, 0, 4), [1, 2, 0, 9]);
}

#[test]
fn a_spool_behind_the_seal_of_another_writer_is_refused_and_kept() {
    let (store, spool, device) = slow(3);
    write(&device, 0, &[1]);
    device.drain().unwrap();
    write(&device, 1, &[2]);
    device.flush().unwrap();
    write(&device, 2, &[3]);
    device.flush().unwrap();
    let (store, spool) = kill(device, &store, &spool);
    let other = open(&store, options()).unwrap();
    assert_eq!(read(&other, 0, 3), [1, 0, 0]);
    write(&other, 1, &[4]);
    drop(other);
    let there = spool.files();
    assert!(there >= 2);
    for _ in 0..2 {
        match mount(&store, &spool, true).map(|_| ()) {
            Err(StoreError::SpoolRefused { commits: 2, epoch: 2, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(spool.files(), there);
    }
    let device = mount(&store, &MemSpool::new(33), false).unwrap();
    assert_eq!(read(&device, 0, 3), [1, 4, 0]);
}

/// The volume as the spool of a cache would have made it.
fn with_spool(store: &FaultStore, spool: &MemSpool) -> Result<StoreDevice> {
    let options = Options { read_only: true, with_spool: true, ..options() };
    let local = spool.local(LIMIT);
    StoreDevice::open_local(runtime(), Arc::new(store.clone()), &prefix(), &options, local)
}

/// A spool with three commits, with a data object, that another writer has cut off.
fn refused(seed: u64) -> (FaultStore, MemSpool) {
    let (store, spool, device) = slow(seed);
    write(&device, 0, &[1, 1]);
    write(&device, 192, &[6]);
    device.drain().unwrap();
    write(&device, 1, &[2]);
    device.flush().unwrap();
    write(&device, 128, &[7; 64]);
    device.flush().unwrap();
    write(&device, 2, &[3]);
    device.reset_zone(192).unwrap();
    device.flush().unwrap();
    kill(device, &store, &spool)
}

#[test]
fn what_a_refused_spool_would_have_made_can_be_read() {
    let (store, spool) = refused(40);
    let expected = |device: &StoreDevice| {
        assert_eq!((read(device, 0, 3), read(device, 128, 64)), (vec![1, 2, 3], vec![7; 64]));
        assert_eq!(read(device, 192, 1), [0]);
        assert_eq!(device.spooled(), Some(SpooledCommits { epoch: 2, commits: 3, unusable: 0 }));
        assert!(device.read_only() && device.write(0, &[&block(1)]).is_err());
    };
    // Also before it is refused.
    expected(&with_spool(&store, &spool).unwrap());
    let other = open(&store, options()).unwrap();
    write(&other, 0, &[8, 9]);
    other.flush().unwrap();
    let (names, files) = (store.names(), spool.files());
    expected(&with_spool(&store, &spool).unwrap());
    assert_eq!((store.names(), spool.files()), (names, files), "nothing was changed");
    assert_eq!(read(&other, 0, 3), [8, 9, 0]);
    // Closing writes a map; with the second one the last before the seal goes.
    drop(other);
    expected(&with_spool(&store, &spool).unwrap());
    let other = open(&store, Options { takeover: false, ..options() }).unwrap();
    write(&other, 0, &[10]);
    drop(other);
    match with_spool(&store, &spool).map(|_| ()) {
        Err(StoreError::SpoolBase { epoch: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(spool.files(), files);
}

#[test]
fn of_a_damaged_spool_what_comes_before_the_damage_is_read() {
    let (store, spool) = refused(41);
    let _other = open(&store, options()).unwrap();
    let third = *spool.of_epoch(2).last().unwrap();
    spool.alter_one(third, |bytes| bytes.truncate(50));
    let device = with_spool(&store, &spool).unwrap();
    assert_eq!(read(&device, 0, 3), [1, 2, 0]);
    assert_eq!(device.spooled(), Some(SpooledCommits { epoch: 2, commits: 2, unusable: 1 }));
    // Data that is damaged is an error where it is read.
    let data = spool.of_epoch(2)[0];
    spool.alter_one(data, |bytes| bytes[9] ^= 1);
    let device = with_spool(&store, &spool).unwrap();
    assert_eq!(read(&device, 0, 3), [1, 2, 0]);
    assert!(try_read(&device, 128, 1).is_err());
    let empty = with_spool(&store, &MemSpool::new(1)).map(|_| ()).unwrap_err().to_string();
    assert!(empty.contains("no commits that the store does not have"), "{empty}");
}

#[test]
fn a_writer_whose_upload_meets_a_seal_stops() {
    let (store, spool, device) = slow(4);
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
    assert_eq!(spool.files(), 1, "the spool is kept");
}

#[test]
fn a_mount_with_another_cache_needs_a_takeover() {
    let (store, spool, device) = slow(5);
    write(&device, 0, &[1]);
    device.flush().unwrap();
    let (store, _lost) = kill(device, &store, &spool);
    let elsewhere = MemSpool::new(55);
    assert!(matches!(mount(&store, &elsewhere, false).map(|_| ()), Err(StoreError::Held { .. })));
    let device = mount(&store, &elsewhere, true).unwrap();
    assert_eq!(read(&device, 0, 1), [0], "the volume of the last upload");
}

/// The process of the owner has ended, so only its cache prevents the mount.
#[test]
fn a_cache_elsewhere_is_named() {
    use crate::fence::owner::{CacheId, Owner};
    use crate::stats::Cause;
    use crate::wire::names::Name;
    let store = store(6, Faults::default());
    drop(create(&store, SMALL));
    runtime().block_on(async {
        let remote =
            crate::wire::remote::Remote::new(Arc::new(store.clone()), prefix(), Duration::from_secs(9));
        let cache = CacheId { id: [7; 16], path: "/fast/cache".into() };
        let owner = Owner { pid: i32::MAX as u32, ..Owner::this([1; 16], Some(cache)) };
        remote.put(Name::Epoch(Epoch::new(2)), owner.encode(), Cause::Open).await.unwrap();
    });
    let e = open(&store, Options { takeover: false, ..options() }).map(|_| ()).unwrap_err();
    let text = e.to_string();
    assert!(text.contains("-o store_cache=/fast/cache") && text.contains("--takeover"), "{text}");
    open(&store, options()).unwrap();
}

#[test]
fn commits_that_wait_are_uploaded_together() {
    let (store, spool, device) = slow(14);
    store.set_faults(Faults { latency: Duration::from_millis(20), ..Faults::default() });
    let (begun, puts) = (now(&device), store.puts());
    let zone = |i: u64| (2 + i / 64) * 64 + i % 64;
    for i in 0..200 {
        write(&device, zone(i), &[i as u8 + 1]);
        write(&device, 0, &[i as u8 + 1]);
        device.flush().unwrap();
        // At some stage of the uploads.
        pass(&device, Duration::from_millis(1));
        assert_eq!(read(&device, 0, 1), [i as u8 + 1]);
        assert_eq!(read(&device, zone(i / 2), 1), [i as u8 / 2 + 1]);
    }
    device.drain().unwrap();
    let elapsed = device.runtime().block_on(async { begun.elapsed() });
    assert!(elapsed < Duration::from_millis(400), "{elapsed:?}");
    assert!(store.puts() - puts < 80, "{}", store.puts() - puts);
    let content: Vec<u8> = (1..=200).collect();
    assert_eq!(read(&device, 128, 200), content);
    device.write_map().unwrap();
    for i in 0..100 {
        write(&device, zone(200 + i), &[7]);
        device.flush().unwrap();
    }
    pass(&device, Duration::from_millis(25));
    let (store, spool) = kill(device, &store, &spool);
    let device = mount(&store, &spool, false).unwrap();
    assert_eq!(read(&device, 128, 300), [content.clone(), vec![7; 100]].concat());
    assert_eq!(read(&device, 0, 1), [200]);
    drop(device);
    assert_eq!(read(&open(&store, options()).unwrap(), 128, 300), [content, vec![7; 100]].concat());
}

/// Two requests for each 8 MiB of commits, in addition to those of any mount.
#[test]
fn commits_of_a_spool_are_uploaded_together() {
    let (store, spool, device) = slow(42);
    for i in 0..300u64 {
        write(&device, i % 128, &[i as u8]);
        if i % 7 == 3 {
            write(&device, 128 + i / 7, &[i as u8]);
        }
        device.flush().unwrap();
    }
    let (store, spool) = kill(device, &store, &spool);
    let spooled = spool.files();
    assert!(spooled >= 290, "{spooled}");
    let puts = store.puts();
    let device = mount(&store, &spool, false).unwrap();
    assert!(store.puts() - puts < 12, "{}", store.puts() - puts);
    let expected: Vec<u8> = (0..128).map(|i: u64| if i < 44 { i + 256 } else { i + 128 } as u8).collect();
    assert_eq!((read(&device, 0, 128), spool.files()), (expected, 0));
    let sequential: Vec<u8> = (0..43u64).map(|i| (i * 7 + 3) as u8).collect();
    assert_eq!(read(&device, 128, 43), sequential);
}

/// A block is looked up on disk, or in the store, under the name of a commit that is merged meanwhile.
#[test]
fn blocks_are_read_while_their_commits_are_merged() {
    for seed in 40..100 {
        let (store, spool, device) = slow(seed);
        store.set_faults(Faults { latency: Duration::from_millis(2), ..Faults::default() });
        spool.set_faults(6, 0);
        let mut rng = segno_testkit::Rng::new(seed);
        device.runtime().block_on(async {
            let (mut flushes, mut reads) = (Vec::new(), Vec::new());
            for i in 0..60u8 {
                device.write_now(128 + u64::from(i), &block(i + 1)).await;
                flushes.push(tokio::spawn(device.flush_later()));
                sleep(Duration::from_millis(rng.below(30))).await;
                let at = i.saturating_sub(rng.below(30) as u8);
                reads.push((at, tokio::spawn(device.read_later(128 + u64::from(at)))));
            }
            for (at, read) in reads {
                assert_eq!(read.await.unwrap().unwrap(), at + 1, "seed {seed}");
            }
            for flush in flushes {
                flush.await.unwrap().unwrap();
            }
        });
    }
}

#[test]
fn a_full_cache_makes_writers_wait() {
    let (store, spool, device) = slow(7);
    for round in 0..6u8 {
        for zone in 2..12 {
            device.reset_zone(zone * 64).unwrap();
            write(&device, zone * 64, &[round + 1; 64]);
            device.flush().unwrap();
            let pending = counter(&device, "store_cache_pending_bytes");
            assert!(pending <= LIMIT, "{pending}");
        }
    }
    let (store, spool) = kill(device, &store, &spool);
    let device = mount(&store, &spool, false).unwrap();
    for zone in 2..12 {
        assert_eq!(read(&device, zone * 64, 64), [6; 64]);
    }
}

#[test]
fn a_disk_that_takes_nothing_acknowledges_nothing() {
    let (store, spool, device) = slow(8);
    spool.set_faults(0, 100);
    write(&device, 128, &[5; 64]);
    write(&device, 192, &[6; 20]);
    device.flush().unwrap();
    assert!(counter(&device, "store_cache_errors") > 0);
    assert_eq!(spool.files(), 0);
    let (store, _) = kill(device, &store, &spool);
    let device = mount(&store, &MemSpool::new(88), true).unwrap();
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
fn a_damaged_spool_is_not_uploaded() {
    let (store, spool, device) = slow(10);
    write(&device, 0, &[1]);
    device.flush().unwrap();
    let (store, spool) = kill(device, &store, &spool);
    let before = store.names();
    spool.alter(|bytes| bytes.truncate(100));
    let e = mount(&store, &spool, true).map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("log/00000002/0000000000000001"), "{e}");
    assert_eq!((store.names(), spool.files()), (before, 1));
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
    assert!(matches!(open(&client, reader.clone()).map(|_| ()), Err(StoreError::SpoolUnread { .. })));
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
        // Kept pieces are written in the background.
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
